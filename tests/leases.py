"""A Lease whose holder was paused: it acts as if it held it, until it looks; and what it may then not do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from tests.serving import config_map

Object = dict[str, Any]
MAPS = GroupVersionResource("", "v1", "configmaps")


class Stale:
    """Stands where a `Lease` would; `valid` says what a look at it finds."""

    valid = False
    looks = 0
    is_leader = True

    def __init__(self, *_: object) -> None:
        type(self).looks, type(self).valid = 0, False

    def is_lease_valid(self) -> bool:
        type(self).looks += 1
        return self.valid

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()


def every_write(client: Client, made: Object) -> list[Awaitable[object]]:
    """Every way to write, at the ConfigMap `made` in namespace default or beside it."""
    name = made["metadata"]["name"]
    return [
        client.create(MAPS, config_map("another"), "default"),
        client.update(MAPS, {**made, "data": {"n": "2"}}),
        client.merge_patch(MAPS, name, {"data": {"n": "2"}}, "default"),
        client.apply(MAPS, config_map(name, {"n": "2"}, namespace="default"), "me"),
        client.delete(MAPS, name, "default"),
        client.delete_all(MAPS, "default"),
    ]
