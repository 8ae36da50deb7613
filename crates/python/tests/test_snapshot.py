"""Snapshots and prefixed stores."""

from __future__ import annotations

import pytest

import alluvium


def test_a_snapshot_does_not_change(db: alluvium.DB) -> None:
    db.update({b"a": b"1", b"b": b"1"})
    with db.snapshot() as snapshot:
        db.update({b"a": b"2", b"c": b"2"})
        db.delete(b"b")
        assert snapshot.get(b"a") == snapshot[b"a"] == b"1"
        assert snapshot.get(b"c") is None and snapshot.get(b"c", b"none", verify_checksums=True) == b"none"
        assert snapshot.multi_get([b"c", b"b"]) == [None, b"1"]
        assert b"b" in snapshot and b"c" not in snapshot
        assert list(snapshot) == list(snapshot.items()) == [(b"a", b"1"), (b"b", b"1")]
        assert list(snapshot.keys()) == [b"a", b"b"] and list(snapshot.values()) == [b"1", b"1"]
        assert dict(snapshot) == {b"a": b"1", b"b": b"1"}
        raw = snapshot.raw_iterator()
        raw.seek_to_last()
        assert raw.key() == b"b"
        with pytest.raises(KeyError):
            snapshot[b"c"]
        iterator = snapshot.iterator(reverse=True, include_value=False)
    assert next(iterator) == b"b", "an iterator keeps the snapshot alive"
    snapshot.close()
    snapshot.release()
    for use in (lambda: snapshot.get(b"a"), lambda: snapshot.iterator(), lambda: snapshot.raw_iterator()):
        with pytest.raises(alluvium.ClosedError, match="the snapshot is closed"):
            use()


def test_closed_snapshots_are_released(db: alluvium.DB) -> None:
    snapshot = db.snapshot()
    assert db.stats()["snapshots"] == 1 and db.stats()["oldest_snapshot"] >= 0
    snapshot.close()
    assert db.stats()["snapshots"] == 0 and db.stats()["oldest_snapshot"] is None


def test_a_prefixed_db(db: alluvium.DB) -> None:
    db.update({b"a": b"0", b"p": b"0", b"p/": b"1", b"p/a": b"2", b"p/q/a": b"3", b"q": b"0"})
    part = db.prefixed_db(b"p/")
    assert part.db is db and part.prefix == b"p/"
    assert isinstance(part, alluvium.PrefixedDB) and not isinstance(part, alluvium.DB)
    assert repr(part) == "<alluvium.PrefixedDB with prefix b'p/'>"
    assert list(part) == [(b"", b"1"), (b"a", b"2"), (b"q/a", b"3")]
    inner = part.prefixed_db(b"q/")
    assert inner.db is db and inner.prefix == b"p/q/"
    assert dict(inner) == {b"a": b"3"}
    inner.put(b"b", b"4")
    assert part.get(b"q/b") == db.get(b"p/q/b") == b"4"
    assert list(part.iterator(start=b"a", stop=b"q/b", include_value=False)) == [b"a", b"q/a"]
    assert list(part.iterator(prefix=b"q/", include_value=False)) == [b"q/a", b"q/b"]
    with part.snapshot() as snapshot:
        part.delete(b"a")
        assert snapshot[b"a"] == b"2" and list(snapshot.keys()) == [b"", b"a", b"q/a", b"q/b"]
    part.compact_range()
    assert part.approximate_size(b"", b"r") > 0
    assert list(db.keys()) == [b"a", b"p", b"p/", b"p/q/a", b"p/q/b", b"q"]


def test_users_cannot_create_these_classes() -> None:
    for kind in (alluvium.PrefixedDB, alluvium.Snapshot, alluvium.Iterator, alluvium.WriteBatch, alluvium.Transaction):
        with pytest.raises(TypeError):
            kind()
