"""Propagates labels, annotations and taints from a Machine to its Node, and removes them again. Pure.

Annotations of the Node record what came from the Machine; everything else on it belongs to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.capi import (
    ANNOTATIONS_FROM_MACHINE,
    INTERRUPTIBLE,
    LABELS_FROM_MACHINE,
    OUTDATED_TAINT,
    REVISION,
    TAINTS_FROM_MACHINE,
    UNINITIALIZED_TAINT,
    annotations_of,
    is_deleting,
    kept_taints,
    labels_of,
    node_annotations,
    node_labels,
    taint_name,
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
    said = annotations_of(node)
    metadata = {
        "labels": _changes(labels_of(node), labels, _names(said, LABELS_FROM_MACHINE)),
        "annotations": _changes(said, annotations, _names(said, ANNOTATIONS_FROM_MACHINE)),
    }
    patch: Object = {}
    if any(metadata.values()):
        patch["metadata"] = {field: values for field, values in metadata.items() if values}
    has = (node.get("spec") or {}).get("taints") or []
    taints = _taints(machine, has, said, is_outdated(machine_set, deployment))
    if taints != has:
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


def _names(said: Mapping[str, str], annotation: str) -> list[str]:
    return [name for name in said.get(annotation, "").split(",") if name]


def _changes(has: Mapping[str, str], wanted: Mapping[str, str], before: Iterable[str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {key: None for key in before if key in has and key not in wanted}
    return gone | {key: value for key, value in wanted.items() if has.get(key) != value}


def _taints(machine: Object, has: list[Object], said: Mapping[str, str], outdated: bool) -> list[Object]:
    """The Node's taints in their order, without removed and with added ones."""
    kept = {taint_name(taint): taint for taint in kept_taints(machine)}
    started = TAINTS_FROM_MACHINE in said
    wanted = kept if started else {taint_name(taint): taint for taint in machine["spec"].get("taints") or ()}
    unwanted = set(_names(said, TAINTS_FROM_MACHINE)) - kept.keys() | {taint_name(UNINITIALIZED_TAINT)}
    if outdated:
        wanted = {**wanted, taint_name(OUTDATED_TAINT): OUTDATED_TAINT}
    else:
        unwanted.add(taint_name(OUTDATED_TAINT))
    found = {taint_name(taint): taint for taint in has if taint_name(taint) not in unwanted}
    for name, taint in wanted.items():
        old = found.get(name)
        if old is None or old.get("value", "") != taint.get("value", ""):
            found[name] = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
    return list(found.values())
