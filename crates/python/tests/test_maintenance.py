"""Checks, repairs and statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import alluvium


def fill(path: Path, **options: Any) -> None:
    with alluvium.open(path, **options) as db:
        for number in range(5000):
            db.put(b"%06d" % number, b"%06d" % number * 50)
        db.compact_range()


def damage(path: Path) -> str:
    """Change a byte in the middle of a branch file."""
    [file, *_] = sorted(path.glob("*.branch"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    return file.name


def test_verify(path: Path) -> None:
    fill(path)
    with alluvium.open(path) as db:
        checked = db.verify()
        assert checked["entries"] == 5000 and checked["branch_files"] >= 1
        assert db.verify(quick=True)["bytes"] < checked["bytes"]


def test_checkpoint(path: Path) -> None:
    copy = path.parent / "copy"
    with alluvium.open(path) as db:
        for number in range(5000):
            db.put(b"%06d" % number, b"old")
        made = db.checkpoint(copy, links_only=True)
        assert made["number"] == 5000 and made["files_linked"] > 0 and made["files_copied"] == 0
        db.put(b"000000", b"new")
        with alluvium.open(copy) as copied:
            assert len(list(copied)) == 5000 and copied[b"000000"] == b"old"
            del copied[b"000001"]
        assert b"000001" in db
        with pytest.raises(alluvium.Error, match="is not empty"):
            db.checkpoint(copy)
    with alluvium.open(path, read_only=True) as db, pytest.raises(alluvium.Error):
        db.checkpoint(path.parent / "other")


def test_changes(path: Path) -> None:
    with alluvium.open(path) as db:
        db[b"before"] = b"it"
        with pytest.raises(alluvium.InvalidArgumentError, match="keeps no changes"):
            db.changes(0)
    with pytest.raises(ValueError, match="needs 'keep_changes'"):
        alluvium.open(path, keep_changes_age=3)
    with alluvium.open(path, keep_changes=1 << 20, keep_changes_age=3600.0) as db:
        with pytest.raises(alluvium.ChangesTooOldError, match="not kept any more") as caught:
            db.changes(0)
        assert caught.value.oldest == 1
        changes = db.changes(1)
        assert list(changes) == []
        db[b"a"] = b"1"
        with db.write_batch() as batch:
            batch.put(b"b", b"2")
            batch.delete(b"a")
        users = db.keyspace("users", "append")
        users.merge(b"7", b"Ada")
        users.delete_range(start=b"x")
        assert list(changes) == [
            (2, [("put", "default", b"a", b"1")]),
            (3, [("put", "default", b"b", b"2"), ("delete", "default", b"a")]),
            (4, [("set_keyspace", "users")]),
            (5, [("merge", "users", b"7", b"Ada")]),
            (6, [("delete_range", "users", b"x", None)]),
        ]
        assert changes.through == 6
        db.drop_keyspace("users")
        position, operations = next(changes)
        assert position == 7 and operations[0] == ("drop_keyspace", "users")
        assert db.stats()["change_bytes"] > 0
    with pytest.raises(alluvium.ClosedError):
        next(changes)
    # The store remembers it, and a reader follows, too.
    with alluvium.open(path) as db:
        db[b"c"] = b"3"
        db.ingest([(b"d", b"4"), (b"e", b"5")])
    with alluvium.open(path, read_only=True) as db:
        found = list(db.changes(7))
        assert found[0] == (8, [("put", "default", b"c", b"3")])
        assert found[1] == (9, [("put", "default", b"d", b"4"), ("put", "default", b"e", b"5")])
    with alluvium.open(path, keep_changes=0) as db, pytest.raises(alluvium.InvalidArgumentError):
        db.changes(9)


def test_ingest(path: Path) -> None:
    with alluvium.open(path) as db:
        db[b"000007"] = b"old"
        other = db.keyspace("other")
        pairs = ((b"%06d" % number, bytearray(b"v" * (number % 300))) for number in range(20_000))
        assert db.ingest(pairs) == 20_000
        assert len(db[b"000299"]) == 299 and len(db[b"000007"]) == 7
        assert other.prefixed_db(b"p").ingest([(b"a", b"1"), (b"b", b"2")]) == 2
        assert list(other) == [(b"pa", b"1"), (b"pb", b"2")]
        assert db.ingest([]) == 0
        with pytest.raises(alluvium.InvalidArgumentError, match="pair 2 of the ingest.* is out of order"):
            db.ingest([(b"b", b"1"), (b"a", b"2")])
        with pytest.raises(TypeError):
            db.ingest([(b"x", "text")])  # type: ignore[list-item]

        def failing() -> Iterator[tuple[bytes, bytes]]:
            yield b"x", b"1"
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            db.ingest(failing())
        assert b"a" not in db and b"x" not in db
        assert db.stats()["ingests"] == 2

        def closing() -> Iterator[tuple[bytes, bytes]]:
            yield b"x", b"1"
            db.close()

        with pytest.raises(alluvium.ClosedError):
            db.ingest(closing())
    with alluvium.open(path) as db:
        assert b"x" not in db and len(list(db)) == 20_000


def test_damage_is_named(path: Path) -> None:
    fill(path, compression=None)
    name = damage(path)
    db = alluvium.open(path)
    # Background work may find the damage first; then the store is read-only for this reason, and closing says so.
    with pytest.raises(alluvium.Error, match=f"{name} at offset"):
        db.verify(quick=True)
        db.verify()
    read = []
    with pytest.raises(alluvium.CorruptionError, match=f"{name} at offset"):
        for key in db.keys():
            read.append(key)
    assert read == [b"%06d" % number for number in range(len(read))] and read, "the pairs before the damage are returned"
    with pytest.raises(alluvium.CorruptionError):
        db.multi_get(b"%06d" % number for number in range(5000))
    with contextlib.suppress(alluvium.ReadOnlyError):
        db.close()


def test_repair(path: Path) -> None:
    fill(path, compression=None)
    assert alluvium.repair_db(path)["changed"] is False
    name = damage(path)
    report = alluvium.repair_db(path, paranoid_checks=True)
    assert report["changed"] and report["losses"] and 0 < report["entries_saved"] < 5000
    assert any(name in lost for lost in report["losses"])
    with alluvium.open(path) as db:
        assert 4000 < len(list(db)) < 5000
        db.verify()
    with pytest.raises(alluvium.Error, match="no store"):
        alluvium.repair_db(path / "none")
    with alluvium.open(path), pytest.raises(alluvium.AlreadyOpenError):
        alluvium.repair_db(path)


def test_destroy(path: Path) -> None:
    fill(path)
    with alluvium.open(path), pytest.raises(alluvium.IOError):
        alluvium.destroy_db(path)
    alluvium.destroy_db(str(path))
    assert not path.exists()
    alluvium.destroy_db(path)
    path.mkdir()
    (path / "letter.txt").write_text("Dear")
    with pytest.raises(alluvium.Error):
        alluvium.destroy_db(path)
    assert (path / "letter.txt").exists()


def test_properties(db: alluvium.DB) -> None:
    db.update((b"%06d" % number, b"x" * 100) for number in range(5000))
    db.compact_range()
    stats = db.get_property(b"leveldb.stats")
    assert stats is not None and b"amplification" in stats
    tables = db.get_property(b"leveldb.sstables")
    assert tables is not None and b".branch" in tables and b"000000" in tables
    files = [int(db.get_property(b"leveldb.num-files-at-level%d" % level) or b"") for level in range(7)]
    assert sum(files) == db.stats()["branch_files"] == tables.count(b"\n")
    assert int(db.get_property(b"leveldb.approximate-memory-usage") or b"") > 0
    for unknown in (b"", b"stats", b"leveldb.", b"leveldb.num-files-at-level", b"leveldb.num-files-at-levelx", b"\xff"):
        assert db.get_property(unknown) is None


def test_statistics(db: alluvium.DB) -> None:
    db.put(b"a", b"12345")
    stats = db.stats()
    assert stats["writes"] == 1 and stats["user_bytes"] == 6 and stats["memory_entries"] == 1
    assert stats["failure"] is None and stats["running"] == [] and stats["disk_full"] is False
    assert stats["levels"][0]["nodes"] == 1


def test_sizes_and_compactions(db: alluvium.DB) -> None:
    db.update((b"%06d" % number, b"x" * 1000) for number in range(5000))
    half, all_of_it = db.approximate_sizes((b"0", b"002500"), (b"0", b"1"))
    assert 1_500_000 < half < 4_000_000 and 4_000_000 < all_of_it < 7_000_000
    assert db.approximate_size(b"0", b"1") == all_of_it
    assert db.approximate_sizes() == []
    for wrong in (None, b"ab", (b"a",), (1, 2)):
        with pytest.raises((TypeError, ValueError)):
            db.approximate_sizes(wrong)  # type: ignore[arg-type]
    for number in range(4000):
        db.delete(b"%06d" % number)
    db.compact_range(start=b"9", stop=b"0")
    db.compact_range(start=b"001000")
    db.compact_range(stop=b"001000")
    db.compact_range(start=b"", stop=b"\xff")
    assert db.stats()["memory_entries"] == 0
    assert db.stats()["levels"][-1]["entries"] == 1000
    assert len(list(db)) == 1000
