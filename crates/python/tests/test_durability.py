"""The contents of a store after the process died, or after the store was closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import alluvium

WRITER = """
import sys, alluvium
db = alluvium.open(sys.argv[1], memory=4 << 20)
first = int(sys.argv[2])
for number in range(first, first + 1_000_000):
    if number % 3 == 0:
        db.put(b"%08d" % number, b"x" * 200)
    elif number % 3 == 1:
        db.update({b"%08d" % number: b"x" * 200, b"last": b"%d" % number})
    else:
        with db.transaction() as t:
            t[b"%08d" % number] = b"x" * 200
    print(number, flush=True)
"""


@pytest.mark.parametrize("rounds", [4])
def test_acknowledged_writes_survive_kills(path: Path, rounds: int) -> None:
    first = 0
    for turn in range(1, rounds + 1):
        command = [sys.executable, "-c", WRITER, str(path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(turn * 400):
                last = int(writer.stdout.readline())
            writer.kill()
            rest = writer.stdout.read().split()
            last = max([last, *map(int, rest[:-1])])
        with alluvium.open(path) as db:
            keys = list(db.iterator(stop=b"99999999", include_value=False))
            assert keys[: last + 1] == [b"%08d" % number for number in range(last + 1)]
            assert len(keys) in (last + 1, last + 2, last + 3), "at most two writes more than were acknowledged"
            assert int(db[b"last"]) >= last - 3
            db.verify()
        first = len(keys)


def test_a_store_is_reopened_repeatedly(path: Path) -> None:
    expected: dict[bytes, bytes] = {}
    for turn in range(5):
        with alluvium.open(path) as db:
            assert dict(db.items()) == expected
            for number in range(turn, 1000, turn + 1):
                expected[b"%04d" % number] = db[b"%04d" % number] = b"%d" % turn
            if turn % 2 == 0:
                for key in list(expected)[::7]:
                    del db[key], expected[key]
        expected = dict(sorted(expected.items()))
