"""The Cluster API objects of a ManagedCluster at its worker. Pure.

A Cluster on an EmbeddedCluster; a MachineDeployment for each pool with a fixed number of nodes, and one per machine
size for the provisioner to buy from, all with their machine templates.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from shoal.fleet.worker.hosting.upgrade import Versions
from shoal.kinds import fleet, nodepools, sizes
from shoal.kinds.nodepools import Pool

Object = dict[str, Any]
Wanted = tuple[str, Object]
"""Plural and object."""

CORE = "cluster.x-k8s.io"
CORE_VERSION = f"{CORE}/v1beta2"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
ANNOUNCED = "shoal.dev/announced"
"""Annotation of a MachineDeployment: the annotations that were written here, as JSON."""


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


def members(copy: Object, owner: Object, versions: Versions) -> list[Wanted]:
    """Returns the objects that belong to the Cluster, once it exists."""
    name = copy["metadata"]["name"]
    found: list[Wanted] = [("embeddedclusters", _owned(copy, owner, _embedded_cluster(name, versions.control_plane)))]
    for pool in nodepools.all_of(fleet.spec_of(copy)):
        found += [
            ("embeddedmachinetemplates", _owned(copy, owner, _template(name, pool))),
            ("machinedeployments", _owned(copy, owner, _deployment(name, pool, versions.nodes))),
        ]
    return found


def is_of_pool(obj: Object) -> bool:
    """True if it was created here for a pool; people may have their own MachineDeployments for a Cluster."""
    return nodepools.LABEL in (obj["metadata"].get("labels") or {})


def template_name(name: str, pool: Pool) -> str:
    """Machine templates are immutable: a pool whose machines change gets another template."""
    if not pool.named:
        return f"{name}-{pool.name}"
    digest = hashlib.sha256(orjson.dumps(pool.machine, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    return f"{name}-{pool.name}-{digest}"


def _embedded_cluster(name: str, version: str) -> Object:
    spec = {"version": version} if version else {}
    return {"apiVersion": fleet.API_VERSION, "kind": "EmbeddedCluster", "metadata": {"name": name}, "spec": spec}


def _template(name: str, pool: Pool) -> Object:
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": "EmbeddedMachineTemplate",
        "metadata": {"name": template_name(name, pool), "labels": {nodepools.LABEL: pool.name}},
        "spec": {"template": {"spec": pool.machine}},
    }


def _deployment(name: str, pool: Pool, version: str) -> Object:
    own = f"{name}-{pool.name}"
    labels = {fleet.CLUSTER_NAME: name, DEPLOYMENT_NAME: own}
    machine: Object = {
        "clusterName": name,
        # Simulated machines have no bootstrap data; Cluster API needs an explicit empty Secret name.
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": _reference("EmbeddedMachineTemplate", template_name(name, pool)),
    }
    if version:
        machine["version"] = version
    return {
        "apiVersion": CORE_VERSION,
        "kind": "MachineDeployment",
        "metadata": {
            "name": own,
            "labels": {nodepools.LABEL: pool.name, **({sizes.MEMBER: ""} if pool.bought else {})},
            "annotations": announced(pool.announcement),
        },
        "spec": {
            "clusterName": name,
            "replicas": pool.nodes,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    }


def announced(annotations: dict[str, str]) -> dict[str, str]:
    """Adds an annotation with the written annotations, by which changes of others are recognised later."""
    return {**annotations, ANNOUNCED: orjson.dumps(annotations, option=orjson.OPT_SORT_KEYS).decode()}


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
