"""Resolves the cluster of a Worker: the one that its kubeconfig names, or a KINDCluster that is created for it.

The kind provider is only reached through the API.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shoal.client.reflector import Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.bundle import decide
from shoal.fleet.bundle.decide import Said
from shoal.fleet.bundle.objects import NAMESPACE
from shoal.fleet.bundle.site import Connect, Refused, Site, Sites
from shoal.fleet.resources import SECRETS
from shoal.kinds import fleet, kindcluster
from shoal.objects.errors import AlreadyExists, Forbidden, NotFound, StatusError, Unauthorized

Object = dict[str, Any]

KIND_CLUSTERS = Kind(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)


class Clusters:
    def __init__(self, client: Client, clock: Clock, connect: Connect, look: Callable[[str], None]) -> None:
        """`enqueue` is called with the name of a Worker whose cluster, or whose bundle in it, has changed."""
        self._client, self._look = client, look
        self.sites = Sites(clock, connect)
        self._view = Reflector(
            client, KIND_CLUSTERS, clock, lambda key, _: look(key[2]), fields=f"metadata.namespace={NAMESPACE}"
        )
        self.sources = [self._view.run, self.sites.run]

    async def reach(self, worker: Object) -> tuple[Site, str]:
        """Returns the cluster and its id. It answers, and is the same one as before. Raises BundleBlocked or
        Unreachable.
        """
        name = worker["metadata"]["name"]
        secret, key = await self._made(worker) if decide.makes_cluster(worker) else await self._named(worker)
        site = await self.sites.at(name, secret, key, partial(self._look, name))
        return site, await self._identify(worker, site)

    async def _named(self, worker: Object) -> tuple[Object, str]:
        """Returns the Secret with the kubeconfig, and its key."""
        namespace, name, key = decide.kubeconfig_secret(worker)
        try:
            return await self._client.get(SECRETS, name, namespace), key
        except NotFound:
            raise Refused(Said("False", "NoKubeconfig", f"Secret {namespace}/{name} is not there")) from None

    async def _made(self, worker: Object) -> tuple[Object, str]:
        cluster = await self._get(worker) or await self._make(worker)
        if not decide.has_owner(cluster, worker):
            name = f"{NAMESPACE}/{cluster['metadata']['name']}"
            raise Refused(Said("False", "ClusterTaken", f"KINDCluster {name} is somebody else's"))
        try:
            secret, key = await self._named(worker)
        except Refused:
            raise Refused(decide.cluster_said(cluster)) from None
        if not decide.has_owner(secret, cluster):
            raise Refused(decide.cluster_said(cluster))
        return secret, key

    async def _get(self, worker: Object) -> Object | None:
        try:
            return await self._client.get(KIND_CLUSTERS, worker["metadata"]["name"], NAMESPACE)
        except NotFound:
            return None

    async def _make(self, worker: Object) -> Object:
        if fleet.is_deleting(worker):
            raise Refused(Said("False", "ClusterNotReady", "it has no KINDCluster any more"))
        try:
            return await self._client.create(KIND_CLUSTERS, decide.kind_cluster(worker), NAMESPACE)
        except AlreadyExists:
            return await self._client.get(KIND_CLUSTERS, worker["metadata"]["name"], NAMESPACE)

    async def _identify(self, worker: Object, site: Site) -> str:
        try:
            system = await site.get("Namespace", "kube-system")
        except (Unauthorized, Forbidden) as error:
            raise Refused(Said("False", "AccessRefused", f"its cluster refuses the kubeconfig: {error}")) from None
        except StatusError as error:
            raise Unreachable(f"its cluster answers {error.status_code}") from None
        id_ = str(system["metadata"]["uid"]) if system is not None else ""
        before = decide.bundle_of(worker).get("cluster") or id_
        # A lost kind cluster is created again by its provider and then has another id.
        if before != id_ and not decide.makes_cluster(worker):
            message = "its kubeconfig leads to another cluster than the one that has its bundle"
            raise Refused(Said("False", "AnotherCluster", f"{message}: set it back, or delete the Worker first"))
        return id_

    async def remove(self, worker: Object) -> str:
        """Deletes the KINDCluster that was created for the Worker. Returns what is left of it; empty if nothing is, or
        none was created.
        """
        cluster = await self._get(worker) if decide.makes_cluster(worker) else None
        if cluster is None or not decide.has_owner(cluster, worker):
            return ""
        metadata = cluster["metadata"]
        if not fleet.is_deleting(cluster):
            await self._client.delete(KIND_CLUSTERS, metadata["name"], NAMESPACE, uid=metadata["uid"])
        return f"KINDCluster {NAMESPACE}/{metadata['name']}"
