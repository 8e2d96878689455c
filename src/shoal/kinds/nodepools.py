"""The node pools of a ManagedCluster: declared pools with a node count, and pools the provisioner scales. Pure.

`spec.nodes` is the pool `default`, `spec.nodePools` are the others. Each becomes a MachineDeployment CLUSTER-POOL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds import sizes

Object = dict[str, Any]

LABEL = "shoal.dev/node-pool"
"""Label of a MachineDeployment and its templates: the pool of the ManagedCluster they belong to and are deleted
with.
"""
_SIZES = {size.name: size for size in (sizes.DEFAULT, *sizes.BOUGHT)}


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    nodes: int
    size: sizes.Size
    zone: str = sizes.ZONE
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()
    bought: bool = False
    """The provisioner decides the number of nodes."""
    named: bool = False
    """It is one of `spec.nodePools`: its node properties may change."""

    @property
    def machine(self) -> Object:
        """The spec of its EmbeddedMachines."""
        spec = {**sizes.machine_spec(self.size, bought=self.bought), "zone": self.zone}
        if self.labels:
            spec["labels"] = dict(self.labels)
        return {**spec, "taints": list(self.taints)} if self.taints else spec

    @property
    def announcement(self) -> dict[str, str]:
        """The capacity annotations of its MachineDeployment."""
        labels = {**sizes.node_labels(self.machine), **self.labels}
        found = sizes.announcement(self.size)
        found[f"{sizes.CAPACITY}labels"] = ",".join(f"{key}={value}" for key, value in labels.items())
        if self.taints:
            found[f"{sizes.CAPACITY}taints"] = ",".join(
                f"{taint['key']}={taint.get('value') or ''}:{taint['effect']}" for taint in self.taints
            )
        return found


def asked_for(spec: Mapping[str, Any]) -> list[Pool]:
    """Returns the pools declared in the spec of a ManagedCluster, the default one first."""
    default = Pool(sizes.DEFAULT.name, int(spec.get("nodes") or 0), sizes.DEFAULT)
    return [default, *map(_named, spec.get("nodePools") or ())]


def all_of(spec: Mapping[str, Any]) -> list[Pool]:
    return [*asked_for(spec), *(Pool(size.name, 0, size, bought=True) for size in sizes.BOUGHT)]


def _named(said: Mapping[str, Any]) -> Pool:
    return Pool(
        str(said["name"]),
        int(said.get("nodes") or 0),
        _SIZES.get(said.get("size") or "", sizes.DEFAULT),
        said.get("zone") or sizes.ZONE,
        said.get("labels") or {},
        said.get("taints") or (),
        named=True,
    )
