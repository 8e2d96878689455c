"""Reconciles EmbeddedClusters: hosts each as a logical cluster of the hosting server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from shoal.capi.informers import NamespacedName, has_changed, namespaced_name, versions
from shoal.capi.providers.embedded.clusters.decide import (
    EmbeddedClusterDecision,
    EmbeddedClusterSnapshot,
    HostingServer,
    decide,
)
from shoal.capi.providers.embedded.informers import SERVICE_ACCOUNTS, EmbeddedInformers
from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi import capi, embedded
from shoal.objects.errors import AlreadyExists
from shoal.runtime.controller import Controller

Object = dict[str, Any]

WORKERS = 32
"""More than machines have: machines wait for their cluster."""
RESYNC_SECONDS = 3600.0
"""The kubeconfig has the authority of the hosting server, whose replacement no object shows."""
CLUSTER_ROLE_BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)


class EmbeddedClusterReconciler:
    def __init__(self, informers: EmbeddedInformers, clock: Clock, server: Callable[[], HostingServer]) -> None:
        self._informers, self._clock, self._server = informers, clock, server
        self.controller: Controller[NamespacedName] = Controller(
            "capi-embeddedclusters", clock, self.reconcile, WORKERS
        )
        informers.core_informers.enqueue_on_change(informers.clusters, self.controller.queue)
        informers.core_informers.clusters.add_event_handler(self._on_cluster)
        informers.logical_clusters.add_event_handler(lambda key, old, new: self._on_logical_cluster(key[2]))
        informers.admin_accounts.add_event_handler(lambda key, old, new: self._on_logical_cluster(key[0]))
        informers.core_informers.kubeconfigs.add_event_handler(self._on_kubeconfig)

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_changed(old, new, _relevant_cluster_state):
            for cluster in versions(old, new):
                self._enqueue(cluster)

    def _enqueue(self, cluster: Object) -> None:
        reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
        if reference.get("kind") == embedded.CLUSTER:
            self.controller.queue.add((cluster["metadata"]["namespace"], reference["name"]))

    def _on_logical_cluster(self, logical: str) -> None:
        if "." in logical:
            self.controller.queue.add(embedded.owner_of_logical_cluster(logical))

    def _on_kubeconfig(self, key: Key, old: Object | None, new: Object | None) -> None:
        for secret in versions(old, new):
            name = capi.labels_of(secret).get(capi.CLUSTER_NAME, "")
            cluster = self._informers.core_informers.clusters.get(("", key[1], name))
            if cluster is not None:
                self._enqueue(cluster)

    async def reconcile(self, key: NamespacedName) -> float | None:
        await self._informers.core_informers.wait_for_sync()
        obj = self._informers.clusters.get(("", *key))
        if obj is None:
            return None
        snapshot = self._snapshot(obj)
        decision = self._decide(snapshot)
        if decision.patch is not None:
            obj = await self._informers.core_informers.writer.patch(self._informers.clusters, obj, decision.patch)
            decision = self._decide(replace(snapshot, infrastructure=obj))
        if decision.request_token:
            snapshot = replace(snapshot, token=await self._request_token(snapshot))
            decision = self._decide(replace(snapshot, infrastructure=obj))
        await self._apply(snapshot, decision)
        return min(decision.renew_after, RESYNC_SECONDS) if decision.renew_after is not None else None

    def _snapshot(self, obj: Object) -> EmbeddedClusterSnapshot:
        informers = self._informers
        namespace, name = namespaced_name(obj)
        hosted = embedded.logical_cluster_name(namespace, name)
        owner = capi.owner_name(obj, capi.CLUSTER)
        return EmbeddedClusterSnapshot(
            infrastructure=obj,
            cluster=informers.core_informers.clusters.get(("", namespace, owner)),
            logical_cluster=informers.logical_clusters.get(("", "", hosted)),
            account=informers.admin_accounts.get((hosted, embedded.ADMIN_NAMESPACE, embedded.ADMIN_SERVICE_ACCOUNT)),
            kubeconfig=informers.core_informers.kubeconfigs.get(("", namespace, capi.kubeconfig_secret_name(owner))),
        )

    def _decide(self, snapshot: EmbeddedClusterSnapshot) -> EmbeddedClusterDecision:
        return decide(snapshot, self._server(), rfc3339(self._clock.now()))

    async def _apply(self, snapshot: EmbeddedClusterSnapshot, decision: EmbeddedClusterDecision) -> None:
        informers, logical = self._informers, snapshot.logical_cluster
        writer, host_writer = informers.core_informers.writer, informers.host_writer
        if decision.create_logical_cluster is not None:
            await host_writer.create(informers.logical_clusters, decision.create_logical_cluster)
            await self._create_admin(decision.create_logical_cluster["metadata"]["name"])
        if logical is not None and decision.patch_logical_cluster is not None:
            await host_writer.patch(informers.logical_clusters, logical, decision.patch_logical_cluster)
        if decision.logical_cluster_status is not None:
            await host_writer.update_status(informers.logical_clusters, decision.logical_cluster_status)
        if logical is not None and decision.create_admin:
            await self._create_admin(logical["metadata"]["name"])
        if decision.kubeconfig is not None:
            informer = informers.core_informers.kubeconfigs
            await (
                writer.create(informer, decision.kubeconfig)
                if snapshot.kubeconfig is None
                else writer.update(informer, decision.kubeconfig)
            )
        if decision.status is not None and not informers.core_informers.defer_status(
            self.controller.queue, snapshot.infrastructure, decision.status
        ):
            await writer.update_status(informers.clusters, decision.status)
        if logical is not None and decision.delete_logical_cluster:
            await host_writer.delete(informers.logical_clusters, logical)

    async def _create_admin(self, hosted: str) -> None:
        """The ServiceAccount is created last. A reconcile that finds it creates nothing, so its role must exist."""
        client, create = self._informers.host.in_cluster(hosted), self._informers.host_writer.create
        await _create_if_missing(partial(client.create, CLUSTER_ROLE_BINDINGS, embedded.admin_role_binding()))
        account = embedded.admin_service_account()
        await _create_if_missing(partial(create, self._informers.admin_accounts, account, hosted))

    async def _request_token(self, snapshot: EmbeddedClusterSnapshot) -> str:
        assert snapshot.logical_cluster is not None
        client = self._informers.host.in_cluster(snapshot.logical_cluster["metadata"]["name"])
        path = client.resource_path(SERVICE_ACCOUNTS, embedded.ADMIN_SERVICE_ACCOUNT, embedded.ADMIN_NAMESPACE, "token")
        body = {"spec": {"expirationSeconds": embedded.ADMIN_TOKEN_SECONDS}}
        return str((await client.request("POST", path, body=body))["status"]["token"])


async def _create_if_missing(create: Callable[[], Awaitable[Object]]) -> None:
    try:
        await create()
    except AlreadyExists:
        return


def _relevant_cluster_state(cluster: Object) -> Any:
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    return metadata["uid"], capi.is_paused(cluster, cluster), (spec.get("topology") or {}).get("version")
