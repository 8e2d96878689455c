"""The node pools of a ManagedCluster: declared pools with a node count, and pools the provisioner scales. Pure.

`spec.nodes` is the pool `default`, `spec.nodePools` are the others. Each becomes a MachineDeployment CLUSTER-POOL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.clusterapi import machine_sizes

Object = dict[str, Any]

NODE_POOL_LABEL = "shoal.dev/node-pool"
"""Label of a MachineDeployment and its templates: the pool of the ManagedCluster they belong to and are deleted
with.
"""
_SIZES_BY_NAME = {size.name: size for size in (machine_sizes.DEFAULT_SIZE, *machine_sizes.PROVISIONED_SIZES)}


@dataclass(frozen=True, slots=True)
class ClusterNodePool:
    name: str
    nodes: int
    size: machine_sizes.MachineSize
    zone: str = machine_sizes.DEFAULT_ZONE
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()
    is_provisioned: bool = False
    """The provisioner decides the number of nodes."""
    is_named: bool = False
    """It is one of `spec.nodePools`: its node properties may change."""

    @property
    def machine_spec(self) -> Object:
        """The spec of its EmbeddedMachines."""
        spec = {**machine_sizes.machine_spec(self.size, is_provisioned=self.is_provisioned), "zone": self.zone}
        if self.labels:
            spec["labels"] = dict(self.labels)
        return {**spec, "taints": list(self.taints)} if self.taints else spec

    @property
    def capacity_annotations(self) -> dict[str, str]:
        """The capacity annotations of its MachineDeployment."""
        labels = {**machine_sizes.node_labels(self.machine_spec), **self.labels}
        annotations = machine_sizes.capacity_annotations(self.size)
        annotations[f"{machine_sizes.CAPACITY_PREFIX}labels"] = ",".join(
            f"{key}={value}" for key, value in labels.items()
        )
        if self.taints:
            annotations[f"{machine_sizes.CAPACITY_PREFIX}taints"] = ",".join(
                f"{taint['key']}={taint.get('value') or ''}:{taint['effect']}" for taint in self.taints
            )
        return annotations


def declared_pools(spec: Mapping[str, Any]) -> list[ClusterNodePool]:
    """Returns the pools declared in the spec of a ManagedCluster, the default one first."""
    default = ClusterNodePool(machine_sizes.DEFAULT_SIZE.name, int(spec.get("nodes") or 0), machine_sizes.DEFAULT_SIZE)
    return [default, *map(_pool_from_spec, spec.get("nodePools") or ())]


def all_pools(spec: Mapping[str, Any]) -> list[ClusterNodePool]:
    return [
        *declared_pools(spec),
        *(ClusterNodePool(size.name, 0, size, is_provisioned=True) for size in machine_sizes.PROVISIONED_SIZES),
    ]


def _pool_from_spec(pool_spec: Mapping[str, Any]) -> ClusterNodePool:
    return ClusterNodePool(
        str(pool_spec["name"]),
        int(pool_spec.get("nodes") or 0),
        _SIZES_BY_NAME.get(pool_spec.get("size") or "", machine_sizes.DEFAULT_SIZE),
        pool_spec.get("zone") or machine_sizes.DEFAULT_ZONE,
        pool_spec.get("labels") or {},
        pool_spec.get("taints") or (),
        is_named=True,
    )
