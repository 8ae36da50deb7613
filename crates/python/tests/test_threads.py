"""Several threads, and the release of the interpreter lock."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import alluvium


@pytest.fixture
def no_switching() -> Iterator[None]:
    """Make threads keep the interpreter lock until they release it themselves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


CALLS: dict[str, Any] = {
    "get": lambda db: db.get(b"0001"),
    "item": lambda db: db[b"0001"],
    "in": lambda db: b"0001" in db,
    "multi_get": lambda db: db.multi_get([b"0001", b"0002"]),
    "put": lambda db: db.put(b"a", b"1"),
    "delete": lambda db: db.delete(b"a"),
    "put_if_absent": lambda db: db.put_if_absent(b"0001", b"1"),
    "modify": lambda db: db.modify(b"b", lambda old: (old or b"") + b"1"),
    "update": lambda db: db.update({b"a": b"1"}),
    "transact": lambda db: db.transact(lambda t: t.put(b"a", t.get(b"0001"))),
    "iterate": lambda db: list(db),
    "keys": lambda db: list(db.keys()),
    "snapshot": lambda db: db.snapshot().get(b"0001"),
    "raw": lambda db: db.raw_iterator().seek_to_last(),
    "sync": lambda db: db.put(b"a", b"1", sync=True),
    "verify": lambda db: db.verify(),
    "stats": lambda db: db.stats(),
    "compact": lambda db: db.compact_range(),
    "size": lambda db: db.approximate_size(b"0", b"1"),
    "open": lambda db: alluvium.open(db.name, read_only=True).close(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("no_switching")
def test_other_threads_run_during_a_call(db: alluvium.DB, name: str) -> None:
    db.update((b"%04d" % number, b"x" * 100) for number in range(100))
    ran: list[bool] = []
    gate = threading.Semaphore(0)

    def other() -> None:
        gate.acquire()
        ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    gate.release()
    deadline = time.monotonic() + 20
    while not ran and time.monotonic() < deadline:
        CALLS[name](db)
    assert ran
    thread.join()


@pytest.mark.usefixtures("no_switching")
def test_the_test_above_can_fail() -> None:
    ran: list[bool] = []
    gate = threading.Semaphore(0)

    def other() -> None:
        gate.acquire()
        ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    gate.release()
    deadline = time.monotonic() + 0.3
    while not ran and time.monotonic() < deadline:
        pass
    assert not ran
    thread.join()


def in_threads(works: list[Any]) -> None:
    failures: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert not failures, failures


def test_no_count_is_lost(db: alluvium.DB) -> None:
    def count() -> None:
        for _ in range(500):
            db.modify(b"count", lambda old: b"%d" % (int(old or b"0") + 1))

    in_threads([count] * 4)
    assert db[b"count"] == b"2000"


def test_each_key_is_popped_once(db: alluvium.DB) -> None:
    db.update((b"%04d" % number, b"") for number in range(1000))
    popped: list[bytes] = []

    def pop() -> None:
        for number in range(1000):
            if db.pop(b"%04d" % number, None) is not None:
                popped.append(b"%04d" % number)

    in_threads([pop] * 4)
    assert sorted(popped) == [b"%04d" % number for number in range(1000)]
    assert list(db) == []


def test_threads_share_an_iterator(db: alluvium.DB) -> None:
    keys = [b"%06d" % number for number in range(20_000)]
    db.update((key, key) for key in keys)
    given: list[bytes] = []
    iterator = iter(db)

    def iterate() -> None:
        for key, value in iterator:
            assert key == value
            given.append(key)

    in_threads([iterate] * 4)
    assert sorted(given) == keys


def test_iterators_see_whole_batches(db: alluvium.DB) -> None:
    keys = [b"%02d" % number for number in range(50)]
    db.update((key, b"0") for key in keys)
    done = threading.Event()

    def write() -> None:
        for turn in range(300):
            db.update((key, b"%d" % turn) for key in keys)
        done.set()

    def read() -> None:
        while not done.is_set():
            assert len(set(db.values())) == 1
            assert len(set(db.multi_get(keys))) == 1

    in_threads([write, read, read])


def test_several_threads_open_stores(tmp_path: Path) -> None:
    def work(name: int) -> None:
        for _ in range(3):
            with alluvium.open(tmp_path / str(name)) as db:
                db.update((b"%04d" % number, b"%d" % name) for number in range(500))
                assert set(db.values()) == {b"%d" % name}

    in_threads([lambda name=name: work(name) for name in range(4)])
