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

ZONE = "embedded-a"
REGION = "embedded"
ARCHITECTURE, SYSTEM = "amd64", "linux"
ON_DEMAND = "on-demand"

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
"""Prefix of scale-from-zero annotations: the capacity of a MachineDeployment's nodes, as the cluster autoscaler reads
it.
"""
PRICE = "cluster.x-k8s.io/machine-current-price"
MEMBER = "node.cluster.x-k8s.io/karpenter-member"
"""Label of a MachineDeployment the provisioner may use."""
UNREGISTERED: Object = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""Keeps pods off a provisioned node until the provisioner has registered it."""


@dataclass(frozen=True, slots=True)
class Size:
    name: str
    cpu: str
    memory: str
    price: str
    """Per hour."""
    pods: str = "110"
    disk: str = "100Gi"

    @property
    def capacity(self) -> dict[str, str]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, "ephemeral-storage": self.disk}


DEFAULT = Size("default", "4", "16Gi", "0.08")
"""The size of declared nodes of a ManagedCluster."""
BOUGHT = (Size("small", "2", "8Gi", "0.04"), Size("medium", "4", "16Gi", "0.08"), Size("large", "16", "64Gi", "0.30"))
"""The sizes the provisioner chooses from."""


def machine_spec(size: Size, *, bought: bool) -> Object:
    """The spec of an EmbeddedMachine."""
    spec: Object = {
        "instanceType": size.name,
        "zone": ZONE,
        "capacityType": ON_DEMAND,
        "price": size.price,
        "capacity": size.capacity,
    }
    return {**spec, "taints": [UNREGISTERED]} if bought else spec


def node_labels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Returns the labels that all nodes of EmbeddedMachines with this spec share."""
    return {
        "node.kubernetes.io/instance-type": spec.get("instanceType") or DEFAULT.name,
        "topology.kubernetes.io/zone": spec.get("zone") or ZONE,
        "topology.kubernetes.io/region": spec.get("region") or REGION,
        "karpenter.sh/capacity-type": spec.get("capacityType") or ON_DEMAND,
        "kubernetes.io/arch": ARCHITECTURE,
        "kubernetes.io/os": SYSTEM,
    }


def announcement(size: Size) -> dict[str, str]:
    """Returns the capacity annotations of a MachineDeployment with machines of that size."""
    labels = node_labels(machine_spec(size, bought=False))
    return {
        f"{CAPACITY}cpu": size.cpu,
        f"{CAPACITY}memory": size.memory,
        f"{CAPACITY}maxPods": size.pods,
        f"{CAPACITY}ephemeral-disk": size.disk,
        f"{CAPACITY}labels": ",".join(f"{key}={value}" for key, value in labels.items()),
        PRICE: size.price,
    }
