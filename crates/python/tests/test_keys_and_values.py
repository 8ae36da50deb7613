"""Single keys: reading, writing, and valid types."""

from __future__ import annotations

import array
from typing import Any

import pytest

import alluvium

KINDS: list[Any] = [bytes, bytearray, memoryview]


@pytest.mark.parametrize("value_kind", KINDS)
@pytest.mark.parametrize("key_kind", KINDS)
def test_keys_and_values_of_every_kind(db: alluvium.DB, key_kind: Any, value_kind: Any) -> None:
    key, value = key_kind(b"key\0\xff"), value_kind(b"\0value")
    db.put(key, value)
    assert db.get(key) == db.get(b"key\0\xff") == b"\0value"
    assert type(db.get(key)) is bytes
    assert db[key] == b"\0value" and key in db
    assert db.multi_get([key, value]) == [b"\0value", None]
    assert list(db.iterator(start=key, prefix=None, include_value=False)) == [b"key\0\xff"]
    db.delete(key)
    assert db.get(key) is None and key not in db


def test_the_empty_key_and_value(db: alluvium.DB) -> None:
    db.put(b"", b"")
    assert db.get(b"") == b"" and b"" in db
    assert list(db) == [(b"", b"")]


@pytest.mark.parametrize("wrong", ["text", 7, None, [1], array.array("B", b"x")])
def test_errors_name_the_wrong_type(db: alluvium.DB, wrong: Any) -> None:
    kind = type(wrong).__name__
    calls: list[Any] = [
        lambda: db.get(wrong),
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.delete(wrong),
        lambda: db[wrong],
        lambda: wrong in db,
        lambda: db.multi_get([b"", wrong]),
        lambda: db.write_batch().put(b"", wrong),
        lambda: db.iterator().seek(wrong),
        lambda: db.update([(b"", wrong)]),
        lambda: db.prefixed_db(wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=f"expected bytes, bytearray or memoryview, got {kind}"):
            call()
    assert list(db) == []


def test_memoryviews(db: alluvium.DB) -> None:
    numbers = array.array("I", [1, 2])
    db.put(b"numbers", memoryview(numbers))
    assert db.get(b"numbers") == numbers.tobytes()
    with pytest.raises(BufferError, match="not contiguous"):
        db.put(b"every other", memoryview(b"abcdef")[::2])
    assert b"every other" not in db


def test_defaults(db: alluvium.DB) -> None:
    marker = object()
    assert db.get(b"none") is None
    assert db.get(b"none", marker) is marker
    assert db.get(b"none", default=b"given", verify_checksums=True, fill_cache=False) == b"given"
    with pytest.raises(TypeError):
        db.get(b"none", b"default", True)  # type: ignore[call-overload]


def test_sizes(db: alluvium.DB) -> None:
    db.put(b"k" * 65536, b"v" * (3 << 20))
    assert db.get(b"k" * 65536) == b"v" * (3 << 20)
    with pytest.raises(alluvium.InvalidArgumentError, match="65537 bytes"):
        db.put(b"k" * 65537, b"")
    with pytest.raises(ValueError):
        db.delete(b"k" * 65537)
    assert db.get(b"k" * 65537) is None


def test_synced_writes(db: alluvium.DB) -> None:
    db.put(b"a", b"1", sync=True)
    assert db.stats()["synced_number"] == db.stats()["last_number"]
    db.delete(b"a", sync=True)
    db.put(b"b", b"1")
    db.sync()
    assert db.stats()["synced_number"] == db.stats()["last_number"]


def test_a_value_is_copied(db: alluvium.DB) -> None:
    value = bytearray(b"one")
    db.put(b"a", value)
    value[:] = b"two"
    assert db.get(b"a") == b"one"
