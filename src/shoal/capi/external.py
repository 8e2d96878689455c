"""Tracks external objects that Clusters refer to: finds the kind by its CRD, then watches it.

A control plane provider may run anywhere; only its object is needed. The version to read is the one that keeps the
v1beta2 contract, which the CRD names in a label.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.clusterapi.capi import CONTRACT_LABEL, labels_of
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.informer import EventHandler, Informer

Object = dict[str, Any]
GroupKind = tuple[str, str]

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
RETRY_SECONDS = 10.0
"""Seconds until a missing CRD is looked up again."""


class ExternalObjectTracker:
    name = "capi watch of foreign kinds"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._requests: asyncio.Queue[GroupKind] = asyncio.Queue()
        self._requested: set[GroupKind] = set()
        self._informers: dict[GroupKind, Informer] = {}
        self._without_crd: set[GroupKind] = set()
        self._handlers: list[EventHandler] = []

    def add_event_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    def informer_for(self, group: str, kind: str) -> Informer | None:
        """None until the kind is found and its informer has synced. Handlers then receive its objects."""
        key = (group, kind)
        if key not in self._requested and group and kind:
            self._requested.add(key)
            self._requests.put_nowait(key)
        informer = self._informers.get(key)
        return informer if informer is not None and informer.has_synced else None

    def can_resolve(self, group: str, kind: str) -> bool:
        """Reports whether a missing object really does not exist: its kind is watched, or the server has no such
        kind.
        """
        return self.informer_for(group, kind) is not None or (group, kind) in self._without_crd

    async def run(self) -> None:
        """Runs until it is cancelled. May be called again: every requested kind is then watched again."""
        self._requests = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for key in self._requested:
                group.create_task(self._watch_kind(key))
            while True:
                group.create_task(self._watch_kind(await self._requests.get()))

    async def _watch_kind(self, key: GroupKind) -> None:
        gvr = await self._find_resource(*key)
        while gvr is None:
            await self._clock.sleep(RETRY_SECONDS)
            gvr = await self._find_resource(*key)
        self._without_crd.discard(key)
        informer = self._informers[key] = Informer(self._client, gvr, self._clock)
        for handler in self._handlers:
            informer.add_event_handler(handler)
        await informer.run()

    async def _find_resource(self, group: str, kind: str) -> GroupVersionResource | None:
        try:
            for plural in plural_candidates(kind):
                crd = await self._get_crd(f"{plural}.{group}")
                version = contract_version(crd) if crd is not None else ""
                if crd is not None and version and crd["spec"]["names"]["kind"] == kind:
                    return GroupVersionResource(group, version, plural)
        except (StatusError, Unreachable):
            return None  # unknown: retried later
        self._without_crd.add((group, kind))
        return None

    async def _get_crd(self, name: str) -> Object | None:
        try:
            return await self._client.get(CRDS, name)
        except NotFound:
            return None


def contract_version(crd: Object) -> str:
    """The last version that keeps the contract."""
    return labels_of(crd).get(CONTRACT_LABEL, "").split("_")[-1]


def plural_candidates(kind: str) -> list[str]:
    """Possible plurals of a kind; the CRD is named after the plural."""
    word = kind.lower()
    if word.endswith("y"):
        return [f"{word[:-1]}ies", f"{word}s"]
    return [f"{word}es", f"{word}s"] if word.endswith(("s", "x", "ch", "sh")) else [f"{word}s", word]
