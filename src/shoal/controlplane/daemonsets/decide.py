"""Decides the next step of a DaemonSet: one pod on every eligible node and on no other, and its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.daemonsets.eligibility import (
    NodeEligibility,
    NodeMatcher,
    is_updated,
    target_node,
    template_generation_of,
)
from shoal.controlplane.daemonsets.rollout import DaemonSetRollout, allows_surge
from shoal.kinds.apps.revision import POD_REVISION_LABEL
from shoal.kinds.core.pod.status import is_available, is_ready, is_terminal

Object = dict[str, Any]

BURST_REPLICAS = 250
"""Maximum number of pods created or deleted in one reconcile."""


@dataclass(frozen=True, slots=True)
class DaemonSetSnapshot:
    daemon_set: Object
    nodes: Iterable[Object]
    pods: list[Object]
    """Pods it controls. Pods whose deletion was accepted carry a deletionTimestamp."""
    revision_hash: str
    """Hash of the current revision of its template."""
    backoffs: Mapping[str, float]
    """Nodes where a pod failed recently, with the seconds of backoff left before the next failed pod there is
    deleted.
    """
    now: float


@dataclass(slots=True)
class DaemonSetDecision:
    create: list[str] = field(default_factory=list)
    """Nodes that need a pod."""
    delete: list[Object] = field(default_factory=list)
    finished: list[tuple[Object, str]] = field(default_factory=list)
    """Pods among the deleted ones that failed or succeeded, with their nodes."""
    without_node: list[tuple[Object, str]] = field(default_factory=list)
    """Unscheduled pods whose node is missing, with its name. They are deleted if the server has no such node either."""
    status: Object = field(default_factory=dict)
    requeue_after: float | None = None


def decide(snapshot: DaemonSetSnapshot) -> DaemonSetDecision:
    matcher = NodeMatcher(snapshot.daemon_set)
    eligibility = {node["metadata"]["name"]: matcher.eligibility_of(node) for node in snapshot.nodes}
    pods_by_node = group_by_node(snapshot.pods)
    decision = DaemonSetDecision(status=_status(snapshot, pods_by_node, eligibility))
    with_surge = allows_surge(snapshot.daemon_set)
    for node, node_eligibility in eligibility.items():
        _manage_node(snapshot, decision, node, node_eligibility, pods_by_node.get(node), with_surge)
    for node, pods in pods_by_node.items():
        if node not in eligibility:
            decision.without_node += [(pod, node) for pod in pods if _is_unscheduled(pod)]
    is_rolling_update = (snapshot.daemon_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
    if is_rolling_update and not decision.create and not decision.delete:
        decision.create, decision.delete = DaemonSetRollout(
            snapshot.daemon_set, pods_by_node, eligibility, snapshot.revision_hash, snapshot.now
        ).step()
    decision.create, decision.delete = decision.create[:BURST_REPLICAS], decision.delete[:BURST_REPLICAS]
    return decision


def group_by_node(pods: list[Object]) -> dict[str, list[Object]]:
    """Oldest first. Leaves out finished pods that are being deleted."""
    pods_by_node: dict[str, list[Object]] = {}
    for pod in pods:
        node = target_node(pod)
        if node and not ("deletionTimestamp" in pod["metadata"] and is_terminal(pod)):
            pods_by_node.setdefault(node, []).append(pod)
    for node_pods in pods_by_node.values():
        if len(node_pods) > 1:
            node_pods.sort(key=_scheduled_age_key)
    return pods_by_node


def revisions_to_delete(daemon_set: Object, pods: list[Object], old_revisions: list[Object]) -> list[Object]:
    """Returns revisions over the history limit, except those that a pod uses. `old_revisions` are ordered and exclude
    the current one.
    """
    limit = daemon_set["spec"].get("revisionHistoryLimit")
    surplus = len(old_revisions) - limit if limit is not None else 0
    live = {(pod["metadata"].get("labels") or {}).get(POD_REVISION_LABEL) for pod in pods}
    return [one for one in old_revisions if revision_hash_of(one) not in live][: max(surplus, 0)]


def revision_hash_of(revision: Object) -> str:
    """Returns the hash that pods of the revision carry as a label."""
    metadata = revision["metadata"]
    return str((metadata.get("labels") or {}).get(POD_REVISION_LABEL) or metadata["name"])


def _scheduled_age_key(pod: Object) -> tuple[bool, str, str]:
    metadata = pod["metadata"]
    return not pod["spec"].get("nodeName"), metadata.get("creationTimestamp") or "", metadata["name"]


def _is_unscheduled(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]


def _manage_node(
    snapshot: DaemonSetSnapshot,
    decision: DaemonSetDecision,
    node: str,
    eligibility: NodeEligibility,
    pods: list[Object] | None,
    with_surge: bool,
) -> None:
    """Decides what one node needs."""
    if pods is None:
        if eligibility.should_run:
            decision.create.append(node)
        return
    remaining = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    if not eligibility.should_continue:
        decision.delete += remaining
        return
    running = [pod for pod in remaining if not _handle_finished_pod(snapshot, decision, node, pod)]
    if not with_surge:
        decision.delete += running[1:]
    elif running:
        decision.delete += _surge_surplus(snapshot, running)
    elif eligibility.should_run:
        decision.create.append(node)


def _handle_finished_pod(snapshot: DaemonSetSnapshot, decision: DaemonSetDecision, node: str, pod: Object) -> bool:
    """Returns whether the pod has finished. A finished pod is deleted; a failed one only after its backoff."""
    if not is_terminal(pod):
        return False
    backoff = snapshot.backoffs.get(node) if pod["status"]["phase"] == "Failed" else None
    if backoff is not None:
        decision.requeue_after = backoff if decision.requeue_after is None else min(decision.requeue_after, backoff)
    else:
        decision.delete.append(pod)
        decision.finished.append((pod, node))
    return True


def _surge_surplus(snapshot: DaemonSetSnapshot, running: list[Object]) -> list[Object]:
    """Returns the pods over the surge. Two pods share a node only while the old one is ready and the new one is not
    available yet.
    """
    new = [
        pod
        for pod in running
        if (pod["metadata"].get("labels") or {}).get(POD_REVISION_LABEL) == snapshot.revision_hash
    ]
    old = [pod for pod in running if pod not in new]
    surplus = new[1:] + old[1:]
    min_ready = snapshot.daemon_set["spec"].get("minReadySeconds") or 0
    if new and old and (not is_ready(old[0]) or is_available(new[0], min_ready, snapshot.now)):
        surplus.append(old[0])
    return surplus


def _status(
    snapshot: DaemonSetSnapshot, pods_by_node: Mapping[str, list[Object]], eligibility: Mapping[str, NodeEligibility]
) -> Object:
    """As upstream: some counts of zero are omitted."""
    daemon_set, generation = snapshot.daemon_set, template_generation_of(snapshot.daemon_set)
    min_ready = daemon_set["spec"].get("minReadySeconds") or 0
    desired = sum(node_eligibility.should_run for node_eligibility in eligibility.values())
    first = [
        pods_by_node[node][0]
        for node, node_eligibility in eligibility.items()
        if node_eligibility.should_run and node in pods_by_node
    ]
    ready = [pod for pod in first if is_ready(pod)]
    available = sum(is_available(pod, min_ready, snapshot.now) for pod in ready)
    counts = {
        "updatedNumberScheduled": sum(is_updated(pod, snapshot.revision_hash, generation) for pod in first),
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
    }
    kept_fields = ("conditions", "collisionCount")
    before = daemon_set.get("status") or {}
    return {
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(
            node in pods_by_node for node, node_eligibility in eligibility.items() if not node_eligibility.should_run
        ),
        "numberReady": len(ready),
        **{name: count for name, count in counts.items() if count},
        **{name: before[name] for name in kept_fields if before.get(name)},
    }
