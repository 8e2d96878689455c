"""Printer columns of the kinds of apps/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import AGE, NONE, Column, container_columns, number_cell, selector_cell, selector_text

Object = dict[str, Any]


def _ready(obj: Object, now: float) -> object:
    return f"{(obj.get('status') or {}).get('readyReplicas') or 0}/{obj['spec'].get('replicas') or 0}"


def _node_selector(obj: Object, now: float) -> object:
    wanted = obj["spec"]["template"].get("spec", {}).get("nodeSelector") or {}
    return ",".join(f"{key}={wanted[key]}" for key in sorted(wanted)) or NONE


def _owner(obj: Object, now: float) -> object:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            kind = reference["kind"].lower()
            return f"{kind}.{group}/{reference['name']}" if group else f"{kind}/{reference['name']}"
    return NONE


_TEMPLATE = container_columns("spec", "template")
_SELECTOR = Column("Selector", priority=1, cell=selector_cell("spec", "selector"))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "deployments.apps": (
        Column("Ready", cell=_ready),
        Column("Up-to-date", cell=number_cell("status", "updatedReplicas")),
        Column("Available", cell=number_cell("status", "availableReplicas")),
        AGE,
        *_TEMPLATE,
        Column("Selector", priority=1, cell=lambda o, now: selector_text(o["spec"].get("selector"))),
    ),
    "replicasets.apps": (
        Column("Desired", type="integer", cell=number_cell("spec", "replicas")),
        Column("Current", type="integer", cell=number_cell("status", "replicas")),
        Column("Ready", type="integer", cell=number_cell("status", "readyReplicas")),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "statefulsets.apps": (Column("Ready", cell=_ready), AGE, *_TEMPLATE),
    "daemonsets.apps": (
        Column("Desired", type="integer", cell=number_cell("status", "desiredNumberScheduled")),
        Column("Current", type="integer", cell=number_cell("status", "currentNumberScheduled")),
        Column("Ready", type="integer", cell=number_cell("status", "numberReady")),
        Column("Up-to-date", type="integer", cell=number_cell("status", "updatedNumberScheduled")),
        Column("Available", type="integer", cell=number_cell("status", "numberAvailable")),
        Column("Node Selector", cell=_node_selector),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "controllerrevisions.apps": (
        Column("Controller", cell=_owner),
        Column("Revision", cell=number_cell("revision")),
        AGE,
    ),
}
