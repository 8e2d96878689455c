"""Cluster API (cluster.x-k8s.io/v1beta2): names, labels, strategies, and accessors over the wire dict. Pure.

Names and meanings are those of the v1beta2 contract; the CRDs are in `crds/root`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shoal.kinds.strategy import CUSTOM_STRATEGY, Strategy
from shoal.objects.errors import Cause, invalid_value

Object = dict[str, Any]

GROUP = "cluster.x-k8s.io"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"

CLUSTER, MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT = "Cluster", "Machine", "MachineSet", "MachineDeployment"
MACHINE_HEALTH_CHECK = "MachineHealthCheck"

CLUSTER_FINALIZER = "cluster.cluster.x-k8s.io"
MACHINE_FINALIZER = "machine.cluster.x-k8s.io"
MACHINE_SET_FINALIZER = "cluster.x-k8s.io/machineset"
MACHINE_DEPLOYMENT_FINALIZER = "cluster.x-k8s.io/machinedeployment"

CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
"""Label of every object that belongs to a Cluster. On Nodes it is an annotation."""
CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
SET_NAME = "cluster.x-k8s.io/set-name"
TEMPLATE_HASH = "machine-template-hash"
KARPENTER_MEMBER = "node.cluster.x-k8s.io/karpenter-member"

PAUSED = "cluster.x-k8s.io/paused"
DELETE_MACHINE = "cluster.x-k8s.io/delete-machine"
SKIP_REMEDIATION = "cluster.x-k8s.io/skip-remediation"
REMEDIATE_MACHINE = "cluster.x-k8s.io/remediate-machine"
EXCLUDE_NODE_DRAINING = "machine.cluster.x-k8s.io/exclude-node-draining"
EXCLUDE_VOLUME_DETACH = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
POD_DRAIN_LABEL = "cluster.x-k8s.io/drain"
"""Label of a Pod: `skip` leaves it on its Node, `wait-completed` waits until it completes."""
LABELS_FROM_SET = "shoal.dev/labels-from-machineset"
ANNOTATIONS_FROM_SET = "shoal.dev/annotations-from-machineset"
"""The keys a Machine got from the template of its MachineSet, so that they can be removed again."""
DISABLE_MACHINE_CREATE = "cluster.x-k8s.io/disable-machine-create"
CLONED_FROM_NAME = "cluster.x-k8s.io/cloned-from-name"
CLONED_FROM_GROUP_KIND = "cluster.x-k8s.io/cloned-from-groupkind"
REVISION = "machinedeployment.clusters.x-k8s.io/revision"
CURRENT_PRICE = "cluster.x-k8s.io/machine-current-price"
PRE_DRAIN_HOOK = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
PRE_TERMINATE_HOOK = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"

NODE_CLUSTER_NAMESPACE = "cluster.x-k8s.io/cluster-namespace"
NODE_MACHINE = "cluster.x-k8s.io/machine"
NODE_OWNER_KIND = "cluster.x-k8s.io/owner-kind"
NODE_OWNER_NAME = "cluster.x-k8s.io/owner-name"
LABELS_FROM_MACHINE = "cluster.x-k8s.io/labels-from-machine"
ANNOTATIONS_FROM_MACHINE = "cluster.x-k8s.io/annotations-from-machine"
TAINTS_FROM_MACHINE = "cluster.x-k8s.io/taints-from-machine"
INTERRUPTIBLE = "cluster.x-k8s.io/interruptible"
"""Label of a Node whose machine may be interrupted."""
OUTDATED_TAINT = {"key": "node.cluster.x-k8s.io/outdated-revision", "effect": "PreferNoSchedule"}
UNINITIALIZED_TAINT = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}

CONTRACT_LABEL = API_VERSION
"""Label of the CRD of a provider's kind: its versions that implement the contract, joined by `_`."""

KUBECONFIG_SECRET_TYPE = "cluster.x-k8s.io/secret"
KUBECONFIG_KEY = "value"

TEMPLATE_SUFFIX = "Template"
"""The suffix of a template's kind."""

