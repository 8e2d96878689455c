"""Simulated nodes: labels and annotations by which users control their behaviour. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

SIMULATED_LABEL = "shoal.dev/simulated"
"""Label of a Node, `true`: it has no kubelet, Shoal simulates it."""
SIMULATE_ANNOTATION = "shoal.dev/simulate"
"""Annotation of a Pod or Node: which alternative of the stages it takes."""
STARTUP_DELAY_ANNOTATION = "shoal.dev/startup-delay"
"""Annotation of a Node: the delay between creation and Ready, such as 30s."""
RUN_FOR_ANNOTATION = "shoal.dev/run-for"
"""Annotation on a Pod: how long it runs before it completes or crashes."""

EVENTS_ANNOTATION = "shoal.dev/events"
"""Annotation of a Node, `true`: its simulated kubelet records Events about the containers of its pods."""


def is_simulated(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(SIMULATED_LABEL) == "true"


def records_events(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(EVENTS_ANNOTATION) == "true"


def new_simulated_node(
    name: str, capacity: Mapping[str, str], zone: str, labels: Mapping[str, str], *, events: bool = False
) -> Object:
    """Returns a Node as a kubelet registers it. The simulated kubelet adds missing fields."""
    own_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    own_labels |= {"topology.kubernetes.io/zone": zone} if zone else {}
    metadata: Object = {"name": name, "labels": {**own_labels, **labels, SIMULATED_LABEL: "true"}}
    if events:
        metadata["annotations"] = {EVENTS_ANNOTATION: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": dict(capacity)}}
