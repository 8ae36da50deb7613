"""Iterators: their position and their range, which follow plyvel's rules everywhere."""

from __future__ import annotations

import random
from typing import Any

import pytest

import alluvium

KEYS = [b"%02d" % number for number in range(10, 50, 2)]


@pytest.fixture
def full(db: alluvium.DB) -> alluvium.DB:
    db.update((key, b"v" + key) for key in KEYS)
    return db


RANGES: list[tuple[dict[str, Any], list[bytes]]] = [
    ({}, KEYS),
    ({"start": b"20"}, [key for key in KEYS if key >= b"20"]),
    ({"start": b"20", "include_start": False}, [key for key in KEYS if key > b"20"]),
    ({"start": b"21", "include_start": False}, [key for key in KEYS if key > b"21"]),
    ({"stop": b"20"}, [key for key in KEYS if key < b"20"]),
    ({"stop": b"20", "include_stop": True}, [key for key in KEYS if key <= b"20"]),
    ({"start": b"14", "stop": b"20"}, [b"14", b"16", b"18"]),
    ({"start": b"14", "stop": b"20", "include_stop": True, "include_start": False}, [b"16", b"18", b"20"]),
    ({"start": b"20", "stop": b"20"}, []),
    ({"start": b"20", "stop": b"20", "include_stop": True}, [b"20"]),
    ({"start": b"30", "stop": b"20"}, []),
    ({"prefix": b"3"}, [b"30", b"32", b"34", b"36", b"38"]),
    ({"prefix": b""}, KEYS),
    ({"prefix": b"9"}, []),
    ({"prefix": b"\xff"}, []),
    ({"start": b"", "stop": b""}, []),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("limits", "expected"), RANGES)
def test_ranges(full: alluvium.DB, limits: dict[str, Any], expected: list[bytes], reverse: bool) -> None:
    expected = expected[::-1] if reverse else expected
    for source in (full, full.snapshot()):
        iterate: Any = source.iterator
        assert list(iterate(reverse=reverse, **limits)) == [(key, b"v" + key) for key in expected]
        assert list(iterate(reverse=reverse, include_value=False, **limits)) == expected
        assert list(iterate(reverse=reverse, include_key=False, **limits)) == [b"v" + key for key in expected]
        nothing = iterate(reverse=reverse, include_key=False, include_value=False, **limits)
        assert list(nothing) == [None] * len(expected)


def test_prefixes_that_end_with_the_last_byte(db: alluvium.DB) -> None:
    keys = [b"a", b"a\xfe", b"a\xff", b"a\xff\x00", b"a\xff\xff", b"b", b"\xff\xff", b"\xff\xff\x01"]
    db.update((key, b"") for key in keys)
    for prefix in (b"a", b"a\xff", b"a\xff\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff"):
        expected = [key for key in keys if key.startswith(prefix)]
        assert list(db.iterator(prefix=prefix, include_value=False)) == expected
        assert list(db.iterator(prefix=prefix, reverse=True, include_value=False)) == expected[::-1]
        assert list(db.prefixed_db(prefix).keys()) == [key[len(prefix):] for key in expected]


def test_a_prefix_excludes_start_and_stop(db: alluvium.DB) -> None:
    for other in ({"start": b"a"}, {"stop": b"a"}):
        with pytest.raises(TypeError, match="'prefix' cannot be used together"):
            db.iterator(prefix=b"a", **other)  # type: ignore[arg-type]


def test_an_iterator_shows_one_snapshot(full: alluvium.DB) -> None:
    iterator = full.iterator(include_value=False)
    full.delete(b"20")
    full.put(b"21", b"")
    assert list(iterator) == KEYS
    iterator.seek(b"20")
    assert iterator.next() == b"20"


class Model:
    """A model of an iterator as documented: a position between the pairs of a list."""

    def __init__(self, keys: list[bytes], reverse: bool, stop: bytes | None) -> None:
        self.keys, self.reverse, self.stop = keys, reverse, stop
        self.place = len(keys) if reverse else 0

    def step(self, forward: bool) -> bytes | None:
        if forward != self.reverse:
            if self.place == len(self.keys):
                return None
            self.place += 1
            return self.keys[self.place - 1]
        if self.place == 0:
            return None
        self.place -= 1
        return self.keys[self.place]

    def seek(self, target: bytes) -> None:
        target = min(target, self.stop) if self.stop is not None else target
        self.place = sum(key < target for key in self.keys)


