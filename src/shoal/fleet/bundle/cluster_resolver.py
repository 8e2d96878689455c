"""Resolves the cluster of a Worker: the one that its kubeconfig names, or a KINDCluster that is created for it.

The kind provider is only reached through the API.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.bundle import decide
from shoal.fleet.bundle.decide import BundleCondition
from shoal.fleet.bundle.objects import NAMESPACE
from shoal.fleet.bundle.remote_cluster import BundleBlocked, Connect, RemoteCluster, RemoteClusters
from shoal.fleet.resources import SECRETS
from shoal.kinds.clusterapi import kindcluster
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import AlreadyExists, Forbidden, NotFound, StatusError, Unauthorized
from shoal.runtime.informer import Informer

Object = dict[str, Any]

KIND_CLUSTERS = GroupVersionResource(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)


class ClusterResolver:
    def __init__(self, client: Client, clock: Clock, connect: Connect, enqueue: Callable[[str], None]) -> None:
        """`enqueue` is called with the name of a Worker whose cluster, or whose bundle in it, has changed."""
        self._client, self._enqueue = client, enqueue
        self.clusters = RemoteClusters(clock, connect)
        kind_clusters = Informer(client, KIND_CLUSTERS, clock, fields=f"metadata.namespace={NAMESPACE}")
        kind_clusters.add_event_handler(lambda key, old, new: enqueue(key[2]))
        self.sources = [kind_clusters.run, self.clusters.run]

    async def resolve(self, worker: Object) -> tuple[RemoteCluster, str]:
        """Returns the cluster and its id. It answers, and is the same one as before. Raises BundleBlocked or
        Unreachable.
        """
        name = worker["metadata"]["name"]
        secret, key = (
            await self._kind_kubeconfig_secret(worker)
            if decide.needs_kind_cluster(worker)
            else await self._kubeconfig_secret(worker)
        )
        cluster = await self.clusters.get_or_connect(name, secret, key, partial(self._enqueue, name))
        return cluster, await self._verify_identity(worker, cluster)

    async def _kubeconfig_secret(self, worker: Object) -> tuple[Object, str]:
        """Returns the Secret with the kubeconfig, and its key."""
        namespace, name, key = decide.kubeconfig_secret(worker)
        try:
            return await self._client.get(SECRETS, name, namespace), key
        except NotFound:
            raise BundleBlocked(
                BundleCondition("False", "NoKubeconfig", f"Secret {namespace}/{name} not found")
            ) from None

    async def _kind_kubeconfig_secret(self, worker: Object) -> tuple[Object, str]:
        cluster = await self._get_kind_cluster(worker) or await self._create_kind_cluster(worker)
        if not decide.has_owner(cluster, worker):
            name = f"{NAMESPACE}/{cluster['metadata']['name']}"
            raise BundleBlocked(
                BundleCondition("False", "ClusterTaken", f"KINDCluster {name} is not owned by this Worker")
            )
        try:
            secret, key = await self._kubeconfig_secret(worker)
        except BundleBlocked:
            raise BundleBlocked(decide.cluster_not_ready(cluster)) from None
        if not decide.has_owner(secret, cluster):
            raise BundleBlocked(decide.cluster_not_ready(cluster))
        return secret, key

    async def _get_kind_cluster(self, worker: Object) -> Object | None:
        try:
            return await self._client.get(KIND_CLUSTERS, worker["metadata"]["name"], NAMESPACE)
        except NotFound:
            return None

    async def _create_kind_cluster(self, worker: Object) -> Object:
        if infrav1.is_deleting(worker):
            raise BundleBlocked(BundleCondition("False", "ClusterNotReady", "its KINDCluster no longer exists"))
        try:
            return await self._client.create(KIND_CLUSTERS, decide.kind_cluster(worker), NAMESPACE)
        except AlreadyExists:
            return await self._client.get(KIND_CLUSTERS, worker["metadata"]["name"], NAMESPACE)

    async def _verify_identity(self, worker: Object, cluster: RemoteCluster) -> str:
        try:
            kube_system = await cluster.get("Namespace", "kube-system")
        except (Unauthorized, Forbidden) as error:
            raise BundleBlocked(
                BundleCondition("False", "AccessRefused", f"the cluster rejects the kubeconfig: {error}")
            ) from None
        except StatusError as error:
            raise Unreachable(f"the cluster responded with HTTP status {error.status_code}") from None
        cluster_id = str(kube_system["metadata"]["uid"]) if kube_system is not None else ""
        expected_id = decide.bundle_of(worker).get("cluster") or cluster_id
        # A lost kind cluster is created again by its provider and then has another id.
        if expected_id != cluster_id and not decide.needs_kind_cluster(worker):
            message = "the kubeconfig points to another cluster than the one with the bundle"
            raise BundleBlocked(
                BundleCondition("False", "AnotherCluster", f"{message}: restore it, or delete the Worker first")
            )
        return cluster_id

    async def delete_kind_cluster(self, worker: Object) -> str:
        """Deletes the KINDCluster that was created for the Worker. Returns what is left of it; empty if nothing is, or
        none was created.
        """
        cluster = await self._get_kind_cluster(worker) if decide.needs_kind_cluster(worker) else None
        if cluster is None or not decide.has_owner(cluster, worker):
            return ""
        metadata = cluster["metadata"]
        if not infrav1.is_deleting(cluster):
            await self._client.delete(KIND_CLUSTERS, metadata["name"], NAMESPACE, uid=metadata["uid"])
        return f"KINDCluster {NAMESPACE}/{metadata['name']}"
