"""Simulated nodes: the names by which users choose what happens on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

LABEL = "shoal.dev/simulated"
"""On a Node, `true`: no kubelet is there, Shoal plays it."""
SIMULATE = "shoal.dev/simulate"
"""Annotation on a Pod or Node: which of the stages' alternatives it takes."""
STARTUP_DELAY = "shoal.dev/startup-delay"
"""Annotation on a Node: how long after its creation it becomes Ready, such as 30s."""
RUN_FOR = "shoal.dev/run-for"
"""Annotation on a Pod: how long it runs before it completes or crashes."""

EVENTS = "shoal.dev/events"
"""Annotation on a Node, `true`: its kubelet writes Events about the containers of its pods."""


def is_simulated(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(LABEL) == "true"


def tells_events(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(EVENTS) == "true"


def simulated_node(
    name: str, capacity: Mapping[str, str], zone: str, labels: Mapping[str, str], *, events: bool = False
) -> Object:
    """As a kubelet registers its node. What it does not say, whoever animates it adds."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    own |= {"topology.kubernetes.io/zone": zone} if zone else {}
    metadata: Object = {"name": name, "labels": {**own, **labels, LABEL: "true"}}
    if events:
        metadata["annotations"] = {EVENTS: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": dict(capacity)}}
