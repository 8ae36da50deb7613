"""Transactions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import alluvium


def test_a_block_commits(db: alluvium.DB) -> None:
    db[b"a"] = b"1"
    with db.transaction(sync=True) as t:
        assert t[b"a"] == t.get(b"a") == b"1" and b"a" in t and b"b" not in t
        t[b"b"] = b"2"
        t.put(b"c", b"3")
        del t[b"a"]
        t.delete(b"none")
        assert t.multi_get([b"a", b"b"]) == [None, b"2"]
        assert t.get(b"a", b"gone") == b"gone"
        assert list(t) == list(t.items()) == [(b"b", b"2"), (b"c", b"3")]
        assert list(t.keys()) == [b"b", b"c"] and list(t.values()) == [b"2", b"3"]
        assert list(db) == [(b"a", b"1")], "the writes are not visible before the commit"
        with pytest.raises(KeyError):
            t[b"a"]
        with pytest.raises(KeyError):
            del t[b"a"]
    assert list(db) == [(b"b", b"2"), (b"c", b"3")]
    assert db.stats()["synced_number"] == db.stats()["last_number"]


def test_an_exception_rolls_back(db: alluvium.DB) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction() as t:
        t[b"a"] = b"1"
        1 / 0
    assert list(db) == []
    with pytest.raises(alluvium.ClosedError, match="the transaction is closed"):
        t.commit()


def test_a_conflict(db: alluvium.DB) -> None:
    db[b"p/a"] = b"1"
    part = db.prefixed_db(b"p/")
    with pytest.raises(alluvium.ConflictError, match='another writer has changed "p/a"') as raised, part.transaction() as t:
        assert t[b"a"] == b"1"
        t[b"b"] = b"2"
        part[b"a"] = b"others"
    assert raised.value.key == b"p/a"
    assert dict(part) == {b"a": b"others"}
    assert db.stats()["conflicts"] == 1


@pytest.mark.parametrize(("written", "conflicts"), [(b"15", True), (b"20", True), (b"35", False), (b"05", False)])
def test_only_the_iterated_range_counts_as_read(db: alluvium.DB, written: bytes, conflicts: bool) -> None:
    db.update({b"10": b"", b"20": b"", b"30": b"", b"40": b""})
    t = db.transaction()
    iterator = t.iterator(start=b"10", include_value=False)
    assert [next(iterator), next(iterator)] == [b"10", b"20"]
    t[b"sum"] = b"2"
    db[written] = b"new"
    if conflicts:
        with pytest.raises(alluvium.ConflictError):
            t.commit()
    else:
        t.commit()
    assert (b"sum" in db) is not conflicts


def test_an_iterator_shows_earlier_writes(db: alluvium.DB) -> None:
    db.update({b"a": b"", b"c": b""})
    with db.transaction() as t:
        t[b"b"] = b""
        for key in t.keys():
            t[key + b"+"] = b""
        assert list(t.keys()) == [b"a", b"a+", b"b", b"b+", b"c", b"c+"]
        assert list(t.iterator(reverse=True, include_value=False, prefix=b"b")) == [b"b+", b"b"]
    assert len(list(db)) == 6


def test_iterators_close_with_their_transaction(db: alluvium.DB) -> None:
    db[b"a"] = b""
    for end in (alluvium.Transaction.commit, alluvium.Transaction.rollback):
        t = db.transaction()
        iterator = iter(t)
        next(iterator)
        end(t)
        for use in (iterator.next, lambda: t.get(b"a"), lambda: t.put(b"a", b""), t.commit, t.keys, t.__enter__):
            with pytest.raises(alluvium.ClosedError):
                use()
        t.rollback()


def test_a_block_may_end_its_transaction(db: alluvium.DB) -> None:
    with db.transaction() as t:
        t[b"a"] = b"1"
        t.commit()
    with db.transaction() as t:
        t[b"b"] = b"1"
        t.rollback()
    assert list(db.keys()) == [b"a"]


def test_transact(db: alluvium.DB) -> None:
    runs = []

    def work(t: alluvium.Transaction) -> str:
        runs.append(t.get(b"a"))
        if len(runs) < 3:
            db[b"a"] = b"%d" % len(runs)
        t[b"b"] = b"done"
        return "given"

    assert db.transact(work) == "given"
    assert runs == [None, b"1", b"2"] and db[b"b"] == b"done"


def test_transact_gives_up(db: alluvium.DB) -> None:
    runs = []

    def work(t: alluvium.Transaction) -> None:
        runs.append(t.get(b"a"))
        db[b"a"] = b"%d" % len(runs)
        t[b"b"] = b""

    with pytest.raises(alluvium.ConflictError):
        db.transact(work, attempts=5)
    assert len(runs) == 5 and b"b" not in db
    with pytest.raises(ValueError, match="at least 1"):
        db.transact(work, 0)

    def fail(t: alluvium.Transaction) -> None:
        t[b"c"] = b""
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(fail)
    assert b"c" not in db


def test_transfers_keep_the_sum(db: alluvium.DB) -> None:
    accounts = [b"%d" % number for number in range(4)]
    db.update((account, b"100") for account in accounts)
    failures: list[BaseException] = []

    def move(seed: int) -> None:
        def work(t: alluvium.Transaction) -> None:
            source, target = accounts[turn % 4], accounts[(turn + seed) % 4]
            t[source] = b"%d" % (int(t[source]) - 1)
            t[target] = b"%d" % (int(t[target]) + 1)

        try:
            for turn in range(200):
                db.transact(work, attempts=100_000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=move, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with db.transaction() as t:
            assert sum(int(value) for value in t.values()) == 400
    assert not failures
    assert sum(int(value) for value in db.values()) == 400


def test_several_threads_use_a_transaction(db: alluvium.DB) -> None:
    t = db.transaction()

    def write(name: Any) -> None:
        for number in range(200):
            t[b"%d-%d" % (name, number)] = b""
            next(iter(t))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.commit()
    assert len(list(db)) == 800
