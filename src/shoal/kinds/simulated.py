"""Simulated nodes: labels and annotations by which users control their behaviour. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

LABEL = "shoal.dev/simulated"
"""Label of a Node, `true`: it has no kubelet, Shoal simulates it."""
SIMULATE = "shoal.dev/simulate"
"""Annotation of a Pod or Node: which alternative of the stages it takes."""
STARTUP_DELAY = "shoal.dev/startup-delay"
"""Annotation of a Node: the delay between creation and Ready, such as 30s."""
RUN_FOR = "shoal.dev/run-for"
"""Annotation on a Pod: how long it runs before it completes or crashes."""

EVENTS = "shoal.dev/events"
"""Annotation of a Node, `true`: its simulated kubelet records Events about the containers of its pods."""


def is_simulated(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(LABEL) == "true"


def tells_events(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(EVENTS) == "true"


def simulated_node(
    name: str, capacity: Mapping[str, str], zone: str, labels: Mapping[str, str], *, events: bool = False
) -> Object:
    """Returns a Node as a kubelet registers it. The simulated kubelet adds missing fields."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    own |= {"topology.kubernetes.io/zone": zone} if zone else {}
    metadata: Object = {"name": name, "labels": {**own, **labels, LABEL: "true"}}
    if events:
        metadata["annotations"] = {EVENTS: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": dict(capacity)}}
