"""Keeps status.hard and status.used of every ResourceQuota up to date, in every logical cluster.

It only reports usage; admission enforces quotas with its own count. A namespace with a quota has one watch for each
resource the quota names; other namespaces have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
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
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace

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


Object = dict[str, Any]
NamespaceKey = tuple[str, str]
"""Logical cluster and namespace."""

QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
WRITE_INTERVAL_SECONDS = 0.05
"""Minimum interval between two status writes of a namespace, so that many changes cause one write."""
DISCOVERY_RETRY_SECONDS = 10.0
"""Retry delay of discovery for a resource that is not served: its CRD may arrive."""


class QuotaInformer:
    """Informer of one resource in one namespace, with the measured usage of its objects. `on_change` is called after
    every list and change.
    """

    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        namespace: str,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._kind, self._on_change = gvr, on_change
        self.usages: dict[Key, ObjectUsage] = {}
        self._informer = Informer(client, gvr, clock, fields=f"metadata.namespace={namespace}")
        self._informer.add_event_handler(self._on_object)
        self._informer.on_sync(on_change)
        self._task: asyncio.Task[None] | None = None

    @property
    def has_synced(self) -> bool:
        return self._informer.has_synced

    def start(self, group: asyncio.TaskGroup) -> None:
        self._task = group.create_task(self._informer.run(), name=f"quota {self._kind.resource}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _on_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.usages.pop(key, None)
        else:
            self.usages[key] = measure(self._kind.group, self._kind.resource, new)
        self._on_change()


class ResourceQuotaController:
    """Keys are namespaces."""

    name = "quotas"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._controller: Controller[NamespaceKey] = Controller("resourcequotas", clock, self._reconcile)
        self._quotas = Informer(client.in_cluster("*"), QUOTAS, clock, indexers=(by_namespace,))
        self._controller.watch(self._quotas, lambda key, old, new: self._enqueue(key[:2]))
        self._controller.sources.append(self._run_informers)
        self._informers: dict[NamespaceKey, dict[GroupPlural, QuotaInformer]] = {}
        self._group: asyncio.TaskGroup | None = None
        """The task group of all quota informers while the controller runs."""
        self._paused_until: dict[NamespaceKey, float] = {}

    async def run(self) -> None:
        await self._controller.run()

    async def _run_informers(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informers in self._informers.values():
                    for one in informers.values():
                        one.start(group)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def _enqueue(self, namespace_key: NamespaceKey) -> None:
        remaining = self._paused_until.get(namespace_key, 0.0) - self._clock.monotonic()
        if remaining > 0:
            self._controller.queue.add_after(namespace_key, remaining)
        else:
            self._controller.queue.add(namespace_key)

    async def _reconcile(self, namespace_key: NamespaceKey) -> float | None:
        if not self._quotas.has_synced:
            return None  # the list enqueues every namespace with a quota
        quotas = self._quotas.by_index(by_namespace, namespace_key)
        if not quotas:
            self._stop_informers(namespace_key)
            return None
        has_unserved = await self._sync_informers(namespace_key, quota_resources(quotas))
        informers = self._informers[namespace_key]
        if not all(one.has_synced for one in informers.values()):
            return None  # each list enqueues the namespace
        usages = {name: one.usages.values() for name, one in informers.items()}
        now = self._clock.now()
        for quota in quotas:
            desired = quota_status(quota, usages, now)
            if needs_update(quota, desired):
                self._paused_until[namespace_key] = self._clock.monotonic() + WRITE_INTERVAL_SECONDS
                await self._write_status(namespace_key, quota, desired)
        requeue_after = next_change(usages, now)
        return (
            DISCOVERY_RETRY_SECONDS
            if has_unserved and (requeue_after is None or requeue_after > DISCOVERY_RETRY_SECONDS)
            else requeue_after
        )

    async def _write_status(self, namespace_key: NamespaceKey, quota: Object, desired: Object) -> None:
        cluster = namespace_key[0]
        with suppress(NotFound):  # the quota was deleted; the informer delivers that shortly
            updated = await self._client.in_cluster(cluster).update(QUOTAS, {**quota, "status": desired}, "status")
            self._quotas.observe_write(updated, cluster)

    async def _sync_informers(self, namespace_key: NamespaceKey, desired: set[GroupPlural]) -> bool:
        """Watches exactly the desired resources. Returns whether some are not served."""
        cluster, namespace = namespace_key
        informers = self._informers.setdefault(namespace_key, {})
        for name in [name for name in informers if name not in desired]:
            informers.pop(name).stop()
        missing = desired - informers.keys()
        if not missing:
            return False
        client = self._client.in_cluster(cluster)
        client.informers = None  # nobody else reads a single namespace; a shared store would outlive it
        served = {
            (kind.group, kind.resource): kind for kind, verbs in await client.preferred_resources() if "watch" in verbs
        }
        on_change = partial(self._enqueue, namespace_key)
        for name in missing & served.keys():
            if served[name].namespaced:
                assert self._group is not None, "workers run beside the source of the group"
                one = informers[name] = QuotaInformer(client, served[name], namespace, self._clock, on_change)
                one.start(self._group)
        return not missing <= served.keys()

    def _stop_informers(self, namespace_key: NamespaceKey) -> None:
        self._paused_until.pop(namespace_key, None)
        for one in self._informers.pop(namespace_key, {}).values():
            one.stop()
