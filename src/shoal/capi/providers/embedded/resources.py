"""The informers of the embedded provider: its kinds in the management cluster, and the objects it creates in the
hosting server.

Both may be the same server. Nodes and credentials of hosted clusters are watched through the wildcard cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.capi.resources import SECRETS, Name, Resources
from shoal.capi.views import Told, View
from shoal.client.reflector import key_of
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds import capi, embedded, logicalcluster

Object = dict[str, Any]

EMBEDDED_CLUSTERS = Kind(embedded.GROUP, embedded.VERSION, "embeddedclusters")
EMBEDDED_MACHINES = Kind(embedded.GROUP, embedded.VERSION, "embeddedmachines")
EMBEDDED_TEMPLATES = Kind(embedded.GROUP, embedded.VERSION, "embeddedmachinetemplates")
LOGICAL_CLUSTERS = Kind(logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False)
NODES = Kind("", "v1", "nodes", namespaced=False)


class EmbeddedResources:
    def __init__(self, core: Resources, host: Client, clock: Clock) -> None:
        """`host` is a client at the root of the hosting server."""
        self.core, self.host = core, host
        everywhere = host.at("*")
        self.logical_clusters = View(host, LOGICAL_CLUSTERS, clock, quiet=core.quiet)
        self.nodes = View(
            everywhere, NODES, clock, labels=f"{embedded.SIMULATED}=true", indexes={"provider": _provider}
        )
        self.credentials = View(everywhere, SECRETS, clock, fields=f"metadata.name={embedded.ADMIN_TOKEN}")
        core.views += [self.logical_clusters, self.nodes, self.credentials]
        self.clusters = core.provide(EMBEDDED_CLUSTERS, embedded.CLUSTER, reached=self._is_served)
        self.machines = core.provide(EMBEDDED_MACHINES, embedded.MACHINE, nodes=HostedNodes(self), cluster=_labelled)
        self.templates = core.provide(EMBEDDED_TEMPLATES, embedded.MACHINE_TEMPLATE)

    def _is_served(self, cluster: Object) -> bool:
        """No network lies in between: a logical cluster that exists responds."""
        metadata = cluster["metadata"]
        found = self.logical_clusters.get("", self.hosted(metadata["namespace"], metadata["name"]))
        return found is not None and not capi.is_deleting(found)

    def hosted(self, namespace: str, cluster: str) -> str:
        """The logical cluster of a Cluster whose infrastructureRef is an EmbeddedCluster, else ""."""
        found = self.core.clusters.get(namespace, cluster)
        reference = ((found or {}).get("spec") or {}).get("infrastructureRef") or {}
        if (reference.get("apiGroup"), reference.get("kind")) != (embedded.GROUP, embedded.CLUSTER):
            return ""
        return embedded.hosted_name(namespace, reference["name"])


class HostedNodes:
    """Finds Nodes by provider id, only in the hosted cluster of the Machine."""

    def __init__(self, resources: EmbeddedResources) -> None:
        self._resources = resources

    def of(self, machine: Object) -> Object | None:
        provider_id = (machine.get("spec") or {}).get("providerID")
        if not provider_id:
            return None
        hosted = self._resources.hosted(machine["metadata"]["namespace"], capi.cluster_name(machine))
        return next(iter(self._resources.nodes.by("provider", (hosted, provider_id))), None) if hosted else None

    def listen(self, told: Told) -> None:
        self._resources.nodes.listen(told)

    async def patch(self, node: Object, patch: Object) -> Object:
        return await self._resources.nodes.patch(node, patch)

    def client(self, machine: Object) -> Client | None:
        hosted = self._resources.hosted(machine["metadata"]["namespace"], capi.cluster_name(machine))
        return self._resources.host.at(hosted) if hosted else None


def _labelled(obj: Object) -> Iterable[Name]:
    return [(obj["metadata"]["namespace"], capi.labels_of(obj).get(capi.CLUSTER_NAME, ""))]


def _provider(obj: Object) -> Iterable[tuple[str, str]]:
    return [(key_of(obj)[0], str((obj.get("spec") or {}).get("providerID", "")))]