_NODE_ANNOTATION_DOMAIN = "node.cluster.x-k8s.io"
_NODE_LABEL_DOMAINS = ("node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
_NODE_ROLE = "node-role.kubernetes.io"
_TOKEN_LINE = "    token: "


def validate_machine_pool(obj: Object, old: Object | None) -> list[Cause]:
    """Rejects every MachinePool. The kind is served so that tools that list it find none."""
    return [
        invalid_value("", obj["metadata"].get("name", ""), "MachinePools are not supported: use a MachineDeployment")
    ]


def kubeconfig_secret_name(cluster: str) -> str:
    return f"{cluster}-kubeconfig"


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def cluster_name(obj: Mapping[str, Any]) -> str:
    """Returns `spec.clusterName` of a Machine, MachineSet, MachineDeployment or MachineHealthCheck."""
    return str((obj.get("spec") or {}).get("clusterName", ""))


def is_paused(cluster: Mapping[str, Any] | None, obj: Mapping[str, Any]) -> bool:
    """Reports whether the Cluster's spec or the annotation on the object pauses reconciliation."""
    return PAUSED in annotations_of(obj) or bool(cluster is not None and (cluster.get("spec") or {}).get("paused"))


def initialization_flag(obj: Mapping[str, Any] | None, field: str) -> bool:
    """Returns a boolean field of `status.initialization`."""
    return bool((((obj or {}).get("status") or {}).get("initialization") or {}).get(field))


def owner_reference(owner: Mapping[str, Any], api_version: str, kind: str, *, controller: bool) -> Object:
    metadata = owner["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controller else reference


def owner_references(obj: Mapping[str, Any], kind: str = "") -> Iterable[Mapping[str, Any]]:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if not kind or (reference.get("kind") == kind and str(reference.get("apiVersion", "")).startswith(f"{GROUP}/")):
            yield reference


def owner_name(obj: Mapping[str, Any], kind: str) -> str:
    """Returns the name of the owner of a Cluster API kind, or an empty string."""
    return next((str(reference["name"]) for reference in owner_references(obj, kind)), "")


def controller_uid(obj: Mapping[str, Any]) -> str:
    return next((str(reference["uid"]) for reference in owner_references(obj) if reference.get("controller")), "")


def control_plane_endpoint(obj: Mapping[str, Any] | None) -> Object | None:
    """Returns `spec.controlPlaneEndpoint` when host and port are set."""
    endpoint = ((obj or {}).get("spec") or {}).get("controlPlaneEndpoint") or {}
    return (
        {"host": endpoint["host"], "port": endpoint["port"]} if endpoint.get("host") and endpoint.get("port") else None
    )


def node_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels of a Machine that its Node also gets."""
    return {key: value for key, value in labels.items() if _is_node_label(key)}


def _is_node_label(key: str) -> bool:
    return key.startswith(f"{_NODE_ROLE}/") or any(_is_in_domain(key, domain) for domain in _NODE_LABEL_DOMAINS)


def _is_in_domain(key: str, domain: str) -> bool:
    key_domain = key.partition("/")[0]
    return key_domain == domain or key_domain.endswith(f".{domain}")


def node_annotations(machine: Mapping[str, Any]) -> dict[str, str]:
    """Returns the annotations a Node gets from its Machine, and those that record what to remove later."""
    metadata = machine["metadata"]
    own = {key: value for key, value in annotations_of(machine).items() if _is_in_domain(key, _NODE_ANNOTATION_DOMAIN)}
    annotations = own | {
        CLUSTER_NAME: cluster_name(machine),
        NODE_CLUSTER_NAMESPACE: metadata["namespace"],
        NODE_MACHINE: metadata["name"],
        LABELS_FROM_MACHINE: ",".join(sorted(node_labels(labels_of(machine)))),
        ANNOTATIONS_FROM_MACHINE: ",".join(sorted(own)),
    }
    if machine["spec"].get("taints"):
        annotations[TAINTS_FROM_MACHINE] = ",".join(sorted(taint_id(taint) for taint in permanent_taints(machine)))
    for reference in owner_references(machine):
        if reference.get("controller"):
            annotations |= {NODE_OWNER_KIND: reference["kind"], NODE_OWNER_NAME: reference["name"]}
    return annotations


def permanent_taints(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the taints with propagation Always. The others are set only when the Node starts."""
    return [taint for taint in machine["spec"].get("taints") or () if taint.get("propagation") == "Always"]


def taint_id(taint: Mapping[str, Any]) -> str:
    return f"{taint['key']}:{taint['effect']}"


def kubeconfig(name: str, server: str, ca_data: str, token: str) -> str:
    """Returns the text of a kubeconfig. `ca_data` is base64 already. No value needs quoting."""
    return f"""apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca_data}
contexts:
- name: {name}-admin@{name}
  context:
    cluster: {name}
    user: {name}-admin
current-context: {name}-admin@{name}
users:
- name: {name}-admin
  user:
    token: {token}
"""


def kubeconfig_token(secret: Mapping[str, Any] | None) -> str:
    """Returns the token of a Secret with a text of `kubeconfig`; empty if there is none."""
    encoded = str(((secret or {}).get("data") or {}).get(KUBECONFIG_KEY, ""))
    try:
        lines = base64.b64decode(encoded).decode().splitlines()
    except ValueError:
        return ""
    return next((line.removeprefix(_TOKEN_LINE).strip() for line in lines if line.startswith(_TOKEN_LINE)), "")


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "machinepools"): replace(CUSTOM_STRATEGY, validate=validate_machine_pool),
}
