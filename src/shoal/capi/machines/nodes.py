"""Propagates labels, annotations and taints from a Machine to its Node, and removes them again. Pure.

Annotations of the Node record what came from the Machine; everything else on it belongs to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.clusterapi.capi import (
    ANNOTATIONS_FROM_MACHINE,
    INTERRUPTIBLE,
    LABELS_FROM_MACHINE,
    OUTDATED_TAINT,
    REVISION,
    TAINTS_FROM_MACHINE,
    UNINITIALIZED_TAINT,
    annotations_of,
    is_deleting,
    labels_of,
    node_annotations,
    node_labels,
    permanent_taints,
    taint_id,
)

Object = dict[str, Any]


def node_patch(
    machine: Object, node: Object, infrastructure: Object | None, machine_set: Object | None, deployment: Object | None
) -> Object | None:
    """The merge patch that updates the Node; None if it is current."""
    if is_deleting(node):
        return None
    labels = node_labels(labels_of(machine))
    if ((infrastructure or {}).get("status") or {}).get("interruptible"):
        labels[INTERRUPTIBLE] = ""
    annotations = node_annotations(machine)
    current = annotations_of(node)
    metadata = {
        "labels": _propagation_patch(labels_of(node), labels, _recorded_names(current, LABELS_FROM_MACHINE)),
        "annotations": _propagation_patch(current, annotations, _recorded_names(current, ANNOTATIONS_FROM_MACHINE)),
    }
    patch: Object = {}
    if any(metadata.values()):
        patch["metadata"] = {field: values for field, values in metadata.items() if values}
    current_taints = (node.get("spec") or {}).get("taints") or []
    taints = _taints(machine, current_taints, current, is_outdated(machine_set, deployment))
    if taints != current_taints:
        patch["spec"] = {"taints": taints or None}
    return patch or None


def is_outdated(machine_set: Object | None, deployment: Object | None) -> bool:
    """Whether the Machine's revision is older than the MachineDeployment's: Pods should prefer other Nodes."""
    if machine_set is None or deployment is None:
        return False
    return _revision(machine_set) < _revision(deployment)


def _revision(obj: Mapping[str, Any]) -> int:
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def _recorded_names(annotations: Mapping[str, str], annotation: str) -> list[str]:
    return [name for name in annotations.get(annotation, "").split(",") if name]


def _propagation_patch(
    current: Mapping[str, str], desired: Mapping[str, str], previous: Iterable[str]
) -> dict[str, str | None]:
    removed: dict[str, str | None] = {key: None for key in previous if key in current and key not in desired}
    return removed | {key: value for key, value in desired.items() if current.get(key) != value}


def _taints(machine: Object, current: list[Object], annotations: Mapping[str, str], outdated: bool) -> list[Object]:
    """The Node's taints in their order, without removed and with added ones."""
    propagated = {taint_id(taint): taint for taint in permanent_taints(machine)}
    is_initialized = TAINTS_FROM_MACHINE in annotations
    desired = (
        propagated if is_initialized else {taint_id(taint): taint for taint in machine["spec"].get("taints") or ()}
    )
    removed = set(_recorded_names(annotations, TAINTS_FROM_MACHINE)) - propagated.keys() | {
        taint_id(UNINITIALIZED_TAINT)
    }
    if outdated:
        desired = {**desired, taint_id(OUTDATED_TAINT): OUTDATED_TAINT}
    else:
        removed.add(taint_id(OUTDATED_TAINT))
    result = {taint_id(taint): taint for taint in current if taint_id(taint) not in removed}
    for name, taint in desired.items():
        old = result.get(name)
        if old is None or old.get("value", "") != taint.get("value", ""):
            result[name] = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
    return list(result.values())
