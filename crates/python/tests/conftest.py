"""Fixtures and helpers of the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import alluvium


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def db(path: Path) -> Iterator[alluvium.DB]:
    with alluvium.open(path) as db:
        yield db


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a separate process."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
