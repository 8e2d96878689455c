"""The Cluster API objects of a ManagedCluster at its worker. Pure.

A Cluster on a KINDCluster, or on an EmbeddedCluster. The latter has a MachineDeployment for each pool with a fixed
number of nodes, and one per machine size for the provisioner to buy from, all with their machine templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from shoal.fleet.worker.hosting.upgrade import TargetVersions
from shoal.fleet.worker.kind.objects import choose_image, kind_cluster_object
from shoal.kinds.clusterapi import kindcluster, machine_sizes
from shoal.kinds.fleet import infrav1, kindhosting, nodepools
from shoal.kinds.fleet.endpoint import endpoint_from_annotation, endpoint_object
from shoal.kinds.fleet.keys import keys_object, requested_keys
from shoal.kinds.fleet.nodepools import ClusterNodePool

Object = dict[str, Any]
DesiredObject = tuple[str, Object]
"""Plural and object."""

CAPI_GROUP = "cluster.x-k8s.io"
CAPI_API_VERSION = f"{CAPI_GROUP}/v1beta2"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
APPLIED_ANNOTATION = "shoal.dev/announced"
"""Annotation of a MachineDeployment: the annotations that were written here, as JSON."""


def cluster_object(copy: Object) -> Object:
    metadata = _metadata(copy, copy["metadata"]["name"])
    metadata["ownerReferences"] = [_owner_reference(copy, infrav1.API_VERSION, infrav1.MANAGED_CLUSTER)]
    reference = _infrastructure_ref("EmbeddedCluster", copy["metadata"]["name"])
    if kindhosting.is_kind(copy):
        reference = {**reference, "apiGroup": kindcluster.GROUP, "kind": kindcluster.KIND}
    return {
        "apiVersion": CAPI_API_VERSION,
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {"infrastructureRef": reference},
    }


def kind_objects(
    copy: Object, owner: Object, existing: Object | None, images: Mapping[str, str]
) -> list[DesiredObject]:
    """Returns the KINDCluster, which belongs to the Cluster. None if the worker has no image for its version."""
    obj = kind_cluster_object(copy, choose_image(copy, existing, images))
    return [] if obj is None else [("kindclusters", _with_owner(copy, owner, obj))]


def member_objects(copy: Object, owner: Object, versions: TargetVersions) -> list[DesiredObject]:
    """Returns the objects that belong to the Cluster, once it exists."""
    name = copy["metadata"]["name"]
    objects: list[DesiredObject] = [
        ("embeddedclusters", _with_owner(copy, owner, _embedded_cluster(copy, versions.control_plane)))
    ]
    for pool in nodepools.all_pools(infrav1.spec_of(copy)):
        objects += [
            ("embeddedmachinetemplates", _with_owner(copy, owner, _machine_template(name, pool))),
            ("machinedeployments", _with_owner(copy, owner, _machine_deployment(name, pool, versions.nodes))),
        ]
    return objects


def is_pool_object(obj: Object) -> bool:
    """True if it was created here for a pool; people may have their own MachineDeployments for a Cluster."""
    return nodepools.NODE_POOL_LABEL in (obj["metadata"].get("labels") or {})


def template_name(name: str, pool: ClusterNodePool) -> str:
    """Machine templates are immutable: a pool whose machines change gets another template."""
    if not pool.is_named:
        return f"{name}-{pool.name}"
    digest = hashlib.sha256(orjson.dumps(pool.machine_spec, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    return f"{name}-{pool.name}-{digest}"


def _embedded_cluster(copy: Object, version: str) -> Object:
    spec: Object = {"version": version} if version else {}
    endpoint = endpoint_from_annotation(copy)
    if endpoint is not None:
        spec["endpoint"] = endpoint_object(endpoint)
    if "keys" in infrav1.spec_of(copy):
        spec["keys"] = keys_object(requested_keys(copy))
    spec |= {field: value for field in ("limits", "provisioner") if (value := infrav1.spec_of(copy).get(field))}
    metadata = {"name": copy["metadata"]["name"]}
    return {"apiVersion": infrav1.API_VERSION, "kind": "EmbeddedCluster", "metadata": metadata, "spec": spec}


def _machine_template(name: str, pool: ClusterNodePool) -> Object:
    return {
        "apiVersion": infrav1.API_VERSION,
        "kind": "EmbeddedMachineTemplate",
        "metadata": {"name": template_name(name, pool), "labels": {nodepools.NODE_POOL_LABEL: pool.name}},
        "spec": {"template": {"spec": pool.machine_spec}},
    }


def _machine_deployment(name: str, pool: ClusterNodePool, version: str) -> Object:
    deployment_name = f"{name}-{pool.name}"
    labels = {infrav1.CLUSTER_NAME: name, DEPLOYMENT_NAME: deployment_name}
    machine: Object = {
        "clusterName": name,
        # Simulated machines have no bootstrap data; Cluster API needs an explicit empty Secret name.
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": _infrastructure_ref("EmbeddedMachineTemplate", template_name(name, pool)),
    }
    if version:
        machine["version"] = version
    return {
        "apiVersion": CAPI_API_VERSION,
        "kind": "MachineDeployment",
        "metadata": {
            "name": deployment_name,
            "labels": {
                nodepools.NODE_POOL_LABEL: pool.name,
                **({machine_sizes.KARPENTER_MEMBER_LABEL: ""} if pool.is_provisioned else {}),
            },
            "annotations": with_applied_annotation(pool.capacity_annotations),
        },
        "spec": {
            "clusterName": name,
            "replicas": pool.nodes,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    }


def with_applied_annotation(annotations: dict[str, str]) -> dict[str, str]:
    """Adds an annotation with the written annotations, by which changes of others are recognised later."""
    return {**annotations, APPLIED_ANNOTATION: orjson.dumps(annotations, option=orjson.OPT_SORT_KEYS).decode()}


def _with_owner(copy: Object, owner: Object, obj: Object) -> Object:
    obj_metadata = obj["metadata"]
    metadata = _metadata(copy, obj_metadata["name"])
    metadata["labels"] |= obj_metadata.get("labels") or {}
    if obj_metadata.get("annotations"):
        metadata["annotations"] = obj_metadata["annotations"]
    metadata["ownerReferences"] = [_owner_reference(owner, CAPI_API_VERSION, "Cluster")]
    return {**obj, "metadata": metadata}


def _metadata(copy: Object, name: str) -> Object:
    labels = {infrav1.CLUSTER_NAME: copy["metadata"]["name"]}
    return {"name": name, "namespace": copy["metadata"]["namespace"], "labels": labels}


def _owner_reference(obj: Object, api_version: str, kind: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _infrastructure_ref(kind: str, name: str) -> Object:
    return {"apiGroup": infrav1.GROUP, "kind": kind, "name": name}
