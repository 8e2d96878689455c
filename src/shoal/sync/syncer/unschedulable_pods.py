"""Counts the unschedulable pods of each synced object and reports them on the hub object, for placement.

Only Pending pods are watched. A pod belongs to a downstream object whose selector it matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from shoal.client.reflector import Key
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import LabelSelector, from_label_selector
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace
from shoal.sync.resources import PODS
from shoal.sync.syncer.decide import is_from_hub
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.hub_informers import SyncKey
from shoal.sync.syncer.transform import hub_name

Object = dict[str, Any]

MIN_INTERVAL = 1.0
"""Minimum interval between counts."""
RETRY_SECONDS = 5.0
"""After a count could not be written."""
POLL_UNTIL_SERVED_SECONDS = 60.0


class UnschedulablePods:
    def __init__(self, deps: SyncerDeps) -> None:
        self._deps = deps
        self._pods = Informer(
            deps.client,
            PODS,
            deps.clock,
            fields="status.phase=Pending",
            indexers=(by_namespace,),
            poll_until_served=POLL_UNTIL_SERVED_SECONDS,
            transform=_strip_pod,
            resumable=True,
        )
        self._pods.add_event_handler(self._handle_pod)
        self._pods.on_sync(self.mark_all)
        self._dirty_namespaces: set[str] = set()
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._count())

    def _handle_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.mark_namespace(key[1])

    def mark_namespace(self, namespace: str) -> None:
        """Marks a downstream namespace for a recount."""
        self._dirty_namespaces.add(namespace)
        self._wakeup.set()

    def mark_all(self) -> None:
        """Marks all namespaces: reported counts may be outdated where no pods are left to trigger an event."""
        for informer in self._deps.downstream.values():
            for _, namespace, _ in informer.objects:
                self.mark_namespace(namespace)

    async def _count(self) -> None:
        while True:
            await self._wakeup.wait()
            await self._deps.clock.sleep(MIN_INTERVAL)
            self._wakeup.clear()
            dirty, self._dirty_namespaces = self._dirty_namespaces, set()
            failed = [each for each in dirty if self._pods.has_synced and not await self._write_counts(each)]
            if failed:
                await self._deps.clock.sleep(RETRY_SECONDS)
            for namespace in failed:
                self.mark_namespace(namespace)

    async def _write_counts(self, namespace: str) -> bool:
        """False: some write failed."""
        is_done = True
        pods = self._pods.by_index(by_namespace, ("", namespace))
        unschedulable = [pod["labels"] for pod in pods if pod["stuck"]]
        for sync_key, selector in self._workloads(namespace):
            count = sum(map(selector.matches, unschedulable))
            obj = self._deps.hub.get_full(sync_key)
            is_done &= await self._deps.hub_writer.write_unschedulable_count(sync_key, obj, count)
        return is_done

    def _workloads(self, namespace: str) -> Iterator[tuple[SyncKey, LabelSelector]]:
        for resource, informer in list(self._deps.downstream.items()):
            for copy in informer.by_index(by_namespace, ("", namespace)):
                selector = (copy.get("spec") or {}).get("selector")
                if not isinstance(selector, dict) or not is_from_hub(copy, self._deps.hub_id):
                    continue
                if not {"matchLabels", "matchExpressions"} & selector.keys():
                    continue
                try:
                    sync_key = SyncKey(resource, self._deps.namespaces.hub_name(namespace), hub_name(copy))
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
