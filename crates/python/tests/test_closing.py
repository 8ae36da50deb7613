"""Closing a store while other threads use it, and forks."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import alluvium
from conftest import run


def test_every_use_after_closing_is_an_error(path: Path) -> None:
    db = alluvium.open(path)
    db.update({b"a": b"1", b"b": b"2"})
    part, snapshot, batch, transaction = db.prefixed_db(b""), db.snapshot(), db.write_batch(), db.transaction()
    staged = db.staged_batch()
    iterator, keys, raw = iter(db), db.keys(), snapshot.raw_iterator()
    of_transaction, of_staged = iter(transaction), iter(staged)
    next(iterator), next(of_transaction), next(of_staged)
    raw.seek_to_first()
    batch.put(b"c", b"3")
    staged.put(b"c", b"3")
    db.close()
    assert db.closed
    db.close()
    uses: list[Any] = [
        lambda: db.get(b"a"), lambda: db.put(b"a", b""), lambda: db.delete(b"a"), lambda: db[b"a"], lambda: b"a" in db,
        db.snapshot, db.iterator, db.raw_iterator, db.write_batch, db.transaction, db.keys, db.stats, db.sync, db.verify,
        db.compact_range, lambda: db.get_property(b"leveldb.stats"), lambda: db.approximate_size(b"a", b"b"),
        lambda: db.approximate_sizes(), lambda: db.checkpoint("/nowhere/copy"),
        lambda: db.multi_get([b"a"]), lambda: db.modify(b"a", lambda old: old),
        lambda: db.update({}), lambda: db.pop(b"a", None), db.__enter__, lambda: db.transact(print),
        lambda: part.get(b"a"), lambda: list(part), lambda: snapshot.get(b"a"), snapshot.iterator, lambda: list(snapshot),
        lambda: batch.put(b"a", b""), batch.write, batch.clear, batch.approximate_size, batch.__enter__,
        lambda: transaction.get(b"a"), transaction.commit, transaction.__enter__, lambda: list(of_transaction),
        db.staged_batch, lambda: staged.get(b"a"), lambda: staged.put(b"a", b""), lambda: staged.memory_bytes, staged.refresh,
        staged.keys, staged.commit, staged.__enter__, lambda: next(of_staged), lambda: staged.within(db),
        lambda: db.backup("/nowhere/backups"),
        iterator.next, iterator.prev, lambda: iterator.seek(b"a"), lambda: next(iterator), keys.next,
        raw.valid, raw.key, raw.next, raw.seek_to_first,
    ]
    for use in uses:
        with pytest.raises(alluvium.ClosedError, match="the store is closed") as raised:
            use()
        assert isinstance(raised.value, RuntimeError)
    for closable in (iterator, keys, raw, snapshot, of_staged):
        closable.close()
    transaction.rollback()
    staged.rollback()


def test_leftover_objects_hold_no_lock(path: Path) -> None:
    left: list[Any] = []
    for number in range(3):
        db = alluvium.open(path)
        db.put(b"%d" % number, b"x" * 1000)
        iterator = iter(db)
        next(iterator)
        left.append((db.snapshot(), iterator, db.raw_iterator(), db.transaction(), db.write_batch(), db.prefixed_db(b"a")))
        staged = db.staged_batch(memory=1000)
        for key in range(100):
            staged[b"staged %d" % key] = b"x" * 1000
        assert staged.spilled_bytes > 0
        left.append((staged, iter(staged)))
        if number == 1:
            db.compact_range()
        db.close()
    with alluvium.open(path) as db:
        assert len(list(db)) == 3
    alluvium.destroy_db(path)
    assert not path.exists()


def test_closing_with_busy_threads(path: Path) -> None:
    for _ in range(5):
        db = alluvium.open(path)
        db.update((b"%04d" % number, b"x" * 100) for number in range(2000))
        ended: list[BaseException] = []
        begun = threading.Barrier(10)

        def work(task: Any) -> None:
            begun.wait()
            try:
                while True:
                    task()
            except BaseException as error:
                ended.append(error)

        def compact() -> None:
            db.compact_range()

        def transact() -> None:
            with db.transaction() as t:
                t[b"t"] = t.get(b"t", b"") + b"x"

        def stage() -> None:
            with db.staged_batch(memory=1000) as batch:
                for number in range(100):
                    batch[b"s%d" % number] = b"x" * 100
                list(batch)

        tasks: list[Any] = [
            lambda: db.put(b"a", b"1"), lambda: db.get(b"0001"), lambda: list(db), lambda: list(db.snapshot().keys()),
            lambda: db.update({b"b": b"2"}), compact, transact, lambda: db.modify(b"c", lambda old: (old or b"") + b"1"),
            stage,
        ]
        threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        begun.wait()
        time.sleep(0.05)
        db.close()
        for thread in threads:
            thread.join(timeout=20)
            assert not thread.is_alive()
        assert [type(error) for error in ended] == [alluvium.ClosedError] * 9, ended


def test_closing_a_store_in_its_own_callbacks(path: Path) -> None:
    db = alluvium.open(path)
    with pytest.raises(alluvium.ClosedError):
        db.modify(b"a", lambda old: db.close())
    db = alluvium.open(path)
    with pytest.raises(alluvium.ClosedError):
        db.transact(lambda t: db.close())
    db = alluvium.open(path)
    with pytest.raises(alluvium.ClosedError):
        db.update((b"a", b"1") for _ in range(2) if not db.close())  # type: ignore[func-returns-value]


@pytest.mark.parametrize("close", [False, True])
def test_a_signal_ends_a_compaction(path: Path, close: bool) -> None:
    with alluvium.open(path, compression=None) as db:
        for number in range(60_000):
            db.put(b"%09d" % (number * 7919 % 60_000), b"x" * 1000)

        class Rang(Exception):
            pass

        def ring(*_: object) -> None:
            if close:
                db.close()
            raise Rang

        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(Rang):
                # The first compaction may end before the signal.
                while True:
                    db.compact_range()
                    db.put(b"again", b"")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert db.closed is close


FORK = """
import os, sys, alluvium
db = alluvium.open(sys.argv[1])
for number in range(1000):
    db.put(b"%04d" % number, b"x" * 100)
