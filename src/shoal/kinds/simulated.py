"""Simulated nodes: the names by which users choose what happens on them. Pure."""

from __future__ import annotations

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


def is_simulated(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(LABEL) == "true"
