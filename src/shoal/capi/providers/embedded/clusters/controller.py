"""Reconciles EmbeddedClusters: hosts each as a logical cluster of the hosting server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from shoal.capi.providers.embedded.clusters.decide import Decision, Server, Snapshot, decide
from shoal.capi.providers.embedded.resources import EmbeddedResources
from shoal.capi.resources import Changes, Name, name_of
from shoal.client.reflector import key_of
from shoal.client.requests import Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi, embedded
from shoal.objects.errors import AlreadyExists
from shoal.runtime.loop import Loop

Object = dict[str, Any]

WORKERS = 32
"""More than machines have: machines wait for their cluster."""
ACCOUNTS = Kind("", "v1", "serviceaccounts")
BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)


class EmbeddedClusterLoop:
    def __init__(self, resources: EmbeddedResources, clock: Clock, server: Callable[[], Server]) -> None:
        self._resources, self._clock, self._server = resources, clock, server
        self.loop: Loop[Name] = Loop("capi-embeddedclusters", clock, self.reconcile, WORKERS)
        self._clusters = Changes(_of_interest)
        resources.core.follow(resources.clusters, self.loop.queue)
        resources.core.clusters.listen(self._cluster)
        resources.logical_clusters.listen(lambda obj: self._hosted(obj["metadata"]["name"]))
        resources.credentials.listen(lambda obj: self._hosted(key_of(obj)[0]))
        resources.core.kubeconfigs.listen(self._kubeconfig)

    def _cluster(self, obj: Object) -> None:
        if self._clusters.matter(obj):
            self._enqueue(obj)

    def _enqueue(self, cluster: Object) -> None:
        reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
        if reference.get("kind") == embedded.CLUSTER:
            self.loop.queue.add((cluster["metadata"]["namespace"], reference["name"]))

    def _hosted(self, logical: str) -> None:
        if "." in logical:
            self.loop.queue.add(embedded.hosted_owner(logical))

    def _kubeconfig(self, obj: Object) -> None:
        namespace = obj["metadata"]["namespace"]
        cluster = self._resources.core.clusters.get(namespace, capi.labels_of(obj).get(capi.CLUSTER_NAME, ""))
        if cluster is not None:
            self._enqueue(cluster)

    async def reconcile(self, key: Name) -> None:
        await self._resources.core.listed()
        obj = self._resources.clusters.get(*key)
        if obj is None:
            return
        seen = self._look(obj)
        decision = self._decide(seen)
        if decision.patch is not None:
            obj = await self._resources.clusters.patch(obj, decision.patch)
            decision = self._decide(replace(seen, infrastructure=obj))
        await self._act(seen, decision)

    def _look(self, obj: Object) -> Snapshot:
        resources = self._resources
        namespace, name = name_of(obj)
        hosted = embedded.hosted_name(namespace, name)
        owner = capi.owner_of(obj, capi.CLUSTER)
        return Snapshot(
            infrastructure=obj,
            cluster=resources.core.clusters.get(namespace, owner),
            logical=resources.logical_clusters.get("", hosted),
            credential=resources.credentials.get(embedded.ADMIN_NAMESPACE, embedded.ADMIN_TOKEN, hosted),
            kubeconfig=resources.core.kubeconfigs.get(namespace, capi.kubeconfig_name(owner)),
        )

    def _decide(self, seen: Snapshot) -> Decision:
        return decide(seen, self._server(), rfc3339(self._clock.now()))

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources, logical = self._resources, seen.logical
        if decision.host is not None:
            await resources.logical_clusters.create(decision.host)
            await self._administrator(decision.host["metadata"]["name"])
        if logical is not None and decision.upgrade is not None:
            await resources.logical_clusters.patch(logical, decision.upgrade)
        if logical is not None and decision.administrator:
            await self._administrator(logical["metadata"]["name"])
        if decision.kubeconfig is not None:
            view = resources.core.kubeconfigs
            await (view.create(decision.kubeconfig) if seen.kubeconfig is None else view.update(decision.kubeconfig))
        if decision.status is not None and not resources.core.can_wait(
            self.loop.queue, seen.infrastructure, decision.status
        ):
            await resources.clusters.update_status(decision.status)
        if logical is not None and decision.delete:
            await resources.logical_clusters.delete(logical)

    async def _administrator(self, hosted: str) -> None:
        """The ServiceAccount is created first: a token Secret without it would be collected as an orphan."""
        client = self._resources.host.at(hosted)
        create, namespace = self._resources.credentials.create, embedded.ADMIN_NAMESPACE
        await _ensure(partial(client.create, ACCOUNTS, embedded.admin_account(), namespace))
        await asyncio.gather(
            _ensure(partial(client.create, BINDINGS, embedded.admin_binding())),
            _ensure(partial(create, embedded.admin_token(), hosted)),
        )


async def _ensure(create: Callable[[], Awaitable[Object]]) -> None:
    try:
        await create()
    except AlreadyExists:
        return


def _of_interest(cluster: Object) -> Any:
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    return metadata["uid"], capi.is_paused(cluster, cluster), (spec.get("topology") or {}).get("version")
