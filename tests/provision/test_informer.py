"""An observed write is still delivered to handlers when the watch brings it."""

from __future__ import annotations

from typing import Any, cast

from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.clock import SystemClock
from shoal.provision.informer import Informer
from shoal.provision.state import NODE_CLAIMS

Object = dict[str, Any]
KEY = ("", "", "a")


def claim(revision: int, **annotations: str) -> Object:
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": str(revision), "annotations": annotations}}


def test_listeners_compare_with_what_they_were_told() -> None:
    nobody = cast(Transport, None)  # the watch is played here
    shelf = Informer(Client(nobody), NODE_CLAIMS, SystemClock())
    told: list[tuple[Object | None, Object | None]] = []
    shelf.add_event_handler(lambda key, old, new: told.append((old, new)))
    first, second, third = claim(1), claim(2, chosen="x"), claim(3, chosen="x")
    shelf.observe_write("", first)
    assert told == []
    shelf._on_event(KEY, first)
    shelf.observe_write("", second)
    assert shelf.get("", "a") is second
    shelf._on_event(KEY, second)
    shelf._on_event(KEY, third)
    shelf._on_event(KEY, None)
    assert told == [(None, first), (first, second), (second, third), (third, None)]
    shelf.observe_write("", third)
    assert shelf.get("", "a") is None, "it is gone"
