"""The sizes of simulated machines: what an EmbeddedMachine of each is, and how a MachineDeployment announces it.

The provisioner buys by the annotations, the provider makes nodes of the machines: both come from this table. The
schemas of EmbeddedMachines and the stages of simulated nodes repeat the default one, as data.
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
"""What a node of a MachineDeployment will have, as the cluster autoscaler reads it."""
PRICE = "cluster.x-k8s.io/machine-current-price"
MEMBER = "node.cluster.x-k8s.io/karpenter-member"
"""On a MachineDeployment: the provisioner may buy from it."""
UNREGISTERED: Object = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""Keeps pods off a bought node until the provisioner knows it."""


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
"""Of the nodes a ManagedCluster asks for by number."""
BOUGHT = (Size("small", "2", "8Gi", "0.04"), Size("medium", "4", "16Gi", "0.08"), Size("large", "16", "64Gi", "0.30"))
"""Of those the provisioner chooses from."""


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
    """Of every node of EmbeddedMachines with such a spec, whichever machine it is."""
    return {
        "node.kubernetes.io/instance-type": spec.get("instanceType") or DEFAULT.name,
        "topology.kubernetes.io/zone": spec.get("zone") or ZONE,
        "topology.kubernetes.io/region": spec.get("region") or REGION,
        "karpenter.sh/capacity-type": spec.get("capacityType") or ON_DEMAND,
        "kubernetes.io/arch": ARCHITECTURE,
        "kubernetes.io/os": SYSTEM,
    }


def announcement(size: Size) -> dict[str, str]:
    """The annotations of a MachineDeployment whose machines have that size."""
    labels = node_labels(machine_spec(size, bought=False))
    return {
        f"{CAPACITY}cpu": size.cpu,
        f"{CAPACITY}memory": size.memory,
        f"{CAPACITY}maxPods": size.pods,
        f"{CAPACITY}ephemeral-disk": size.disk,
        f"{CAPACITY}labels": ",".join(f"{key}={value}" for key, value in labels.items()),
        PRICE: size.price,
    }
