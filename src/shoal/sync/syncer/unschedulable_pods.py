"""Counts the unschedulable pods of each synced object and reports them on the hub object, for placement.

Only Pending pods are watched. A pod belongs to a downstream object whose selector it matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector
from shoal.sync.syncer.decide import is_from_hub
from shoal.sync.syncer.hub_informers import SyncedResource, SyncKey
from shoal.sync.syncer.namespaces import NamespaceMapper
from shoal.sync.syncer.transform import hub_name

Object = dict[str, Any]

PODS = GroupVersionResource("", "v1", "pods")
MIN_INTERVAL = 1.0
"""Minimum interval between counts."""
POLL_UNTIL_SERVED_SECONDS = 60.0

CountHandler = Callable[[SyncKey, int], Awaitable[None]]
"""Called with the number of unschedulable pods of an object. It writes only changes and never raises."""


class UnschedulablePods:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        hub: str,
        namespaces: NamespaceMapper,
        downstream: Mapping[SyncedResource, Reflector],
        report: CountHandler,
    ) -> None:
        self._clock, self._hub, self._namespaces, self._downstream, self._report = (
            clock,
            hub,
            namespaces,
            downstream,
            report,
        )
        self._pods = Reflector(
            *(client, PODS, clock, self._handle_pod),
            fields="status.phase=Pending",
            poll_until_served=POLL_UNTIL_SERVED_SECONDS,
            on_sync=self.mark_all,
            transform=_strip_pod,
        )
        self._dirty_namespaces: set[str] = set()
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._count())

    def _handle_pod(self, key: Key, obj: Object | None) -> None:
        self.mark_namespace(key[1])

    def mark_namespace(self, namespace: str) -> None:
        """Marks a downstream namespace for a recount."""
        self._dirty_namespaces.add(namespace)
        self._wakeup.set()

    def mark_all(self) -> None:
        """Marks all namespaces: reported counts may be outdated where no pods are left to trigger an event."""
        for reflector in self._downstream.values():
            for _, namespace, _ in reflector.objects:
                self.mark_namespace(namespace)

    async def _count(self) -> None:
        while True:
            await self._wakeup.wait()
            await self._clock.sleep(MIN_INTERVAL)
            self._wakeup.clear()
            dirty, self._dirty_namespaces = self._dirty_namespaces, set()
            for namespace in dirty if self._pods.has_synced else ():
                unschedulable = [
                    pod["labels"] for key, pod in self._pods.objects.items() if key[1] == namespace and pod["stuck"]
                ]
                for sync_key, selector in self._workloads(namespace):
                    await self._report(sync_key, sum(map(selector.matches, unschedulable)))

    def _workloads(self, namespace: str) -> Iterator[tuple[SyncKey, LabelSelector]]:
        for resource, reflector in self._downstream.items():
            for key, copy in list(reflector.objects.items()):
                selector = (copy.get("spec") or {}).get("selector")
                if key[1] != namespace or not isinstance(selector, dict) or not is_from_hub(copy, self._hub):
                    continue
                if not {"matchLabels", "matchExpressions"} & selector.keys():
                    continue
                try:
                    sync_key = SyncKey(resource, self._namespaces.hub_name(namespace), hub_name(copy))
                    yield sync_key, from_label_selector(selector)
                except BadRequest:
                    continue


def _strip_pod(pod: Object) -> Object:
    metadata = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_unschedulable = any(
        (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable") for c in conditions
    )
    identity = {key: metadata[key] for key in ("name", "namespace", "resourceVersion") if key in metadata}
    return {"metadata": identity, "labels": metadata.get("labels") or {}, "stuck": is_unschedulable}
