"""Groups the nodes of a cluster by labels and taints, so that its room can be published. Pure.

Labels in which the most nodes differ are left out until there are few enough groups, and named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit import resources
from shoal.fit.resources import Resources

Object = dict[str, Any]

MAX_GROUPS = 64
UNIQUE_LABELS = frozenset({"kubernetes.io/hostname"})
"""Labels in which all nodes differ."""
MAX_POOLS = 64


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node that takes pods."""

    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    allocatable: Resources
    free: Resources


def group_nodes(nodes: Iterable[NodeRoom]) -> tuple[list[Object], list[str]]:
    """Returns the groups in the form of the status, and the labels that were left out. Of more than MAX_GROUPS groups
    the largest are returned.
    """
    nodes = list(nodes)
    kept, omitted = _group_labels([node.labels for node in nodes])
    grouped: dict[str, list[NodeRoom]] = {}
    for node in nodes:
        key = json.dumps([{name: node.labels[name] for name in kept if name in node.labels}, node.taints])
        grouped.setdefault(key, []).append(node)
    largest = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))[:MAX_GROUPS]
    return [_group(key, members) for key, members in sorted(largest)], omitted


def _group_labels(labels_of_nodes: list[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    values: dict[str, set[str]] = {}
    for labels in labels_of_nodes:
        for key, value in labels.items():
            values.setdefault(key, set()).add(value)
    omitted = set(UNIQUE_LABELS & values.keys())
    # More values than groups cannot be kept, whatever the other labels are.
    omitted |= {key for key, found in values.items() if len(found) > MAX_GROUPS}
    kept = sorted(values.keys() - omitted, key=lambda key: (len(values[key]), key))
    while kept and len({tuple(map(labels.get, kept)) for labels in labels_of_nodes}) > MAX_GROUPS:
        omitted.add(kept.pop())
    return sorted(kept), sorted(omitted)


def _group(key: str, members: list[NodeRoom]) -> Object:
    labels, taints = json.loads(key)
    amounts = {
        "allocatable": resources.total(node.allocatable for node in members),
        "free": resources.total(node.free for node in members),
        "largestFree": resources.max_resources(node.free for node in members),
    }
    quantities = {name: dict(sorted(resources.to_quantities(found).items())) for name, found in amounts.items()}
    return {"labels": labels, **({"taints": taints} if taints else {}), "nodes": len(members), **quantities}


def published_pool(pool: Object) -> Object | None:
    """Returns what a NodePool could buy, in the form of the status; None: nothing."""
    metadata, spec = pool["metadata"], pool.get("spec") or {}
    if "deletionTimestamp" in metadata or spec.get("replicas") is not None:
        return None  # a static pool has the nodes that it has
    template = spec.get("template") or {}
    node, labels = template.get("spec") or {}, (template.get("metadata") or {}).get("labels") or {}
    requirements = [
        {name: each[name] for name in ("key", "operator", "values") if name in each}
        for each in node.get("requirements") or ()
    ]
    requirements += [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    published: Object = {"name": metadata["name"], "requirements": requirements}
    if node.get("taints"):
        published["taints"] = node["taints"]
    if spec.get("limits"):
        used = resources.parse_amounts((pool.get("status") or {}).get("resources"))
        limits = resources.parse_amounts(spec["limits"])
        left = {name: max(amount - used.get(name, 0), 0) for name, amount in limits.items()}
        published["remaining"] = dict(sorted(resources.to_quantities(left).items()))
    return published
