"""Keeps status.hard and status.used of every ResourceQuota up to date, in every logical cluster.

It only reports usage; admission enforces quotas with its own count. A namespace with a quota has one watch for each
resource the quota names; other namespaces have none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.core.pod.resource_totals import parse_resource_list
from shoal.kinds.core.quota_usage import (
    ObjectUsage,
    matching_resource_names,
    measure,
    parse_quota,
    total_usage,
    tracked_resources,
)
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.workqueue import WorkQueue

GroupPlural = tuple[str, str]
"""Group and plural."""


def quota_resources(quotas: Iterable[Object]) -> set[GroupPlural]:
    """Returns the resources that the quotas constrain."""
    resources: set[GroupPlural] = set()
    for quota in quotas:
        resources |= tracked_resources((quota.get("spec") or {}).get("hard") or ())
    return resources


def quota_status(obj: Object, usages: Mapping[GroupPlural, Iterable[ObjectUsage]], now: float) -> Object:
    """`usages` has an entry for every served resource, empty or not. Others are omitted from `used`."""
    quota = parse_quota(obj)
    used: dict[str, str] = {}
    for (group, plural), objects in usages.items():
        names = matching_resource_names(group, plural, quota.hard)
        usage = total_usage((one for one in objects if quota.matches(one)), names, now)
        used |= {name: str(amount) for name, amount in usage.items()}
    hard = (obj.get("spec") or {}).get("hard") or {}
    return {"hard": hard, "used": {name: used[name] for name in hard if name in used}}


def needs_update(obj: Object, desired: Object) -> bool:
    current = obj.get("status") or {}
    return any(
        parse_resource_list(current.get(field)) != parse_resource_list(desired[field]) for field in ("hard", "used")
    )


def next_change(usages: Mapping[GroupPlural, Iterable[ObjectUsage]], now: float) -> float | None:
    """Returns the seconds until an overdue terminating pod stops counting; None if only an event can change the
    sums.
    """
    times = [
        one.compute_until for objects in usages.values() for one in objects if now < one.compute_until < float("inf")
    ]
    return min(times) - now + 0.001 if times else None


log = logging.getLogger("shoal.controlplane")

Object = dict[str, Any]
NamespaceKey = tuple[str, str]
"""Logical cluster and namespace."""

QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
WORKERS = 4
WRITE_INTERVAL_SECONDS = 0.05
"""Minimum interval between two status writes of a namespace, so that many changes cause one write."""
SYNC_RETRY_SECONDS = 0.02
DISCOVERY_RETRY_SECONDS = 10.0
"""Retry delay of discovery for a resource that is not served: its CRD may arrive."""


class QuotaInformer:
    """Informer of one resource in one namespace, with the measured usage of its objects."""

    def __init__(
        self, client: Client, gvr: GroupVersionResource, namespace: str, clock: Clock, on_change: partial[None]
    ) -> None:
        self._kind, self._on_change = gvr, on_change
        self.usages: dict[Key, ObjectUsage] = {}
        self.reflector = Reflector(client, gvr, clock, self._on_object, fields=f"metadata.namespace={namespace}")
        self.task = asyncio.create_task(self.reflector.run(), name=f"quota {gvr.resource}")

    def _on_object(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self.usages.pop(key, None)
        else:
            self.usages[key] = measure(self._kind.group, self._kind.resource, obj)
        self._on_change()


class ResourceQuotaController:
    name = "quotas"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._queue: WorkQueue[NamespaceKey] = WorkQueue(clock, "resourcequotas")
        self._quotas: dict[NamespaceKey, dict[str, Object]] = {}
        self._informers: dict[NamespaceKey, dict[GroupPlural, QuotaInformer]] = {}
        self._delay_tasks: set[asyncio.Task[None]] = set()
        self._reflector = Reflector(client.in_cluster("*"), QUOTAS, clock, self._on_quota)

    def _on_quota(self, key: Key, obj: Object | None) -> None:
        namespace_key, name = key[:2], key[2]
        quotas = self._quotas.setdefault(namespace_key, {})
        if obj is None:
            quotas.pop(name, None)
        else:
            quotas[name] = obj
        self._queue.add(namespace_key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reflector.run())
                for _ in range(WORKERS):
                    group.create_task(self._run_worker())
        finally:
            self._queue.close()
            for namespace_key in list(self._informers):
                self._stop_informers(namespace_key)
            for task in self._delay_tasks:
                task.cancel()

    async def _run_worker(self) -> None:
        while True:
            namespace_key = await self._queue.get()
            try:
                has_written, requeue_after = await self._reconcile(namespace_key)
            except (StatusError, Unreachable) as error:
                delay = self._queue.retry(namespace_key)
                log.info("quotas: reconciling %s/%s failed: %s; retrying in %.1f s", *namespace_key, error, delay)
                continue
            except Exception:
                log.exception("quotas: reconciling %s/%s failed", *namespace_key)
                self._queue.retry(namespace_key)
                continue
            if has_written:
                self._finish_later(namespace_key)
            else:
                self._queue.done(namespace_key)
            if requeue_after is not None:
                self._queue.add_after(namespace_key, requeue_after)

    def _finish_later(self, namespace_key: NamespaceKey) -> None:
        async def finish() -> None:
            await self._clock.sleep(WRITE_INTERVAL_SECONDS)
            self._queue.done(namespace_key)

        task = asyncio.create_task(finish())
        self._delay_tasks.add(task)
        task.add_done_callback(self._delay_tasks.discard)

    async def _reconcile(self, namespace_key: NamespaceKey) -> tuple[bool, float | None]:
        """Returns whether a status was written, and the delay until the next reconcile if nothing changes before."""
        quotas = self._quotas.get(namespace_key)
        if not quotas:
            self._quotas.pop(namespace_key, None)
            self._stop_informers(namespace_key)
            return False, None
        has_unserved = await self._sync_informers(namespace_key, quota_resources(quotas.values()))
        informers = self._informers[namespace_key]
        if not all(one.reflector.has_synced for one in informers.values()):
            return False, SYNC_RETRY_SECONDS
        usages = {name: one.usages.values() for name, one in informers.items()}
        now, has_written = self._clock.now(), False
        for quota in list(quotas.values()):
            desired = quota_status(quota, usages, now)
            if needs_update(quota, desired):
                has_written = True
                await self._write_status(namespace_key, quota, desired)
        requeue_after = next_change(usages, now)
        return has_written, DISCOVERY_RETRY_SECONDS if has_unserved and (
            requeue_after is None or requeue_after > DISCOVERY_RETRY_SECONDS
        ) else requeue_after

    async def _write_status(self, namespace_key: NamespaceKey, quota: Object, desired: Object) -> None:
        with suppress(NotFound):  # the quota was deleted; the informer delivers that shortly
            await self._client.in_cluster(namespace_key[0]).update(QUOTAS, {**quota, "status": desired}, "status")

    async def _sync_informers(self, namespace_key: NamespaceKey, desired: set[GroupPlural]) -> bool:
        """Watches exactly the desired resources. Returns whether some are not served."""
        cluster, namespace = namespace_key
        informers = self._informers.setdefault(namespace_key, {})
        for name in [name for name in informers if name not in desired]:
            informers.pop(name).task.cancel()
        missing = desired - informers.keys()
        if not missing:
            return False
        client = self._client.in_cluster(cluster)
        served = {
            (kind.group, kind.resource): kind for kind, verbs in await client.preferred_resources() if "watch" in verbs
        }
        on_change = partial(self._queue.add, namespace_key)
        for name in missing & served.keys():
            if served[name].namespaced:
                informers[name] = QuotaInformer(client, served[name], namespace, self._clock, on_change)
        return not missing <= served.keys()

    def _stop_informers(self, namespace_key: NamespaceKey) -> None:
        for one in self._informers.pop(namespace_key, {}).values():
            one.task.cancel()
