"""Counts the unschedulable pods of each synced object and reports them on the hub object, for placement.

Only Pending pods are watched. A pod belongs to a downstream object whose selector it matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector
from shoal.sync.syncer.decide import is_ours
from shoal.sync.syncer.hub import Synced, Work
from shoal.sync.syncer.namespaces import Namespaces
from shoal.sync.syncer.travelling import object_named

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")
PACE_SECONDS = 1.0
"""Minimum interval between counts."""
UNSERVED_SECONDS = 60.0

Tell = Callable[[Work, int], Awaitable[None]]
"""Called with the number of unschedulable pods of an object. It writes only changes and never raises."""


class Pending:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        hub: str,
        namespaces: Namespaces,
        copies: Mapping[Synced, Reflector],
        tell: Tell,
    ) -> None:
        self._clock, self._hub, self._namespaces, self._copies, self._tell = clock, hub, namespaces, copies, tell
        self._pods = Reflector(
            *(client, PODS, clock, self._changed),
            fields="status.phase=Pending",
            unserved=UNSERVED_SECONDS,
            listed=self.look_everywhere,
            keep=_what_matters,
        )
        self._touched: set[str] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._count())

    def _changed(self, key: Key, obj: Object | None) -> None:
        self.look_at(key[1])

    def look_at(self, namespace: str) -> None:
        """Marks a downstream namespace for a recount."""
        self._touched.add(namespace)
        self._news.set()

    def look_everywhere(self) -> None:
        """Marks all namespaces: reported counts may be outdated where no pods are left to trigger an event."""
        for reflector in self._copies.values():
            for _, namespace, _ in reflector.objects:
                self.look_at(namespace)

    async def _count(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(PACE_SECONDS)
            self._news.clear()
            touched, self._touched = self._touched, set()
            for namespace in touched if self._pods.synced else ():
                stuck = [
                    pod["labels"] for key, pod in self._pods.objects.items() if key[1] == namespace and pod["stuck"]
                ]
                for work, selector in self._workloads(namespace):
                    await self._tell(work, sum(map(selector.matches, stuck)))

    def _workloads(self, namespace: str) -> Iterator[tuple[Work, LabelSelector]]:
        for synced, reflector in self._copies.items():
            for key, copy in list(reflector.objects.items()):
                selector = (copy.get("spec") or {}).get("selector")
                if key[1] != namespace or not isinstance(selector, dict) or not is_ours(copy, self._hub):
                    continue
                if not {"matchLabels", "matchExpressions"} & selector.keys():
                    continue
                try:
                    work = Work(synced, self._namespaces.hub_name(namespace), object_named(copy))
                    yield work, from_label_selector(selector)
                except BadRequest:
                    continue


def _what_matters(pod: Object) -> Object:
    metadata = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    stuck = any(
        (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable") for c in conditions
    )
    named = {key: metadata[key] for key in ("name", "namespace", "resourceVersion") if key in metadata}
    return {"metadata": named, "labels": metadata.get("labels") or {}, "stuck": stuck}
