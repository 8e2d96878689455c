"""What the loops look at: every kind of Cluster API and of its providers, once, with the indexes the loops ask by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from shoal.capi.views import View
from shoal.client.reflector import key_of
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds import capi, embedded, logicalcluster

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

CLUSTERS = Kind(capi.GROUP, capi.VERSION, "clusters")
MACHINES = Kind(capi.GROUP, capi.VERSION, "machines")
MACHINE_SETS = Kind(capi.GROUP, capi.VERSION, "machinesets")
MACHINE_DEPLOYMENTS = Kind(capi.GROUP, capi.VERSION, "machinedeployments")
EMBEDDED_CLUSTERS = Kind(embedded.GROUP, embedded.VERSION, "embeddedclusters")
EMBEDDED_MACHINES = Kind(embedded.GROUP, embedded.VERSION, "embeddedmachines")
EMBEDDED_TEMPLATES = Kind(embedded.GROUP, embedded.VERSION, "embeddedmachinetemplates")
LOGICAL_CLUSTERS = Kind(logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False)
NODES = Kind("", "v1", "nodes", namespaced=False)
SECRETS = Kind("", "v1", "secrets")


class Resources:
    """`client` is at the root; the Nodes and credentials of hosted clusters are seen through the wildcard."""

    def __init__(self, client: Client, clock: Clock) -> None:
        of_cluster = {"cluster": _cluster}
        owned = {**of_cluster, "owner": _controller}
        everywhere = client.at("*")
        self.clusters = View(client, CLUSTERS, clock, indexes={"reference": _references})
        self.deployments = View(client, MACHINE_DEPLOYMENTS, clock, indexes=of_cluster)
        self.sets = View(client, MACHINE_SETS, clock, indexes={**owned, "template": _template})
        self.machines = View(client, MACHINES, clock, indexes={**owned, "reference": _references})
        self.embedded_clusters = View(client, EMBEDDED_CLUSTERS, clock)
        self.embedded_machines = View(client, EMBEDDED_MACHINES, clock, indexes={"cluster": _labelled})
        self.embedded_templates = View(client, EMBEDDED_TEMPLATES, clock)
        self.logical_clusters = View(client, LOGICAL_CLUSTERS, clock)
        self.kubeconfigs = View(client, SECRETS, clock, fields=f"type={capi.KUBECONFIG_TYPE}")
        self.nodes = View(
            everywhere, NODES, clock, labels=f"{embedded.SIMULATED}=true", indexes={"provider": _provider}
        )
        self.credentials = View(everywhere, SECRETS, clock, fields=f"metadata.name={embedded.ADMIN_TOKEN}")
        self._by_kind = {
            (capi.GROUP, capi.MACHINE_DEPLOYMENT): self.deployments,
            (capi.GROUP, capi.MACHINE_SET): self.sets,
            (capi.GROUP, capi.MACHINE): self.machines,
            (embedded.GROUP, embedded.CLUSTER): self.embedded_clusters,
            (embedded.GROUP, embedded.MACHINE): self.embedded_machines,
            (embedded.GROUP, embedded.MACHINE_TEMPLATE): self.embedded_templates,
        }
        self._complete = False

    @property
    def views(self) -> list[View]:
        return [found for found in vars(self).values() if isinstance(found, View)]

    async def listed(self) -> None:
        """Waits until nothing that exists can be taken for missing."""
        if not self._complete:
            await asyncio.gather(*(view.listed() for view in self.views))
            self._complete = True

    def of(self, obj: Object) -> View:
        """The view an object of a referring kind is from."""
        return self._by_kind[_group(obj["apiVersion"]), obj["kind"]]

    def referring(self, reference: Object) -> View | None:
        """Where a reference points to; None: to a kind nobody here provides."""
        return self._by_kind.get((str(reference.get("apiGroup")), str(reference.get("kind"))))

    def referenced(self, namespace: str, reference: Object | None) -> Object | None:
        view = self.referring(reference) if reference is not None else None
        return view.get(namespace, str((reference or {}).get("name"))) if view is not None else None

    def node_of(self, machine: Object) -> Object | None:
        """By provider id, in the hosted cluster of the Machine and in no other."""
        provider_id = (machine.get("spec") or {}).get("providerID")
        if not provider_id:
            return None
        hosted = self.hosted(machine["metadata"]["namespace"], capi.cluster_name(machine))
        return next(iter(self.nodes.by("provider", (hosted, provider_id))), None) if hosted else None

    def hosted(self, namespace: str, cluster: str) -> str:
        """The logical cluster of a Cluster, once it names an EmbeddedCluster."""
        found = self.clusters.get(namespace, cluster)
        reference = ((found or {}).get("spec") or {}).get("infrastructureRef") or {}
        if (reference.get("apiGroup"), reference.get("kind")) != (embedded.GROUP, embedded.CLUSTER):
            return ""
        return embedded.hosted_name(namespace, reference["name"])


class Changes:
    """Tells the changes of an object that matter to others from those that do not."""

    def __init__(self, what: Callable[[Object], Hashable]) -> None:
        self._what = what
        self._last: dict[Name, Hashable] = {}

    def matter(self, obj: Object) -> bool:
        name, now = name_of(obj), self._what(obj)
        if self._last.get(name) == now:
            return False
        self._last[name] = now
        return True


def standing(cluster: Object) -> Hashable:
    """What Machines and what stands above them need to know of their Cluster."""
    return (
        cluster["metadata"]["uid"],
        capi.is_deleting(cluster),
        capi.is_paused(cluster, cluster),
        capi.initialization(cluster, "infrastructureProvisioned"),
    )


def name_of(obj: Object) -> Name:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _cluster(obj: Object) -> Iterable[Name]:
    return [(obj["metadata"]["namespace"], capi.cluster_name(obj))]


def _labelled(obj: Object) -> Iterable[Name]:
    return [(obj["metadata"]["namespace"], capi.labels_of(obj).get(capi.CLUSTER_NAME, ""))]


def _controller(obj: Object) -> Iterable[str]:
    return [capi.controller_uid(obj)]


def _references(obj: Object) -> Iterable[tuple[str, str, str]]:
    spec = obj.get("spec") or {}
    found = [spec[field] for field in ("infrastructureRef", "controlPlaneRef") if spec.get(field)]
    return {(str(each["kind"]), obj["metadata"]["namespace"], str(each["name"])) for each in found}


def _template(obj: Object) -> Iterable[Name]:
    reference = obj["spec"]["template"]["spec"]["infrastructureRef"]
    return [(obj["metadata"]["namespace"], reference["name"])]


def _provider(obj: Object) -> Iterable[tuple[str, str]]:
    return [(key_of(obj)[0], str((obj.get("spec") or {}).get("providerID", "")))]
