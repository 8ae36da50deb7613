"""The example at the top of the README runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import alluvium
from conftest import run

README = Path(__file__).parent.parent / "README.md"


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(example.splitlines()) == 5
    monkeypatch.chdir(tmp_path)
    ran = run(example)
    assert (ran.stdout, ran.stderr) == ("[b'river/elbe', b'river/rhine']\n", "")
    with alluvium.DB("rivers.db") as db:
        assert db[b"river/danube"] == b"Black Sea"


def test_the_errors_and_methods_in_the_readme_exist() -> None:
    text = README.read_text()
    named = set(re.findall(r"`(?:alluvium\.)?(\w*Error)`", text)) - {"RuntimeError", "KeyError"}
    assert named == {name for name in alluvium.__all__ if name.endswith("Error")}
    for method in re.findall(r"- `(\w+)\(", text) + re.findall(r"`(\w+)\(\)`, ", text):
        assert hasattr(alluvium.DB, method) or hasattr(alluvium, method), method