@pytest.mark.parametrize("seed", range(60))
def test_steps_and_seeks_at_random(db: alluvium.DB, seed: int) -> None:
    rng = random.Random(seed)
    keys = sorted({b"%03d" % rng.randrange(300) for _ in range(rng.choice([0, 1, 2, 5, 200]))})
    part: Any = rng.choice([db, db.prefixed_db(b"p/"), db.prefixed_db(b"\xff\xff")])
    db.update({b"o": b"", b"p0": b"", b"\xff": b"", b"p": b""} if part is not db else {})
    part.update((key, b"v" + key) for key in keys)
    limits: dict[str, Any] = {}
    if rng.random() < 0.5:
        limits["start"] = b"%03d" % rng.randrange(150)
        limits["include_start"] = rng.random() < 0.5
    if rng.random() < 0.5:
        limits["stop"] = b"%03d" % rng.randrange(100, 300)
        limits["include_stop"] = rng.random() < 0.5
    inside = [
        key
        for key in keys
        if not (key < limits.get("start", b"") or (key == limits.get("start") and not limits["include_start"]))
        and not ("stop" in limits and (key > limits["stop"] or (key == limits["stop"] and not limits["include_stop"])))
    ]
    reverse, values = rng.random() < 0.5, rng.random() < 0.5
    source = rng.choice([part, part.snapshot(), part.transaction()])
    iterator = source.iterator(reverse=reverse, include_value=values, **limits)
    model = Model(inside, reverse, limits.get("stop"))
    for _ in range(300):
        move = rng.random()
        if move < 0.45:
            expected, step = model.step(True), iterator.next
        elif move < 0.8:
            expected, step = model.step(False), iterator.prev
        elif move < 0.86:
            model.place = 0
            iterator.seek_to_start()
            continue
        elif move < 0.92:
            model.place = len(inside)
            iterator.seek_to_stop()
            continue
        else:
            target = b"%03d" % rng.randrange(300)
            model.seek(target)
            iterator.seek(target)
            continue
        for _ in range(rng.choice([1, 1, 1, 30])):
            if expected is None:
                with pytest.raises(StopIteration):
                    step()
                break
            assert step() == ((expected, b"v" + expected) if values else expected)
            expected = model.step(step == iterator.next)
        else:
            # Undo the extra step of the model.
            if expected is not None:
                model.step(step != iterator.next)


def test_pairs_of_every_size(db: alluvium.DB) -> None:
    rng = random.Random(7)
    pairs = {b"%04d" % number: rng.randbytes(rng.choice([0, 10, 1000, 70_000, 400_000])) for number in range(200)}
    db.update({})
    for key, value in pairs.items():
        db.put(key, value)
    assert dict(db.items()) == pairs
    assert list(db.keys()) == list(pairs)
    assert list(db.iterator(reverse=True)) == list(pairs.items())[::-1]


def test_an_iterator_is_closed(full: alluvium.DB) -> None:
    with full.iterator() as iterator:
        next(iterator)
    iterator.close()
    for use in (iterator.next, iterator.prev, iterator.seek_to_start, iterator.seek_to_stop, lambda: iterator.seek(b"")):
        with pytest.raises(alluvium.ClosedError, match="the iterator is closed"):
            use()


def test_a_raw_iterator(full: alluvium.DB) -> None:
    with full.raw_iterator() as raw:
        assert not raw.valid()
        stuck: list[Any] = [raw.key, raw.value, raw.item, raw.next, raw.prev]
        for use in stuck:
            with pytest.raises(alluvium.IteratorInvalidError, match="not positioned on a pair"):
                use()
        raw.seek_to_first()
        assert raw.item() == (raw.key(), raw.value()) == (b"10", b"v10")
        raw.seek(b"21")
        assert raw.key() == b"22"
        raw.prev()
        assert raw.key() == b"20"
        raw.seek_to_last()
        raw.next()
        assert not raw.valid()
        raw.seek(b"99")
        assert not raw.valid()
    closed: list[Any] = [raw.key, raw.valid, raw.seek_to_first]
    for use in closed:
        with pytest.raises(alluvium.ClosedError):
            use()


def test_a_raw_iterator_of_a_prefixed_db(full: alluvium.DB) -> None:
    raw = full.prefixed_db(b"3").raw_iterator()
    raw.seek_to_first()
    assert raw.key() == b"0"
    raw.seek(b"7")
    assert raw.item() == (b"8", b"v38")
    raw.next()
    assert not raw.valid()


@pytest.mark.parametrize("include_value", [False, True])
def test_a_seek_to_an_excluded_start(full: alluvium.DB, include_value: bool) -> None:
    iterator = full.iterator(start=b"20", include_start=False, include_value=include_value, include_key=not include_value)
    for target in (b"20", b"11", b""):
        iterator.seek(target)
        assert next(iterator) == (b"v22" if include_value else b"22")
