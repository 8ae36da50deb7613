"""Batches."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import alluvium


def test_a_batch_is_applied_in_order(db: alluvium.DB) -> None:
    db.put(b"b", b"0")
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.put(b"c", bytearray(b"1"))
    batch.delete(b"b")
    batch.delete(b"c")
    assert list(db) == [(b"b", b"0")]
    batch.write()
    assert list(db) == [(b"a", b"1")]
    db.delete(b"a")
    batch.write()
    assert list(db) == [(b"a", b"1")], "the contents of a batch stay"
    batch.clear()
    db.delete(b"a")
    batch.write()
    assert list(db) == []


def test_delete_range(db: alluvium.DB) -> None:
    for key in [b"a", b"b1", b"b2", b"c", b"d"]:
        db.put(key, b"0")
    db.delete_range(prefix=b"b")
    assert list(db.iterator(include_value=False)) == [b"a", b"c", b"d"]
    with db.write_batch() as batch:
        batch.put(b"a", b"hidden")
        batch.delete_range(start=b"a", stop=b"d")
        batch.put(b"b", b"1")
    assert list(db) == [(b"b", b"1"), (b"d", b"0")]
    inner = db.prefixed_db(b"in/")
    inner.put(b"x", b"1")
    inner.delete_range()
    assert list(db) == [(b"b", b"1"), (b"d", b"0")]
    with db.transaction() as transaction:
        transaction.delete_range(start=b"b", include_start=False)
        assert transaction.get(b"d") is None
    assert list(db) == [(b"b", b"1")]
    with pytest.raises(TypeError):
        db.delete_range(start=b"a", prefix=b"b")


def test_merge(tmp_path: Path) -> None:
    def number(n: int) -> bytes:
        return struct.pack("<q", n)

    path = tmp_path / "merge"
    with alluvium.open(path, merge_operator="add") as db:
        db.merge(b"visits", number(1))
        with db.write_batch() as batch:
            batch.merge(b"visits", number(2))
            batch.merge(b"visits", number(-8))
        with db.transaction() as transaction:
            transaction.merge(b"visits", number(100))
            assert transaction.get(b"visits") == number(95)
        db.prefixed_db(b"in/").merge(b"visits", number(5))
        assert list(db) == [(b"in/visits", number(5)), (b"visits", number(95))]
        with pytest.raises(alluvium.Error, match="refuses the operand"):
            db.merge(b"visits", b"1")
    # The store remembers its operator.
    with alluvium.open(path) as db:
        db.merge(b"visits", number(1), sync=True)
        assert db.get(b"visits") == number(96)
    with pytest.raises(alluvium.Error, match="merge operator"):
        alluvium.open(path, merge_operator="max")
    with pytest.raises(ValueError, match="'bitor'"):
        alluvium.open(path, merge_operator="alluvium.add")


def test_append(db: alluvium.DB) -> None:
    one, other = db.write_batch(), db.write_batch(sync=True)
    one.put(b"a", b"1")
    other.delete(b"a")
    other.put(b"b", b"2")
    one.append(other)
    one.append(one)
    one.write()
    assert list(db) == [(b"b", b"2")]
    with pytest.raises(TypeError):
        one.append([])  # type: ignore[arg-type]


def test_size(db: alluvium.DB) -> None:
    batch = db.write_batch()
    assert batch.approximate_size() == 0
    batch.put(b"abc", b"12345")
    assert batch.approximate_size() == 8


@pytest.mark.parametrize(("transaction", "written"), [(False, [b"a"]), (True, [])])
def test_an_exception_in_a_batch_block(db: alluvium.DB, transaction: bool, written: list[bytes]) -> None:
    with pytest.raises(ZeroDivisionError), db.write_batch(transaction=transaction, sync=True) as batch:
        batch.put(b"a", b"1")
        1 / 0
    assert list(db.keys()) == written
    assert batch.approximate_size() == 0


def test_an_invalid_batch_keeps_its_contents(db: alluvium.DB) -> None:
    batch = db.write_batch()
    with pytest.raises(alluvium.InvalidArgumentError), batch:
        batch.put(b"k" * 65537, b"")
    assert batch.approximate_size() == 65537
    with pytest.raises(alluvium.InvalidArgumentError):
        batch.write()


def test_a_batch_of_a_prefixed_db(db: alluvium.DB) -> None:
    with db.prefixed_db(b"p/").write_batch() as batch:
        batch.put(b"a", b"1")
        batch.delete(b"b")
    assert list(db) == [(b"p/a", b"1")]
