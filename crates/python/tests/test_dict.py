"""The methods of a dict that a store has."""

from __future__ import annotations

from typing import Any

import pytest

import alluvium


@pytest.fixture(params=["store", "part"])
def view(request: pytest.FixtureRequest, db: alluvium.DB) -> Any:
    return db if request.param == "store" else db.prefixed_db(b"part/")


def test_items(view: Any) -> None:
    view[b"a"] = b"1"
    view[b"a"] = b"2"
    assert view[b"a"] == b"2"
    assert b"a" in view and b"b" not in view
    del view[b"a"]
    uses: list[Any] = [lambda: view[b"a"], lambda: view.__delitem__(b"a"), lambda: view.pop(b"a")]
    for use in uses:
        with pytest.raises(KeyError) as raised:
            use()
        assert raised.value.args == (b"a",)


def test_pop_and_setdefault(view: Any) -> None:
    assert view.setdefault(b"a", b"1") == b"1"
    assert view.setdefault(b"a", b"2") == b"1"
    assert view.pop(b"a") == b"1"
    assert view.pop(b"a", None) is None
    assert view.pop(b"a", b"default") == b"default"
    with pytest.raises(TypeError):
        view.pop(b"a", 1, 2)
    with pytest.raises(TypeError):
        view.setdefault(b"a")
    assert b"a" not in view


def test_update(view: Any, db: alluvium.DB) -> None:
    view.update({b"a": b"1", b"b": b"2"})
    view.update([(b"b", b"3"), (bytearray(b"c"), memoryview(b"4"))])
    snapshot, expected = view.snapshot(), {b"a": b"1", b"b": b"3", b"c": b"4"}
    for source in (view, snapshot):
        other = db.prefixed_db(b"of %s/" % type(source).__name__.encode())
        other.update(source)
        assert {key: other[key] for key in expected} == expected
    for wrong in (7, [b"abc"], [(b"a", "text")], b"ab", [(b"a",)]):
        with pytest.raises((TypeError, ValueError)):
            view.update(wrong)
    with pytest.raises(TypeError):
        view.update(b"a", lambda old: old)
    with pytest.raises(ZeroDivisionError):
        view.update((b"d", b"5") if number == 0 else 1 / 0 for number in range(2))
    assert b"d" not in view


def test_iteration(view: Any) -> None:
    pairs = {b"%02d" % number: b"value" for number in range(20)}
    view.update(pairs)
    assert dict(view) == dict(view.items()) == pairs
    assert list(view) == list(view.items()) == list(pairs.items())
    assert list(view.keys()) == list(pairs)
    assert list(view.values()) == [b"value"] * 20
    with pytest.raises(TypeError):
        len(view)
    assert view


def test_an_empty_store_is_true(db: alluvium.DB) -> None:
    assert db and dict(db) == {}


def test_modify(view: Any) -> None:
    def add_one(old: bytes | None) -> bytes:
        return b"%d" % (int(old or b"0") + 1)

    assert view.modify(b"count", add_one) == b"1"
    assert view.modify(b"count", add_one, sync=True) == b"2"
    assert view.modify(b"count", lambda old: old) == b"2"
    assert view.modify(b"count", lambda old: bytearray(b"3")) == b"3"
    assert view.modify(b"count", lambda old: None) is None
    assert b"count" not in view
    assert view.modify(b"count", lambda old: None) is None
    with pytest.raises(TypeError, match="got int"):
        view.modify(b"count", lambda old: 7)
    with pytest.raises(ZeroDivisionError):
        view.modify(b"count", lambda old: 1 / 0)
    assert b"count" not in view


def test_modify_calls_the_function_again_after_a_conflicting_write(view: Any) -> None:
    seen: list[bytes | None] = []

    def change(old: bytes | None) -> bytes:
        seen.append(old)
        if len(seen) == 1:
            view[b"a"] = b"others"
        return (old or b"") + b"+"

    assert view.modify(b"a", change) == b"others+"
    assert seen == [None, b"others"]


def test_compare_and_swap(view: Any) -> None:
    assert view.compare_and_swap(b"a", None, b"1")
    assert not view.compare_and_swap(b"a", None, b"2")
    assert not view.compare_and_swap(b"a", b"2", b"3")
    assert view.compare_and_swap(b"a", b"1", b"2", sync=True)
    assert view[b"a"] == b"2"
    assert view.compare_and_swap(b"a", b"2", None)
    assert b"a" not in view
    assert view.put_if_absent(b"a", b"1")
    assert not view.put_if_absent(b"a", b"2")
    assert view[b"a"] == b"1"