snapshot, batch, transaction, iterator, raw = db.snapshot(), db.write_batch(), db.transaction(), iter(db), db.raw_iterator()
staged = db.staged_batch(memory=100)
staged.put(b"a", b"1" * 100)
staged.put(b"b", b"1")
of_staged = iter(staged)
next(iterator), next(of_staged)
batch.put(b"a", b"1")
raw.seek_to_first()
child = os.fork()
if child == 0:
    uses = [lambda: db.get(b"0001"), lambda: db.put(b"0001", b"child"), lambda: db.delete(b"0001"), lambda: list(db),
            lambda: snapshot.get(b"0001"), lambda: next(iterator), lambda: iterator.seek(b""), raw.next, batch.write,
            transaction.commit, lambda: transaction.get(b"a"), staged.commit, lambda: staged.get(b"a"),
            lambda: next(of_staged), lambda: staged.__exit__(None, None, None), lambda: db.backup(sys.argv[1] + "-backups"), db.stats, db.sync, db.compact_range, db.snapshot]
    errors = []
    for use in uses:
        try:
            errors.append(repr(use()))
        except alluvium.ForkedError as error:
            errors.append("forked")
    iterator.close(), raw.close(), snapshot.close(), transaction.rollback(), of_staged.close(), staged.rollback()
    db.close()
    del snapshot, batch, transaction, iterator, raw, staged, of_staged, db
    print("child", set(errors), flush=True)
    with alluvium.open(sys.argv[1], read_only=True) as reader:
        print("reader", reader[b"0001"] == b"x" * 100, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
db.put(b"parent", b"goes on")
staged.commit()
db.verify()
db.close()
with alluvium.open(sys.argv[1]) as db:
    print("parent", len(list(db)), db[b"parent"])
"""


def test_a_forked_child_gets_errors_and_does_no_damage(path: Path) -> None:
    ran = run(FORK, path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["child {'forked'}", "reader True", "parent 1003 b'goes on'"], ran.stderr


MULTIPROCESSING = """
import multiprocessing, sys, alluvium

def work(number):
    try:
        db.put(b"child", b"")
    except alluvium.ForkedError:
        return number
    return -1

db = alluvium.open(sys.argv[1])
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(sum(pool.map(work, range(10))))
db.put(b"a", b"1")
print(list(db))
"""


def test_a_pool_of_forked_processes(path: Path) -> None:
    ran = run(MULTIPROCESSING, path)
    assert ran.stdout.split("\n") == ["45", "[(b'a', b'1')]", ""], ran.stderr


def test_the_interpreter_ends_with_a_store_open(path: Path) -> None:
    program = (
        "import sys, alluvium; db = alluvium.open(sys.argv[1]); db[b'a'] = b'1'; i = iter(db); t = db.transaction(); k = iter(t); "
        "s = db.staged_batch(memory=0); s[b'b'] = b'1'; s[b'c'] = b'1'; j = iter(s); next(j)"
    )
    ran = run(program, path)
    assert (ran.returncode, ran.stderr) == (0, "")
    with alluvium.open(path) as db:
        assert list(db) == [(b"a", b"1")]
