"""The kind provider (infrastructure.cluster-k8s.io): names, node images, and the kind config of a KINDCluster. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from shoal.kinds.clusterapi.kind_config_validation import config_error

Object = dict[str, Any]

GROUP = "infrastructure.cluster-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND, PLURAL = "KINDCluster", "kindclusters"

FINALIZER = f"{PLURAL}.{GROUP}/cluster-finalizer"
ADOPT_ANNOTATION = f"{GROUP}/adopt"
"""Annotation: `true` adopts an existing kind cluster of that name that Shoal did not create."""
OWNER_UID_LABEL = f"{GROUP}/kindcluster-uid"
"""Label of the Secrets of a KINDCluster."""
OWNER_NODE_LABEL = "shoal.dev/kindcluster-uid"
"""Label of the Nodes of a kind cluster: the uid of the KINDCluster it was created for."""
KUBECONFIG_KEY = "config"

CONFIG_API_VERSION = "kind.x-k8s.io/v1alpha4"
CONTROL_PLANE = "control-plane"
NODE_FIELDS = ("role", "image", "labels", "extraMounts", "extraPortMappings", "kubeadmConfigPatches")

NODE_IMAGE_TAGS = {
    "1.14": "v1.14.10",
    "1.15": "v1.15.12",
    "1.16": "v1.16.15",
    "1.17": "v1.17.17",
    "1.18": "v1.18.19",
    "1.19": "v1.19.11",
    "1.20": "v1.20.7",
    "1.21": "v1.21.1",
    "1.22": "v1.22.0",
    "1.23": "v1.23.17",
    "1.24": "v1.24.15",
    "1.25": "v1.25.16",
    "1.26": "v1.26.15",
    "1.27": "v1.27.16",
    "1.28": "v1.28.15",
    "1.29": "v1.29.14",
    "1.30": "v1.30.13",
    "1.31": "v1.31.14",
    "1.32": "v1.32.11",
    "1.33": "v1.33.7",
    "1.34": "v1.34.11",
    "1.35": "v1.35.8",
    "1.36": "v1.36.4",
    "1.37": "v1.37.0",
}
"""Tags of kindest/node. Up to 1.22 the provider's original ones, then kind's last release of each minor."""
DEFAULT_VERSION = "1.21"


def config_secret_name(cluster_name: str) -> str:
    return f"{cluster_name}-config"


def kind_cluster_name(obj: Mapping[str, Any]) -> str:
    """Returns the name of the desired kind cluster."""
    return str(obj["spec"]["clusterName"])


def kubernetes_version(obj: Mapping[str, Any]) -> str:
    return str(obj["spec"].get("kubernetesVersion") or DEFAULT_VERSION)


def node_image(obj: Mapping[str, Any]) -> str:
    """Returns the image of nodes that name none."""
    return str(obj["spec"].get("image") or f"kindest/node:{NODE_IMAGE_TAGS[kubernetes_version(obj)]}")


def has_replace_policy(obj: Mapping[str, Any]) -> bool:
    return bool(obj["spec"].get("replacePolicy") == "Replace")


def images_of(obj: Mapping[str, Any]) -> list[str]:
    """Returns the images to be loaded into the nodes."""
    return list(dict.fromkeys(obj["spec"].get("images") or ()))


def immutable_fields(obj: Mapping[str, Any]) -> Object:
    """Returns the desired fields that cannot change in an existing cluster. Values derived by Shoal are not included,
    so a newer Shoal sees clusters of an older one as unchanged.
    """
    spec = obj["spec"]
    fields = {field: spec[field] for field in ("nodes", "networking", "config") if spec.get(field)}
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
    result = {
        "name": kind_cluster_name(obj),
        "kubernetesVersion": kubernetes_version(obj),
        "digest": digest,
        "nodes": _node_summary(spec),
    }
    return {**result, "nodeImage": spec["image"]} if spec.get("image") else result


def drift_message(obj: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    """Returns how the spec differs from the fields recorded at creation; empty: it does not."""
    desired = immutable_fields(obj)
    differences = [
        f"{field} is {desired.get(key, 'not set')!r}, the cluster was created with {recorded.get(key, 'none')!r}"
        for key, field in (("name", "clusterName"), ("kubernetesVersion", "kubernetesVersion"), ("nodeImage", "image"))
        if desired.get(key) != recorded.get(key)
    ]
    if desired["digest"] != recorded.get("digest"):
        if desired["nodes"] and desired["nodes"] != recorded.get("nodes", desired["nodes"]):
            differences.append(f"nodes are {desired['nodes']}, the cluster was created with {recorded['nodes']}")
        else:
            differences.append("nodes, networking or config differ from those the cluster was created with")
    return "; ".join(differences)


def spec_error(obj: Mapping[str, Any]) -> str:
    """Returns why no kind config can be built from the spec; empty: one can."""
    spec = obj["spec"]
    config = spec.get("config") or {}
    for field in ("nodes", "networking"):
        if spec.get(field) and config.get(field):
            return f"spec.{field} and spec.config.{field} are both set: set only one of them"
    if config.get("name", kind_cluster_name(obj)) != kind_cluster_name(obj):
        return (
            f"spec.config.name is {config['name']!r} and spec.clusterName "
            f"{kind_cluster_name(obj)!r}: leave out spec.config.name"
        )
    if config.get("kind", "Cluster") != "Cluster" or config.get("apiVersion", CONFIG_API_VERSION) != CONFIG_API_VERSION:
        return f"spec.config has to be a Cluster of {CONFIG_API_VERSION}"
    nodes = config.get("nodes") or []
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        return "spec.config.nodes has to be a list of objects"
    if (nodes or spec.get("nodes")) and not any(node["role"] == CONTROL_PLANE for node in _nodes(spec)):
        return f"no node has the role {CONTROL_PLANE}"
    return config_error(spec)


def kind_config(obj: Mapping[str, Any]) -> Object:
    """Returns the kind config as JSON: every node has its image and the owner label."""
    spec, image = obj["spec"], node_image(obj)
    owner_label = {OWNER_NODE_LABEL: str(obj["metadata"]["uid"])}
    nodes = [
        {"image": image, **node, "labels": {**(node.get("labels") or {}), **owner_label}}
        for node in _nodes(spec) or [{"role": CONTROL_PLANE}]
    ]
    config = {
        **(spec.get("config") or {}),
        "apiVersion": CONFIG_API_VERSION,
        "kind": "Cluster",
        "name": kind_cluster_name(obj),
        "nodes": nodes,
    }
    return {**config, "networking": spec["networking"]} if spec.get("networking") else config


def node_roles(spec: Mapping[str, Any]) -> Counter[str]:
    """Returns the number of nodes by role; none if spec.config is invalid."""
    nodes = (spec.get("config") or {}).get("nodes") or []
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        return Counter()
    return Counter(str(node["role"]) for node in _nodes(spec) or [{"role": CONTROL_PLANE}])


def _node_summary(spec: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {role}" for role, count in sorted(node_roles(spec).items()))


def _nodes(spec: Mapping[str, Any]) -> list[Object]:
    config_nodes = (spec.get("config") or {}).get("nodes")
    if config_nodes:
        return [{"role": CONTROL_PLANE, **node} for node in config_nodes]
    return [
        {field: node[field] for field in NODE_FIELDS if field in node}
        for node in spec.get("nodes") or ()
        for _ in range(int(node.get("count", 1)))
    ]
