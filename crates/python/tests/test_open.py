"""Opening a store, and its options."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

import alluvium


def test_open_creates_a_store_and_db_does_not(path: Path) -> None:
    with pytest.raises(alluvium.Error, match="create_if_missing is false"):
        alluvium.DB(path)
    assert not path.exists()
    alluvium.open(path).close()
    alluvium.DB(path).close()
    with pytest.raises(alluvium.Error, match="error_if_exists is true"):
        alluvium.DB(path, error_if_exists=True)
    assert alluvium.DB(path, create_if_missing=True, error_if_exists=False).closed is False


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_names_of_every_kind(path: Path, kind: Any) -> None:
    name = kind(path / "ñämé")
    path.mkdir()
    with alluvium.open(name) as db:
        assert db.name == name
        assert repr(db) == f"<alluvium.DB with name {name!r}>"
    assert repr(db).endswith(" (closed)>")
    assert (path / "ñämé" / "MANIFEST").exists()
    with pytest.raises(AttributeError):
        db.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", [None, 7, object()])
def test_invalid_names(name: Any) -> None:
    with pytest.raises(TypeError, match="os.PathLike"):
        alluvium.open(name)


def test_a_store_is_opened_once(path: Path) -> None:
    with alluvium.open(path), pytest.raises(alluvium.AlreadyOpenError, match="is open in another process or handle"):
        alluvium.open(path)
    with pytest.raises(OSError), alluvium.open(path), alluvium.open(path):
        pass


def test_a_directory_of_something_else(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("Dear")
    with pytest.raises(alluvium.Error, match="no store"):
        alluvium.open(path)
    (path / "CURRENT").write_text("MANIFEST-000002\n")
    (path / "MANIFEST-000002").write_bytes(b"")
    with pytest.raises(alluvium.Error, match="import --from leveldb"):
        alluvium.open(path)
    assert (path / "letter.txt").read_text() == "Dear"


def test_options_of_leveldb_are_accepted(path: Path) -> None:
    options: dict[str, Any] = dict(
        paranoid_checks=True, write_buffer_size=16 << 20, max_open_files=512, lru_cache_size=300 << 20, block_size=2048,
        block_restart_interval=32, max_file_size=1 << 20, compression="snappy", bloom_filter_bits=10,
    )
    with alluvium.open(path, **options) as db:
        assert db.stats()["memory_budget"] == (2 * 16 << 20) + (300 << 20)
    with alluvium.open(path, memory=200 << 20, compression=None, sync_interval=None) as db:
        assert db.stats()["memory_budget"] == 200 << 20
    with alluvium.open(path) as db:
        assert db.stats()["memory_budget"] == 128 << 20


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"write_buffer_size": "much"}, TypeError),
        ({"lru_cache_size": "much"}, TypeError),
        ({"memory": "much"}, TypeError),
        ({"memory": 1}, alluvium.InvalidArgumentError),
        ({"memory": -1}, OverflowError),
        ({"compression": "zstd"}, ValueError),
        ({"compression": 7}, TypeError),
        ({"sync_interval": -1.0}, ValueError),
        ({"sync_interval": float("nan")}, ValueError),
        ({"create_if_missing": 1}, TypeError),
        ({"no_such_option": 1}, TypeError),
        ({"comparator": max}, ValueError),
        ({"comparator_name": b"max"}, ValueError),
        ({"comparator": b"max", "comparator_name": b"max"}, TypeError),
        ({"comparator": max, "comparator_name": "max"}, TypeError),
        ({"comparator": max, "comparator_name": b"max"}, alluvium.InvalidArgumentError),
    ],
)
def test_invalid_options(path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        alluvium.open(path, **options)
    assert not path.exists()


def test_compression_makes_files_smaller(path: Path) -> None:
    sizes = {}
    for compression in (None, "lz4", b"snappy"):
        with alluvium.open(path / str(compression), compression=compression) as db:
            for number in range(10_000):
                db.put(b"%09d" % number, b"x" * 100)
            db.compact_range()
            sizes[compression] = db.stats()["branch_bytes"]
    assert 0 < sizes["lz4"] < sizes[None] / 2
    assert sizes[b"snappy"] == sizes["lz4"]


def test_read_only(path: Path) -> None:
    with pytest.raises(alluvium.Error, match="no store"):
        alluvium.open(path, read_only=True)
    with alluvium.open(path) as writer:
        writer.put(b"a", b"1")
        with alluvium.open(path, read_only=True) as reader, alluvium.DB(path, read_only=True):
            writer.put(b"a", b"2")
            writer.put(b"b", b"2")
            assert reader.get(b"a") == b"1"
            assert reader.multi_get([b"a", b"b"]) == [b"1", None]
            assert list(reader) == list(reader.snapshot()) == [(b"a", b"1")]
            assert b"a" in reader and b"b" not in reader
            assert reader.approximate_size(b"a", b"b") > 0
            assert reader.get_property(b"leveldb.sstables") is not None
            assert reader.stats()["writes"] == 0
            for write in (
                lambda: reader.put(b"a", b"3"),
                lambda: reader.delete(b"a"),
                lambda: reader.pop(b"none", None),
                lambda: reader.setdefault(b"a", b"3"),
                lambda: reader.update({b"a": b"3"}),
                lambda: reader.modify(b"a", lambda old: old),
                lambda: reader.transaction(),
                lambda: reader.compact_range(),
                lambda: reader.sync(),
                lambda: reader.verify(),
            ):
                with pytest.raises(alluvium.ReadOnlyError, match="open for reading only"):
                    write()
        assert writer.get(b"a") == b"2"


def test_a_dropped_store_is_closed(path: Path) -> None:
    db = alluvium.open(path)
    db.put(b"a", b"1")
    iterator = iter(db)
    del db
    gc.collect()
    with pytest.raises(alluvium.AlreadyOpenError):
        alluvium.open(path)
    assert next(iterator) == (b"a", b"1")
    del iterator
    gc.collect()
    with alluvium.open(path) as db:
        assert db[b"a"] == b"1"


def test_version_numbers() -> None:
    assert alluvium.__leveldb_version__.startswith("1.")
    assert alluvium.__version__.count(".") == 2
