"""The Cluster API objects a ManagedCluster becomes at its worker. Pure.

A Cluster on an EmbeddedCluster; a MachineDeployment for the nodes asked for by number, and one of each size for the
provisioner to buy from, all with the templates of their machines.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds import fleet, sizes

Object = dict[str, Any]
Wanted = tuple[str, Object]
"""Plural and object."""

CORE = "cluster.x-k8s.io"
CORE_VERSION = f"{CORE}/v1beta2"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"


def cluster(copy: Object) -> Object:
    metadata = _metadata(copy, copy["metadata"]["name"])
    metadata["ownerReferences"] = [_owner(copy, fleet.API_VERSION, fleet.MANAGED_CLUSTER)]
    reference = _reference("EmbeddedCluster", copy["metadata"]["name"])
    return {
        "apiVersion": CORE_VERSION,
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {"infrastructureRef": reference},
    }


def members(copy: Object, owner: Object) -> list[Wanted]:
    """What belongs to the Cluster, once that is there."""
    name, spec = copy["metadata"]["name"], fleet.spec_of(copy)
    version = spec.get("version") or ""
    found: list[Wanted] = [("embeddedclusters", _owned(copy, owner, _embedded_cluster(name, version)))]
    for size in (sizes.DEFAULT, *sizes.BOUGHT):
        bought = size is not sizes.DEFAULT
        replicas = 0 if bought else int(spec.get("nodes") or 0)
        pool = f"{name}-{size.name}"
        found += [
            ("embeddedmachinetemplates", _owned(copy, owner, _template(pool, size, bought))),
            ("machinedeployments", _owned(copy, owner, _deployment(name, pool, size, bought, replicas, version))),
        ]
    return found


def names(name: str) -> list[tuple[str, str]]:
    """Plural and name of everything above, the Cluster last."""
    pools = [f"{name}-{size.name}" for size in (sizes.DEFAULT, *sizes.BOUGHT)]
    found = [(plural, pool) for pool in pools for plural in ("machinedeployments", "embeddedmachinetemplates")]
    return [*found, ("embeddedclusters", name), ("clusters", name)]


def _embedded_cluster(name: str, version: str) -> Object:
    spec = {"version": version} if version else {}
    return {"apiVersion": fleet.API_VERSION, "kind": "EmbeddedCluster", "metadata": {"name": name}, "spec": spec}


def _template(pool: str, size: sizes.Size, bought: bool) -> Object:
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": "EmbeddedMachineTemplate",
        "metadata": {"name": pool},
        "spec": {"template": {"spec": sizes.machine_spec(size, bought=bought)}},
    }


def _deployment(name: str, pool: str, size: sizes.Size, bought: bool, replicas: int, version: str) -> Object:
    labels = {fleet.CLUSTER_NAME: name, DEPLOYMENT_NAME: pool}
    machine: Object = {
        "clusterName": name,
        # Simulated machines have nothing to boot from; Cluster API wants to hear that there is no Secret for it.
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": _reference("EmbeddedMachineTemplate", pool),
    }
    if version:
        machine["version"] = version
    return {
        "apiVersion": CORE_VERSION,
        "kind": "MachineDeployment",
        "metadata": {
            "name": pool,
            "labels": {sizes.MEMBER: ""} if bought else {},
            "annotations": sizes.announcement(size),
        },
        "spec": {
            "clusterName": name,
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    }


def _owned(copy: Object, owner: Object, obj: Object) -> Object:
    given = obj["metadata"]
    metadata = _metadata(copy, given["name"])
    metadata["labels"] |= given.get("labels") or {}
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    metadata["ownerReferences"] = [_owner(owner, CORE_VERSION, "Cluster")]
    return {**obj, "metadata": metadata}


def _metadata(copy: Object, name: str) -> Object:
    labels = {fleet.CLUSTER_NAME: copy["metadata"]["name"]}
    return {"name": name, "namespace": copy["metadata"]["namespace"], "labels": labels}


def _owner(obj: Object, api_version: str, kind: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _reference(kind: str, name: str) -> Object:
    return {"apiGroup": fleet.GROUP, "kind": kind, "name": name}
