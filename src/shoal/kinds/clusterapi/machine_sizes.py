"""The sizes of simulated machines: the EmbeddedMachine spec of each, and the capacity annotations of its
MachineDeployment.

The provisioner buys by the annotations and the provider creates nodes from the machines: both use this table. The
schemas of EmbeddedMachines and the stages of simulated nodes repeat the default size as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

DEFAULT_ZONE = "embedded-a"
DEFAULT_REGION = "embedded"
ARCHITECTURE, SYSTEM = "amd64", "linux"
ON_DEMAND = "on-demand"

CAPACITY_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"
"""Prefix of scale-from-zero annotations: the capacity of a MachineDeployment's nodes, as the cluster autoscaler reads
it.
"""
PRICE_ANNOTATION = "cluster.x-k8s.io/machine-current-price"
KARPENTER_MEMBER_LABEL = "node.cluster.x-k8s.io/karpenter-member"
"""Label of a MachineDeployment the provisioner may use."""
UNREGISTERED_TAINT: Object = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""Keeps pods off a provisioned node until the provisioner has registered it."""


@dataclass(frozen=True, slots=True)
class MachineSize:
    name: str
    cpu: str
    memory: str
    price: str
    """Per hour."""
    pods: str = "110"
    ephemeral_storage: str = "100Gi"

    @property
    def capacity(self) -> dict[str, str]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, "ephemeral-storage": self.ephemeral_storage}


DEFAULT_SIZE = MachineSize("default", "4", "16Gi", "0.08")
"""The size of declared nodes of a ManagedCluster."""
PROVISIONED_SIZES = (
    MachineSize("small", "2", "8Gi", "0.04"),
    MachineSize("medium", "4", "16Gi", "0.08"),
    MachineSize("large", "16", "64Gi", "0.30"),
)
"""The sizes the provisioner chooses from."""


def machine_spec(size: MachineSize, *, is_provisioned: bool) -> Object:
    """The spec of an EmbeddedMachine."""
    spec: Object = {
        "instanceType": size.name,
        "zone": DEFAULT_ZONE,
        "capacityType": ON_DEMAND,
        "price": size.price,
        "capacity": size.capacity,
    }
    return {**spec, "taints": [UNREGISTERED_TAINT]} if is_provisioned else spec


def node_labels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Returns the labels that all nodes of EmbeddedMachines with this spec share."""
    return {
        "node.kubernetes.io/instance-type": spec.get("instanceType") or DEFAULT_SIZE.name,
        "topology.kubernetes.io/zone": spec.get("zone") or DEFAULT_ZONE,
        "topology.kubernetes.io/region": spec.get("region") or DEFAULT_REGION,
        "karpenter.sh/capacity-type": spec.get("capacityType") or ON_DEMAND,
        "kubernetes.io/arch": ARCHITECTURE,
        "kubernetes.io/os": SYSTEM,
    }


def capacity_annotations(size: MachineSize) -> dict[str, str]:
    """Returns the capacity annotations of a MachineDeployment with machines of that size."""
    labels = node_labels(machine_spec(size, is_provisioned=False))
    return {
        f"{CAPACITY_PREFIX}cpu": size.cpu,
        f"{CAPACITY_PREFIX}memory": size.memory,
        f"{CAPACITY_PREFIX}maxPods": size.pods,
        f"{CAPACITY_PREFIX}ephemeral-disk": size.ephemeral_storage,
        f"{CAPACITY_PREFIX}labels": ",".join(f"{key}={value}" for key, value in labels.items()),
        PRICE_ANNOTATION: size.price,
    }
