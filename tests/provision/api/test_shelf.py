"""An observed write is still delivered to handlers when the watch brings it."""

from __future__ import annotations

from typing import Any, cast

from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.clock import SystemClock
from shoal.provision.shelf import Shelf
from shoal.provision.view import CLAIMS

Object = dict[str, Any]
KEY = ("", "", "a")


def claim(revision: int, **annotations: str) -> Object:
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": str(revision), "annotations": annotations}}


def test_listeners_compare_with_what_they_were_told() -> None:
    nobody = cast(Transport, None)  # the watch is played here
    shelf = Shelf(Client(nobody), CLAIMS, SystemClock())
    told: list[tuple[Object | None, Object | None]] = []
    shelf.listen(lambda key, old, new: told.append((old, new)))
    first, second, third = claim(1), claim(2, chosen="x"), claim(3, chosen="x")
    shelf.learn("", first)
    assert told == []
    shelf._changed(KEY, first)
    shelf.learn("", second)
    assert shelf.get("", "a") is second
    shelf._changed(KEY, second)
    shelf._changed(KEY, third)
    shelf._changed(KEY, None)
    assert told == [(None, first), (first, second), (second, third), (third, None)]
    shelf.learn("", third)
    assert shelf.get("", "a") is None, "it is gone"
