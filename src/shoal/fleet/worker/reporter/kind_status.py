"""Builds the status of a ManagedCluster with infrastructure kind, from its KINDCluster and from what its API server has
answered. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fleet.worker.kind.objects import choose_image
from shoal.fleet.worker.reporter.decide import (
    UP_TO_DATE,
    ConditionFields,
    HostedState,
    failed_status,
    infrastructure_condition,
    is_provisioned,
    merge_status,
    status_with_phase,
    with_condition,
)
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.kindhosting import node_count, offered_versions
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

REPLACING = "Replacing"
_PROGRESS_REASONS = frozenset({"Creating", "Created", "Adopted", "Interrupted", "Replacing", "Deleting"})
"""Reasons for which a KINDCluster is not Ready that are no failures."""


def kind_cluster_status(managed: Object, state: HostedState, images: Mapping[str, str], now: str) -> Object:
    """Returns the new status, built from the one the hub has. `images` are node images by release."""
    kind_cluster = state.control_plane
    choice = choose_image(managed, kind_cluster, images)
    if choice.image is None and kind_cluster is None:
        return failed_status(managed, infrav1.BAD_VERSION, _version_message(choice.version, images), now)
    updated = with_condition(managed, infrav1.INFRASTRUCTURE_READY, infrastructure_condition(state.cluster), now)
    updated = with_condition(updated, infrav1.NODES_READY, _nodes_condition(managed, state), now)
    ready_nodes = _observed_value(state, "nodes") or 0
    pool = {"name": "default", "nodes": node_count(managed), "readyNodes": ready_nodes}
    updated = merge_status(updated, {"nodes": ready_nodes, "nodePools": [pool]})
    if state.access is not None:
        updated = with_condition(updated, infrav1.ACCESS_GRANTED, state.access, now)
    ready = _ready_condition(state)
    if ready[0] != "True":
        if _is_failure(ready[1]):
            return failed_status(updated, ready[1], ready[2], now)
        return status_with_phase(with_condition(updated, infrav1.READY, ready, now))
    updated = with_condition(updated, infrav1.READY, ready, now)
    upgraded = _upgraded_condition(managed, state, images)
    updated = with_condition(updated, infrav1.UPGRADED, upgraded, now)
    fields = {"version": _observed_value(state, "version"), "kubeconfigHash": infrav1.kubeconfig_hash(state.kubeconfig)}
    updated = merge_status(updated, fields)
    if upgraded[1] in infrav1.PERMANENT_UPGRADE_REASONS:
        return status_with_phase(merge_status(updated, {"errors": infrav1.append_error(updated, *upgraded[1:], now)}))
    final_status = status_with_phase(updated)
    final_status.pop("errors", None)
    return final_status


def _is_failure(reason: str) -> bool:
    return reason not in {*_PROGRESS_REASONS, "Provisioning", "NotThereYet", "NoKubeconfig"}


def _observed_value(state: HostedState, field: str) -> Any:
    return infrav1.status_of(state.copy or {}).get(field)


def _nodes_condition(managed: Object, state: HostedState) -> ConditionFields:
    desired, ready = node_count(managed), int(_observed_value(state, "nodes") or 0)
    message = f"{min(ready, desired)} of {desired} nodes are ready"
    return ("True", "NodesReady", message) if ready >= desired else ("False", "NodesNotReady", message)


def _ready_condition(state: HostedState) -> ConditionFields:
    """Of the KINDCluster until that is ready, then of its API server."""
    kind_ready = get_condition(state.control_plane or {}, infrav1.READY)
    if kind_ready is None or state.control_plane is None:
        return "False", "NotThereYet", "the KINDCluster does not exist yet"
    if kind_ready["status"] != "True":
        progress = str(infrav1.status_of(state.control_plane).get("progress") or "")
        message = str(kind_ready.get("message") or progress or "the kind cluster is being created")
        return "False", str(kind_ready.get("reason") or "Provisioning"), message
    observed = get_condition(state.copy or {}, infrav1.READY)
    if not is_provisioned(state.cluster) or observed is None:
        return "False", "Provisioning", "the control plane is being provisioned"
    if observed["status"] != "True":
        return "False", str(observed["reason"]), str(observed.get("message") or "")
    if not state.kubeconfig:
        return "False", "NoKubeconfig", "the kubeconfig does not exist yet"
    return "True", "Running", "the API server is ready"


def _upgraded_condition(managed: Object, state: HostedState, images: Mapping[str, str]) -> ConditionFields:
    choice = choose_image(managed, state.control_plane, images)
    if choice.image is None:
        return "False", infrav1.VERSION_REFUSED, _version_message(choice.version, images)
    up_to_date = get_condition(state.control_plane or {}, "UpToDate")
    if up_to_date is None or up_to_date["status"] != "False":
        return "True", UP_TO_DATE, "control plane and nodes are as requested"
    if up_to_date.get("reason") == "ChangeRefused":
        detail = str(up_to_date.get("message") or "").partition("; an existing cluster cannot be changed")[0]
        advice = "revert the change, or set spec.replacePolicy: Replace, which deletes the cluster with all its content"
        return "False", infrav1.REPLACEMENT_REFUSED, f"a kind cluster cannot be changed in place: {advice} ({detail})"
    return "False", REPLACING, str(up_to_date.get("message") or "the kind cluster is replaced")


def _version_message(version: str, images: Mapping[str, str]) -> str:
    return f"the worker has no node image for {version}; it has those for {', '.join(offered_versions(images))}"
