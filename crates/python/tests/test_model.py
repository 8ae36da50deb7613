"""Random operations, compared with a sorted dict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import alluvium


@pytest.mark.parametrize("seed", range(8))
def test_random_operations(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    model: dict[bytes, bytes] = {}
    options = {"memory": rng.choice([1 << 20, 128 << 20]), "compression": rng.choice([None, "lz4"])}
    db = alluvium.open(path, **options)
    snapshots: list[tuple[alluvium.Snapshot, list[tuple[bytes, bytes]]]] = []
    space = rng.choice([30, 3000])

    def key() -> bytes:
        return b"%d" % rng.randrange(space)

    def value() -> bytes:
        return rng.randbytes(rng.choice([0, 5, 100, 2000]))

    for _ in range(3000):
        operation = rng.randrange(16)
        k = key()
        if operation < 4:
            v = value()
            db[k] = model[k] = v
        elif operation == 4:
            db.delete(k)
            model.pop(k, None)
        elif operation == 5:
            assert db.pop(k, None) == model.pop(k, None)
        elif operation == 6:
            v = value()
            assert db.setdefault(k, v) == model.setdefault(k, v)
        elif operation == 7:
            with db.write_batch() as batch:
                for _ in range(rng.randrange(40)):
                    k, v = key(), value()
                    if rng.random() < 0.6:
                        batch.put(k, v)
                        model[k] = v
                    else:
                        batch.delete(k)
                        model.pop(k, None)
        elif operation == 8:
            keeps, changed = rng.random() < 0.7, dict(model)
            t = db.transaction()
            for _ in range(rng.randrange(20)):
                k, v = key(), value()
                assert t.get(k) == changed.get(k)
                t[k] = changed[k] = v
            assert list(t) == sorted(changed.items()) if rng.random() < 0.1 else True
            if keeps:
                t.commit()
                model = changed
            else:
                t.rollback()
        elif operation == 9:
            v = value()
            assert db.modify(k, lambda old: None if old else v) == (None if model.get(k) else v)
            if model.pop(k, None) in (None, b""):
                model[k] = v
        elif operation == 10:
            assert db.get(k) == model.get(k) and (k in db) == (k in model)
        elif operation == 11:
            keys = [key() for _ in range(30)]
            assert db.multi_get(keys) == [model.get(k) for k in keys]
        elif operation == 12:
            start, stop = sorted([key(), key()])
            inside = sorted((k, v) for k, v in model.items() if start <= k < stop)
            assert list(db.iterator(start=start, stop=stop)) == inside
            assert list(db.iterator(start=start, stop=stop, reverse=True, include_value=False)) == [
                k for k, _ in reversed(inside)
            ]
        elif operation == 13 and rng.random() < 0.2:
            snapshots.append((db.snapshot(), sorted(model.items())))
        elif operation == 14 and rng.random() < 0.1:
            db.compact_range()
        elif operation == 15 and rng.random() < 0.05:
            for snapshot, then in snapshots:
                assert list(snapshot) == then
            snapshots.clear()
            db.close()
            db = alluvium.open(path, **options)
    for snapshot, then in snapshots:
        assert list(snapshot) == then
    assert list(db) == sorted(model.items())
    db.verify()
    db.close()
