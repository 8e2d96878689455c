"""Informers of kinds that may not be served or not be readable: prices, templates.

Others wait for the first list, but only for a limited time. An unreadable kind counts as empty until it can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import NotFound, StatusError

Object = dict[str, Any]
GroupKind = tuple[str, str]
Told = Callable[[str], None]
"""Called with the namespace in which something changed; empty: all namespaces."""

PATIENCE_SECONDS = 10.0


class Copy:
    def __init__(self, client: Client, kind: Kind, clock: Clock, told: Told, *, fields: str = "") -> None:
        self.kind, self._clock, self._told = kind, clock, told
        self.answered = False
        """True after the first list or the timeout: there is nothing to wait for."""
        self._reflector = Reflector(
            client,
            kind,
            clock,
            self._changed,
            fields=fields,
            unserved=PATIENCE_SECONDS,
            listed=self._listed,
            shared=True,
        )

    @property
    def synced(self) -> bool:
        """True if an object missing here does not exist."""
        return self._reflector.synced

    def get(self, namespace: str, name: str) -> Object | None:
        return self._reflector.objects.get(("", namespace, name))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._give_up())

    async def _give_up(self) -> None:
        await self._clock.sleep(PATIENCE_SECONDS)
        self._listed()

    def _listed(self) -> None:
        if not self.answered:
            self.answered = True
            self._told("")

    def _changed(self, key: Key, obj: Object | None) -> None:
        if self.answered:
            self._told(key[1])


class Templates:
    """Infrastructure and bootstrap templates of all kinds that MachineDeployments and node classes reference."""

    def __init__(self, management: Client, clock: Clock, told: Told) -> None:
        self._management, self._clock, self._told = management, clock, told
        self._wanted: asyncio.Queue[GroupKind] = asyncio.Queue()
        self._copies: dict[GroupKind, Copy | None] = {}
        """None: the resource of the kind is not discovered yet."""
        self._missing: set[GroupKind] = set()

    @property
    def answered(self) -> bool:
        """True if every requested kind is synced, timed out or not served."""
        return all(key in self._missing or (each and each.answered) for key, each in self._copies.items())

    def get(self, namespace: str, reference: Object) -> Object | None:
        found = self._copy(reference)
        return found.get(namespace, str(reference.get("name"))) if found is not None else None

    def knows(self, reference: Object) -> bool:
        """True if an object of the kind that `get` does not find does not exist."""
        found = self._copy(reference)
        return found is not None and found.synced

    def _copy(self, reference: Object) -> Copy | None:
        """Starts to watch the kind on the first request."""
        key = str(reference.get("apiGroup") or ""), str(reference.get("kind") or "")
        if key not in self._copies and all(key):
            self._copies[key] = None
            self._wanted.put_nowait(key)
        return self._copies.get(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._wanted.get()))

    async def _follow(self, key: GroupKind) -> None:
        while (kind := await self._find(key)) is None:
            if key not in self._missing:
                self._missing.add(key)
                self._told("")
            await self._clock.sleep(PATIENCE_SECONDS)
        found = self._copies[key] = Copy(self._management, kind, self._clock, self._told)
        self._missing.discard(key)
        await found.run()

    async def _find(self, key: GroupKind) -> Kind | None:
        try:
            return await kind_of(self._management, *key)
        except (StatusError, Unreachable):
            return None


async def kind_of(client: Client, group: str, kind: str, version: str = "") -> Kind | None:
    """Discovers the resource of a kind in the preferred or given version; None if it is not served."""
    try:
        served = await client.read(f"/apis/{group}")
        preferred = (served.get("preferredVersion") or {}).get("version", "")
        others = [str(each["version"]) for each in served.get("versions") or ()]
        for candidate in [version] if version else dict.fromkeys([preferred, *others]):
            listed = await client.read(f"/apis/{group}/{candidate}") if candidate else {}
            for each in listed.get("resources") or ():
                if each["kind"] == kind and "/" not in each["name"]:
                    return Kind(group, candidate, each["name"], each.get("namespaced", True))
    except NotFound:
        return None
    return None
