"""Keyspaces: keys of their own in one store."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

import alluvium
from conftest import run


def test_a_keyspace_is_a_store_of_its_own(db: alluvium.DB) -> None:
    users, emails = db.keyspace("users"), db.keyspace("emails")
    assert (users.name, users.db, repr(users)) == ("users", db, '<alluvium.Keyspace with name "users">')
    assert db.keyspace_names() == ["emails", "users"]
    db[b"a"] = b"default"
    users.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert emails.get(b"a") is None and db[b"a"] == db.keyspace("default")[b"a"] == b"default"
    assert users.multi_get([b"b", b"x"]) == [b"2", None] and b"b" in users and b"b" not in db
    assert list(users.iterator(start=b"b", reverse=True)) == [(b"c", b"3"), (b"b", b"2")]
    assert list(users.keys()) == [b"a", b"b", b"c"] and list(users.values()) == [b"1", b"2", b"3"]
    raw = users.raw_iterator()
    raw.seek_to_last()
    assert raw.item() == (b"c", b"3")
    assert users.modify(b"a", lambda old: (old or b"") + b"!") == b"1!"
    assert users.compare_and_swap(b"a", b"1!", b"1") and not users.put_if_absent(b"a", b"2")
    assert users.setdefault(b"d", b"4") == b"4" and users.pop(b"d") == b"4"
    users.put(b"e", b"5", sync=True)
    users.delete(b"e", sync=True)
    del users[b"a"]
    users.delete_range(start=b"c")
    assert dict(users) == {b"b": b"2"}
    assert users.approximate_size(b"a", b"z") > 0 == emails.approximate_size(b"a", b"z")
    assert users.approximate_sizes((b"a", b"z"), (b"x", b"z"))[1] == 0
    users.compact_range()
    assert list(users) == [(b"b", b"2")] and list(db) == [(b"a", b"default")]


def test_clear_empties_what_the_view_shows(db: alluvium.DB) -> None:
    users = db.keyspace("users")
    for view in (db, users):
        view.update({b"a": b"", b"p/a": b"", b"p/b": b""})
    part = users.prefixed_db(b"p/")
    assert part.db is db and list(part.keys()) == [b"a", b"b"]
    part.clear()
    assert list(users.keys()) == [b"a"]
    users.clear(sync=True)
    assert list(users) == [] and len(list(db)) == 3
    db.clear()
    assert list(db) == []


def test_a_keyspace_has_an_operator_and_a_durability(path: Path) -> None:
    one = struct.pack("<q", 1)
    with alluvium.open(path) as db:
        visits = db.keyspace("visits", "add", durability="sync")
        visits.merge(b"home", one)
        assert db.stats()["synced_number"] == db.stats()["last_number"], "the keyspace asks for syncs"
        for operator, durability in (("max", None), (None, "buffered")):
            with pytest.raises(alluvium.KeyspaceMismatchError, match="visits"):
                db.keyspace("visits", operator, durability)  # type: ignore[arg-type]
        with pytest.raises(alluvium.InvalidArgumentError, match="default keyspace"):
            db.keyspace("default", "add")
        with pytest.raises(ValueError, match="'durability' must be"):
            db.keyspace("visits", durability="never")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'merge_operator' must be"):
            db.keyspace("visits", merge_operator="sum")  # type: ignore[arg-type]
        with pytest.raises(alluvium.InvalidArgumentError):
            db.keyspace("")
        with pytest.raises(alluvium.InvalidArgumentError, match="no merge operator"):
            db.merge(b"home", one)
    with alluvium.open(path) as db:
        visits = db.keyspace("visits")
        visits.merge(b"home", one)
        assert visits[b"home"] == struct.pack("<q", 2)


def test_a_keyspace_is_only_created_if_that_is_wanted(db: alluvium.DB) -> None:
    with pytest.raises(alluvium.Error, match="no keyspace \"users\""):
        db.keyspace("users", create_if_missing=False)
    assert db.keyspace_names() == []
    db.keyspace("users")[b"a"] = b"1"
    assert db.keyspace("users", create_if_missing=False)[b"a"] == b"1"


def test_pairs_of_a_keyspace_expire(path: Path) -> None:
    with alluvium.open(path) as db:
        sessions = db.keyspace("sessions", expiry=0.2)
        started = time.monotonic()
        sessions[b"7"] = b"Ada"
        snapshot = sessions.snapshot()
        while b"7" in sessions:
            assert time.monotonic() < started + 60, "the pair does not expire"
            time.sleep(0.001)
        # The clock counts whole milliseconds.
        assert time.monotonic() >= started + 0.199
        assert (list(sessions), list(snapshot)) == ([], [(b"7", b"Ada")])
        for expiry in (0, -1):
            with pytest.raises((ValueError, alluvium.InvalidArgumentError), match="expiry"):
                db.keyspace("other", expiry=expiry)
        with pytest.raises(alluvium.KeyspaceMismatchError, match="expiry"):
            db.keyspace("sessions", expiry=60)
        assert db.keyspace_names() == ["sessions"]


def test_a_dropped_keyspace_is_gone(db: alluvium.DB) -> None:
    old = db.keyspace("old")
    old[b"a"] = b"1"
    snapshot, kept, batch, transaction = db.snapshot(), old.snapshot(), old.write_batch(), old.transaction()
    batch.put(b"a", b"2")
    assert db.drop_keyspace("old") and not db.drop_keyspace("old")
    uses: list[Any] = [
        lambda: old.get(b"a"),
        lambda: old.put(b"a", b"2"),
        lambda: list(old),
        lambda: old.raw_iterator(),
        lambda: old.clear(),
        lambda: batch.write(),
        lambda: transaction.get(b"a"),
        lambda: db.transaction().within(old),
    ]
    for use in uses:
        with pytest.raises(alluvium.KeyspaceDroppedError, match="old"):
            use()
    assert list(kept) == [(b"a", b"1")], "a snapshot from before still has it"
    found = snapshot.keyspace("old")
    assert found is not None and list(found) == [(b"a", b"1")]
    assert snapshot.keyspace_names() == ["old"] and db.keyspace_names() == []
    assert snapshot.keyspace("other") is None and db.snapshot().keyspace("old") is None
    assert list(db.keyspace("old")) == [], "one with the name is another one"
    with pytest.raises(alluvium.InvalidArgumentError, match="default keyspace"):
        db.drop_keyspace("default")


def test_batches_and_snapshots_enter_keyspaces(db: alluvium.DB) -> None:
    users, emails = db.keyspace("users"), db.keyspace("emails", "append")
    with db.write_batch(transaction=True) as batch:
        batch.put(b"count", b"1")
        batch.within(users).put(b"7", b"Ada")
        with batch.within(emails) as part:
            part.put(b"ada@example.org", b"7")
            part.merge(b"ada@example.org", b"!")
            part.put(b"old", b"")
            part.delete_range(start=b"b")
        batch.within(users.prefixed_db(b"p/")).put(b"8", b"Grace")
        assert list(users) == [], "the end of a part writes nothing"
    snapshot = db.snapshot()
    with users.write_batch() as batch:
        batch.delete(b"7")
        batch.within(db).delete(b"count")
    assert list(users) == [(b"p/8", b"Grace")] and list(db) == []
    assert list(emails) == [(b"ada@example.org", b"7!")]
    assert list(snapshot) == list(snapshot.within(users).within(db)) == [(b"count", b"1")]
    assert list(snapshot.within(users)) == [(b"7", b"Ada"), (b"p/8", b"Grace")]
    assert list(snapshot.within(users.prefixed_db(b"p/"))) == [(b"8", b"Grace")]
    snapshot.close()
    with pytest.raises(alluvium.ClosedError):
        snapshot.within(users)


def test_a_transaction_spans_keyspaces(db: alluvium.DB) -> None:
    jobs, done = db.keyspace("jobs"), db.keyspace("done")
    jobs.update({b"1": b"wash", b"2": b"dry"})

    def move_one(t: alluvium.Transaction) -> bytes:
        with t.within(jobs) as from_jobs:
            job, what = next(from_jobs.iterator())
            del from_jobs[job]
        t.within(done)[job] = what
        assert t.within(done).multi_get([job, b"none"]) == [what, None] and job in t.within(done)
        assert list(t) == []
        return bytes(job)

    assert db.transact(move_one) == jobs.transact(lambda t: t.get(b"1") or b"1") == b"1"
    assert list(jobs.keys()) == [b"2"] and list(done) == [(b"1", b"wash")]
    with pytest.raises(alluvium.ConflictError) as raised, done.transaction() as t:
        assert t.within(jobs)[b"2"] == b"dry"
        t[b"2"] = b"dry"
        t.within(db.prefixed_db(b"p/"))[b"a"] = b""
        jobs[b"2"] = b"iron"
    assert raised.value.key == b"2" and list(done.keys()) == [b"1"] and list(db) == []
    t = db.transaction()
    part = t.within(jobs)
    iterator = part.iterator()
    t.rollback()
    for use in (lambda: part.get(b"2"), lambda: part.commit(), lambda: next(iterator)):
        with pytest.raises(alluvium.ClosedError):
            use()


def test_views_of_another_store_are_refused(db: alluvium.DB, tmp_path: Path) -> None:
    with alluvium.open(tmp_path / "other") as other:
        stranger = other.keyspace("users")
        uses: list[Any] = [db.write_batch().within, db.snapshot().within, db.transaction().within]
        for within in uses:
            for view in (stranger, other):
                with pytest.raises(alluvium.InvalidArgumentError, match="another store"):
                    within(view)


def test_a_read_only_store_has_keyspaces(path: Path) -> None:
    with alluvium.open(path) as writer:
        users = writer.keyspace("users", "append")
        users[b"a"] = b"1"
        users.merge(b"a", b"2")
        with alluvium.open(path, read_only=True) as reader:
            users[b"a"] = b"3"
            assert reader.keyspace_names() == ["users"]
            read = reader.keyspace("users")
            assert read[b"a"] == b"12" and list(read) == list(reader.snapshot().within(read)) == [(b"a", b"12")]
            assert read.multi_get([b"a", b"b"]) == [b"12", None] and b"a" in read and b"b" not in read
            assert list(read.snapshot().within(reader)) == list(reader.keyspace("default")) == []
            with pytest.raises(alluvium.Error, match='no keyspace "emails"'):
                reader.keyspace("emails")
            with pytest.raises(alluvium.KeyspaceMismatchError):
                reader.keyspace("users", "add")
            with pytest.raises(alluvium.Error, match="cannot be estimated"):
                read.approximate_size(b"a", b"b")
            writes: list[Any] = [
                lambda: read.put(b"a", b"4"),
                lambda: read.clear(),
                lambda: read.update({b"a": b"4"}),
                lambda: read.transaction(),
                lambda: read.compact_range(),
                lambda: reader.drop_keyspace("users"),
            ]
            for write in writes:
                with pytest.raises(alluvium.ReadOnlyError, match="open for reading only"):
                    write()
        assert users[b"a"] == b"3"


def test_a_keyspace_ends_with_its_store(path: Path) -> None:
    db = alluvium.open(path)
    users = db.keyspace("users")
    users[b"a"] = b"1"
    batch = db.write_batch()
    db.close()
    uses: list[Any] = [
        lambda: users.get(b"a"),
        lambda: users.put(b"a", b"2"),
        lambda: db.keyspace("users"),
        lambda: db.keyspace_names(),
        lambda: db.drop_keyspace("users"),
        lambda: batch.within(users),
    ]
    for use in uses:
        with pytest.raises(alluvium.ClosedError, match="the store is closed"):
            use()
    with alluvium.open(path) as again:
        with pytest.raises(alluvium.InvalidArgumentError, match="earlier opening"):
            again.snapshot().within(users)
        assert again.keyspace("users")[b"a"] == b"1"


FORKED = """
import os, sys, alluvium
users = alluvium.open(sys.argv[1]).keyspace("users")
users[b"a"] = b"1"
t = users.transaction()
child = os.fork()
if child == 0:
    try:
        users.get(b"a")
    except alluvium.ForkedError:
        del users, t
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert users[b"a"] == b"1"
del t, users
# The last object is gone, so the store is closed.
print(alluvium.open(sys.argv[1]).keyspace("users")[b"a"])
"""


def test_a_forked_child_and_the_last_reference(path: Path) -> None:
    done = run(FORKED, path)
    assert (done.stdout, done.returncode) == ("b'1'\n", 0), done.stderr
