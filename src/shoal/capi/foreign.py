"""Tracks external objects that Clusters refer to: finds the kind by its CRD, then watches it.

A control plane provider may run anywhere; only its object is needed. The version to read is the one that keeps the
v1beta2 contract, which the CRD names in a label.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.capi.views import Told, View
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.capi import CONTRACT, labels_of
from shoal.objects.errors import NotFound, StatusError

Object = dict[str, Any]
GroupKind = tuple[str, str]

DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
PAUSE = 10.0
"""Seconds until a missing CRD is looked up again."""


class Foreign:
    name = "capi watch of foreign kinds"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._wanted: asyncio.Queue[GroupKind] = asyncio.Queue()
        self._asked: set[GroupKind] = set()
        self._views: dict[GroupKind, View] = {}
        self._undefined: set[GroupKind] = set()
        self._listeners: list[Told] = []

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    def view(self, group: str, kind: str) -> View | None:
        """None until the kind is found and its informer has synced. Handlers then receive its objects."""
        key = (group, kind)
        if key not in self._asked and group and kind:
            self._asked.add(key)
            self._wanted.put_nowait(key)
        return self._views.get(key)

    def knows(self, group: str, kind: str) -> bool:
        """Reports whether a missing object really does not exist: its kind is watched, or the server has no such
        kind.
        """
        return self.view(group, kind) is not None or (group, kind) in self._undefined

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._wanted.get()))

    async def _follow(self, key: GroupKind) -> None:
        found = await self._find(*key)
        while found is None:
            await self._clock.sleep(PAUSE)
            found = await self._find(*key)
        self._undefined.discard(key)
        view = View(self._client, found, self._clock)
        for told in self._listeners:
            view.listen(told)
        async with asyncio.TaskGroup() as group:
            group.create_task(view.run())
            await view.listed()
            self._views[key] = view
            for obj in list(view.objects.values()):
                for told in self._listeners:
                    told(obj)

    async def _find(self, group: str, kind: str) -> Kind | None:
        try:
            for plural in plurals(kind):
                definition = await self._definition(f"{plural}.{group}")
                version = contract_version(definition) if definition is not None else ""
                if definition is not None and version and definition["spec"]["names"]["kind"] == kind:
                    return Kind(group, version, plural)
        except (StatusError, Unreachable):
            return None  # unknown: retried later
        self._undefined.add((group, kind))
        return None

    async def _definition(self, name: str) -> Object | None:
        try:
            return await self._client.get(DEFINITIONS, name)
        except NotFound:
            return None


def contract_version(definition: Object) -> str:
    """The last version that keeps the contract."""
    return labels_of(definition).get(CONTRACT, "").split("_")[-1]


def plurals(kind: str) -> list[str]:
    """Possible plurals of a kind; the CRD is named after the plural."""
    word = kind.lower()
    if word.endswith("y"):
        return [f"{word[:-1]}ies", f"{word}s"]
    return [f"{word}es", f"{word}s"] if word.endswith(("s", "x", "ch", "sh")) else [f"{word}s", word]
