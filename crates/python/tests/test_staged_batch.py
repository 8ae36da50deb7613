"""Staged batches."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import alluvium


def test_a_block_commits(db: alluvium.DB) -> None:
    db[b"a"] = b"1"
    with db.staged_batch(sync=True) as batch:
        assert batch[b"a"] == batch.get(b"a") == b"1" and b"a" in batch and b"b" not in batch
        batch[b"b"] = b"2"
        batch.put(b"c", bytearray(b"3"))
        del batch[b"a"]
        batch.delete(b"none")
        assert batch.get(b"a") is None and batch.get(b"a", b"gone") == b"gone"
        assert list(batch) == list(batch.items()) == [(b"b", b"2"), (b"c", b"3")]
        assert list(batch.keys()) == [b"b", b"c"] and list(batch.values()) == [b"2", b"3"]
        assert dict(batch) == {b"b": b"2", b"c": b"3"}
        assert list(db) == [(b"a", b"1")], "the writes are not visible before the commit"
        with pytest.raises(KeyError):
            batch[b"a"]
        with pytest.raises(KeyError):
            del batch[b"a"]
        assert batch.memory_bytes > 0 and batch.spilled_bytes == 0
    assert list(db) == [(b"b", b"2"), (b"c", b"3")]
    assert db.stats()["synced_number"] == db.stats()["last_number"]


def test_an_exception_rolls_back(db: alluvium.DB) -> None:
    with pytest.raises(ZeroDivisionError), db.staged_batch() as batch:
        batch[b"a"] = b"1"
        1 / 0
    assert list(db) == []
    with pytest.raises(alluvium.ClosedError, match="the staged batch is closed"):
        batch.commit()


def test_a_block_may_end_its_batch(db: alluvium.DB) -> None:
    with db.staged_batch() as batch:
        batch[b"a"] = b"1"
        batch.commit()
    with db.staged_batch() as batch:
        batch[b"b"] = b"1"
        batch.rollback()
    assert list(db.keys()) == [b"a"]


@pytest.mark.parametrize("end", [alluvium.StagedBatch.commit, alluvium.StagedBatch.rollback])
def test_after_its_end(db: alluvium.DB, end: Callable[[alluvium.StagedBatch], None]) -> None:
    db.update({b"%d" % number: b"" for number in range(9)})
    batch = db.staged_batch()
    part = batch.within(db.prefixed_db(b"p"))
    iterator = iter(batch)
    # The second step reads ahead.
    next(iterator), next(iterator)
    end(batch)
    uses: list[Callable[[], Any]] = [
        iterator.next, lambda: batch.get(b"a"), lambda: batch.put(b"a", b""), lambda: b"a" in batch, batch.keys, batch.commit,
        batch.refresh, lambda: batch.memory_bytes, lambda: batch.spilled_bytes, batch.__enter__, lambda: part.get(b"a"),
        lambda: part.put(b"a", b""), part.commit, lambda: batch.within(db), lambda: batch.delete_range(prefix=b"a"),
        lambda: batch.merge(b"a", b""), lambda: batch.delete(b"a"),
    ]
    for use in uses:
        with pytest.raises(alluvium.ClosedError, match="the staged batch is closed"):
            use()
    batch.rollback()
    part.rollback()
    assert len(list(db)) == 9


def test_it_shows_the_moment_of_its_beginning(db: alluvium.DB) -> None:
    db[b"a"] = b"1"
    batch = db.staged_batch()
    batch[b"c"] = b"3"
    keys = batch.keys()
    db[b"a"] = b"2"
    db[b"b"] = b"2"
    assert batch[b"a"] == b"1" and b"b" not in batch and list(batch.keys()) == [b"a", b"c"]
    assert next(keys) == b"a"
    batch.refresh()
    assert batch[b"a"] == b"2" and list(batch.keys()) == [b"a", b"b", b"c"]
    assert list(keys) == [b"b", b"c"], "a refresh shows in iterators, too"
    db[b"c"] = b"others"
    batch.commit()
    assert db[b"c"] == b"3", "the batch replaces what others have written"


def test_a_batch_beyond_its_memory(path: Path) -> None:
    with alluvium.open(path) as db:
        db.update((b"%06d" % number, b"old") for number in range(0, 20_000, 3))
        db[b"before"] = b"1"
        with db.staged_batch(memory=100_000) as batch:
            for number in range(20_000):
                batch[b"%06d" % number] = b"%d" % number * 20
            batch.delete_range(start=b"000100", stop=b"000200", include_start=False, include_stop=True)
            batch.delete_range(prefix=b"0003")
            batch[b"000150"] = b"again"
            assert 0 < batch.memory_bytes < 200_000 and batch.spilled_bytes > 100_000
            expected = [b"%06d" % number for number in range(20_000)
                        if not 100 < number <= 200 and not 300 <= number < 400 or number == 150] + [b"before"]
            assert list(batch.keys()) == expected
            assert list(batch.iterator(reverse=True, include_value=False)) == expected[::-1]
            assert list(batch.iterator(start=b"000099", stop=b"000201", include_stop=True)) == [
                (b"000099", b"99" * 20), (b"000100", b"100" * 20), (b"000150", b"again"), (b"000201", b"201" * 20),
            ]
            assert batch[b"019999"] == b"19999" * 20 and b"000101" not in batch
            assert len(list(db)) == len(range(0, 20_000, 3)) + 1
        assert list(db.keys()) == expected
        db.verify()
    with alluvium.open(path) as db:
        assert list(db.keys()) == expected and db[b"000150"] == b"again"


def test_a_batch_that_is_dropped_leaves_nothing(path: Path) -> None:
    def files() -> set[str]:
        return {file.name for file in path.glob("*.branch")} | {file.name for file in path.glob("*.value")}

    with alluvium.open(path) as db:
        batch = db.staged_batch(memory=1000)
        for number in range(1000):
            batch[b"%d" % number] = b"x" * 1000
        iterator = iter(batch)
        next(iterator)
        assert files()
        del batch
        assert next(iterator)[1] == b"x" * 1000, "an iterator keeps the batch alive"
        del iterator
    with alluvium.open(path) as db:
        assert list(db) == [] and not files()


def test_merges(path: Path) -> None:
    with alluvium.open(path, merge_operator="append") as db:
        batch = db.staged_batch()
        batch.merge(b"log", b"b")
        batch.merge(b"log", b"c")
        batch.put(b"new", b"1")
        batch.merge(b"new", b"2")
        db[b"log"] = b"a"
        assert batch[b"log"] == b"bc" and batch[b"new"] == b"12"
        batch.commit()
        assert db[b"log"] == b"abc" and db[b"new"] == b"12"


def test_parts_of_a_batch(db: alluvium.DB) -> None:
    users, rivers = db.keyspace("users"), db.prefixed_db(b"river/")
    users[b"6"] = b"Charles"
    with db.staged_batch() as batch:
        with batch.within(users) as part:
            part[b"7"] = b"Ada"
            assert part[b"6"] == b"Charles" and list(part.keys()) == [b"6", b"7"]
            del part[b"6"]
        of_rivers = batch.within(rivers)
        of_rivers[b"elbe"] = b"1094 km"
        of_rivers.put(b"oder", b"840 km")
        assert list(of_rivers) == [(b"elbe", b"1094 km"), (b"oder", b"840 km")]
        assert list(of_rivers.iterator(start=b"f", include_value=False)) == [b"oder"]
        assert list(batch.keys()) == [b"river/elbe", b"river/oder"]
        of_users = batch.within(users.prefixed_db(b"7"))
        assert list(of_users.items()) == [(b"", b"Ada")]
        assert list(users) == [(b"6", b"Charles")] and list(db) == []
    assert list(users) == [(b"7", b"Ada")] and len(list(rivers)) == 2
    with rivers.staged_batch() as batch:
        batch.delete_range()
        batch[b"rhine"] = b"1233 km"
    assert list(db) == [(b"river/rhine", b"1233 km")]
    with users.staged_batch() as batch:
        batch[b"8"] = b"Grace"
        assert list(batch.values()) == [b"Ada", b"Grace"]
    assert users[b"8"] == b"Grace"


def test_keyspaces_of_others_are_refused(db: alluvium.DB, tmp_path: Path) -> None:
    batch = db.staged_batch()
    with alluvium.open(tmp_path / "other") as other, pytest.raises(alluvium.InvalidArgumentError, match="another store"):
        batch.within(other)
    users = db.keyspace("users")
    part = batch.within(users)
    part[b"a"] = b"1"
    iterator = iter(part)
    db.drop_keyspace("users")
    for use in (iterator.next, lambda: part.get(b"a"), lambda: part.put(b"a", b""), part.keys, lambda: batch.within(users), batch.commit):
        with pytest.raises(alluvium.KeyspaceDroppedError):
            use()


def test_wrong_arguments(db: alluvium.DB, path: Path) -> None:
    for wrong in (-1, "1", 1.5):
        with pytest.raises((OverflowError, TypeError)):
            db.staged_batch(memory=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        db.staged_batch(1000)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        alluvium.StagedBatch()
    batch = db.staged_batch(memory=0)
    for key in ("text", None, 1):
        with pytest.raises(TypeError):
            batch.put(key, b"")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            batch[key]  # type: ignore[index]
    with pytest.raises(alluvium.InvalidArgumentError):
        batch[b"k" * 70_000] = b""
    with pytest.raises(TypeError, match="cannot be used together"):
        batch.iterator(prefix=b"a", start=b"a")
    with pytest.raises(alluvium.Error):
        batch.merge(b"a", b"no operator")
    batch[b"a"] = b"1"
    batch.commit()
    assert list(db) == [(b"a", b"1")]
    db.close()
    with alluvium.open(path, read_only=True) as reader, pytest.raises(alluvium.ReadOnlyError):
        reader.staged_batch()


def test_iterators_turn_and_seek(db: alluvium.DB) -> None:
    db.update((b"%02d" % number, b"") for number in range(0, 40, 2))
    batch = db.staged_batch()
    for number in range(1, 40, 2):
        batch[b"%02d" % number] = b"own"
    for include_value in (False, True):
        def key(given: Any) -> bytes:
            found: bytes = given[0] if include_value else given
            return found

        with batch.iterator(start=b"05", stop=b"35", include_start=False, include_value=include_value) as iterator:
            assert [key(iterator.next()) for _ in range(7)] == [b"%02d" % number for number in range(6, 13)]
            assert [key(iterator.prev()) for _ in range(3)] == [b"12", b"11", b"10"]
            assert key(iterator.next()) == b"10"
            iterator.seek(b"20x")
            assert key(iterator.next()) == b"21" and key(iterator.prev()) == b"21" and key(iterator.prev()) == b"20"
            iterator.seek(b"99")
            with pytest.raises(StopIteration):
                iterator.next()
            assert key(iterator.prev()) == b"34"
            iterator.seek_to_start()
            with pytest.raises(StopIteration):
                iterator.prev()
            assert key(iterator.next()) == b"06"
            iterator.seek_to_stop()
            assert key(iterator.prev()) == b"34"
            iterator.seek(b"00")
            assert key(iterator.next()) == b"06"
        with pytest.raises(alluvium.ClosedError, match="the iterator is closed"):
            iterator.next()
        assert list(batch.iterator(start=b"30", stop=b"20", include_value=include_value)) == []
    assert list(batch.iterator(start=b"38", include_key=False)) == [b"", b"own"]


def test_iterators_meet_what_is_written_ahead_of_them(db: alluvium.DB) -> None:
    db.update((b"%03d" % number, b"old") for number in range(500))
    batch = db.staged_batch()
    keys = []
    for key, value in batch:
        keys.append(key)
        if len(key) == 3:
            assert value == b"old"
            batch[key + b"+"] = b"new"
            batch[b"000"] = b"behind"
            batch.delete(b"%03d" % (int(key) + 2))
            batch[b"%03d" % (int(key) + 1)] = b"old"
    assert keys[:6] == [b"000", b"000+", b"001", b"001+", b"002", b"002+"]
    expected = sorted({b"%03d" % number for number in range(501)} | {b"%03d+" % number for number in range(500)})
    assert keys[:1000] == expected[:1000]


def test_a_random_iteration_agrees_with_a_model(db: alluvium.DB) -> None:
    dice = random.Random(7)
    model = {b"%03d" % number: b"%d" % number for number in range(0, 300, 2)}
    db.update(model)
    batch = db.staged_batch(memory=2000)
    for _ in range(60):
        reverse, with_values = dice.random() < 0.5, dice.random() < 0.5
        iterator = batch.iterator(reverse=reverse, include_value=with_values)
        last: bytes | None = None
        while True:
            # A few steps without a change, so that it reads ahead, and then some changes.
            for _ in range(dice.choice([0, 0, 1, 3, 20])):
                key = b"%03d" % dice.randrange(300)
                if dice.random() < 0.5:
                    model[key] = b"%d" % dice.randrange(1000)
                    batch[key] = model[key]
                else:
                    model.pop(key, None)
                    batch.delete(key)
            left = sorted((key for key in model if last is None or (key < last if reverse else key > last)), reverse=reverse)
            steps = dice.randrange(1, 80)
            for expected in left[:steps]:
                given = next(iterator)
                assert given == ((expected, model[expected]) if with_values else expected)
                last = expected
            if steps > len(left):
                assert next(iterator, None) is None
                break
    assert list(batch) == sorted(model.items()) and batch.spilled_bytes > 0
    batch.commit()
    assert list(db) == sorted(model.items())


def test_several_threads_use_a_batch(db: alluvium.DB) -> None:
    batch = db.staged_batch(memory=5000)
    failures: list[BaseException] = []

    def write(name: int) -> None:
        try:
            for number in range(200):
                batch[b"%d-%d" % (name, number)] = b"x" * 50
                assert batch[b"%d-%d" % (name, number)] == b"x" * 50
                next(iter(batch))
            own = [key for key in batch.keys() if key.startswith(b"%d-" % name)]
            assert own == sorted(b"%d-%d" % (name, number) for number in range(200))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    batch.commit()
    assert len(list(db)) == 800
