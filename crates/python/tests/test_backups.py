"""Backups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import alluvium


def test_backups_are_made_and_restored(path: Path, tmp_path: Path) -> None:
    safe = tmp_path / "safe"
    with alluvium.open(path) as db:
        db.update((b"%06d" % number, b"old" * 50) for number in range(5000))
        db.compact_range()
        first = db.backup(safe)
        assert first["id"] == 1 and first["files_new"] > 0 and first["bytes_new"] > 0 and first["files_shared"] == 0
        db[b"000000"] = b"new"
        db.keyspace("users")[b"7"] = b"Ada"
        second = db.backup(str(safe), check_shared=True)
        assert second["id"] == 2 and second["number"] > first["number"]
        assert second["files_shared"] > 0 and second["bytes_shared"] > 0
        backups = alluvium.Backups(safe)
        listed = backups.list()
        assert [(info["id"], info["number"], info["damage"]) for info in listed] == [
            (1, first["number"], None), (2, second["number"], None),
        ]
        assert listed[0]["files"] == first["files_new"] and listed[0]["bytes"] == first["bytes_new"] and listed[0]["time"] > 0
        for info in listed:
            assert backups.verify(info["id"]) == {"files": info["files"], "bytes": info["bytes"]}
    restored = backups.restore(1, tmp_path / "first")
    assert restored == {
        "id": 1, "number": first["number"], "files": listed[0]["files"], "bytes": listed[0]["bytes"],
    }
    with alluvium.open(tmp_path / "first") as db:
        assert len(list(db)) == 5000 and db[b"000000"] == b"old" * 50 and db.keyspace_names() == []
    backups.restore(2, str(tmp_path / "second"))
    with alluvium.open(tmp_path / "second") as db:
        assert db[b"000000"] == b"new" and db.keyspace("users")[b"7"] == b"Ada"
    with pytest.raises(alluvium.InvalidArgumentError):
        backups.restore(2, tmp_path / "second")


def test_backups_are_removed(db: alluvium.DB, tmp_path: Path) -> None:
    safe = tmp_path / "safe"
    for number in range(4):
        db[b"a"] = b"%d" % number
        db.backup(safe)
    backups = alluvium.Backups(str(safe))
    assert backups.remove(2)["backups"] == 1
    assert [info["id"] for info in backups.list()] == [1, 3, 4]
    removed = backups.keep_newest(1)
    assert removed["backups"] == 2 and removed["files"] > 0 and removed["bytes"] > 0
    assert [info["id"] for info in backups.list()] == [4]
    uses: list[Callable[[], Any]] = [
        lambda: backups.remove(2), lambda: backups.verify(2), lambda: backups.restore(2, tmp_path / "none"),
    ]
    for use in uses:
        with pytest.raises(alluvium.InvalidArgumentError, match="backup"):
            use()
    backups.restore(4, tmp_path / "copy")
    with alluvium.open(tmp_path / "copy") as copy:
        assert list(copy) == [(b"a", b"3")]


def test_a_damaged_backup(path: Path, tmp_path: Path) -> None:
    safe = tmp_path / "safe"
    with alluvium.open(path, compression=None) as db:
        db.update((b"%06d" % number, b"v" * 100) for number in range(5000))
        db.compact_range()
        db.backup(safe)
        largest = max((file for file in safe.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 0xFF
        largest.chmod(0o600)
        largest.write_bytes(content)
        backups = alluvium.Backups(safe)
        with pytest.raises(alluvium.CorruptionError, match=largest.name):
            backups.verify(1)
        with pytest.raises(alluvium.CorruptionError, match=largest.name):
            backups.restore(1, tmp_path / "copy")
        db.backup(safe, check_shared=True)
        assert backups.verify(1)["files"] > 0, "the second backup has repaired the first one"


def test_wrong_backups(db: alluvium.DB, path: Path, tmp_path: Path) -> None:
    with pytest.raises(alluvium.InvalidArgumentError):
        alluvium.Backups(tmp_path / "none")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("Dear")
    with pytest.raises(alluvium.InvalidArgumentError):
        db.backup(tmp_path / "letters")
    with pytest.raises(alluvium.InvalidArgumentError):
        db.backup(path / "inside")
    with pytest.raises(TypeError):
        db.backup(1)  # type: ignore[arg-type]
    safe = tmp_path / "safe"
    db.backup(safe)
    with alluvium.open(tmp_path / "other") as other, pytest.raises(alluvium.InvalidArgumentError):
        other.backup(safe)
    with pytest.raises(OverflowError):
        alluvium.Backups(safe).remove(-1)
    db.close()
    with alluvium.open(path, read_only=True) as reader, pytest.raises(alluvium.ReadOnlyError):
        reader.backup(safe)
