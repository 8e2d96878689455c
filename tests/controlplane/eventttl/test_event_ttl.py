"""Tests of Event expiry: one hour after the last write, in every logical cluster, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.controlplane.eventttl.controller import EVENT_TTL_SECONDS, expiry_time, trim_event
from tests.controlplane.world import world

EVENTS = GroupVersionResource("", "v1", "events")


def event(name: str) -> dict[str, Any]:
    about = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    return {"metadata": {"name": name, "namespace": "default"}, "involvedObject": about, "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"creationTimestamp": "1970-01-01T00:00:10Z"}, 10),
        ({"creationTimestamp": "1970-01-01T00:00:10Z", "managedFields": [{"time": "1970-01-01T00:00:30Z"}, {}]}, 30),
        ({"creationTimestamp": "1970-01-01T00:00:10Z", "managedFields": None}, 10),
        ({"creationTimestamp": "1970-01-01T00:00:10Z", "managedFields": [{"time": "when?"}, {"time": None}]}, 10),
        ({"creationTimestamp": "1970-01-01T00:00:10Z", "managedFields": [{"time": "2970-01-01T00:00:00Z"}]}, 100),
    ],
)
def test_when_an_event_expires(metadata: dict[str, Any], expected: float) -> None:
    future = {"lastTimestamp": "2970-01-01T00:00:00Z"}
    assert expiry_time(trim_event({"metadata": metadata, **future}), 100) == expected + EVENT_TTL_SECONDS, (
        "what the client says does not count"
    )


@pytest.mark.anyio
async def test_events_go_an_hour_after_their_last_write(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        one, two = await given.cluster("one"), await given.cluster("two", "hub")
        for client in (one, two):
            await client.create(EVENTS, event("old"), "default")
            await client.create(EVENTS, event("again"), "default")
        given.clock.step(3000)
        await one.merge_patch(EVENTS, "again", {"message": "once more"}, "default")
        await one.create(EVENTS, event("young"), "default")
        await given.eventually(lambda: step_until_gone(given, one, "old"))
        await given.eventually(lambda: given.is_gone(two, EVENTS, "again", "default"))
        found, _ = await one.list_all(EVENTS, "default")
        assert {obj["metadata"]["name"] for obj in found} == {"again", "young"}
        given.clock.step(3600)
        await given.eventually(lambda: given.is_gone(one, EVENTS, "again", "default"))
        await given.eventually(lambda: given.is_gone(one, EVENTS, "young", "default"))


async def step_until_gone(given: Any, client: Any, name: str) -> bool:
    """Advances the clock until the event is deleted, well short of another hour."""
    if given.clock.now() < 1_700_000_000 + 3700:
        given.clock.step(20)
    return bool(await given.is_gone(client, EVENTS, name, "default"))
