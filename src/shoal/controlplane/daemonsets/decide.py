"""Decides the next step of a DaemonSet: one pod on every eligible node and on no other, and its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.daemonsets.placing import (
    Placing,
    Verdict,
    generation_of,
    is_updated,
    node_of,
)
from shoal.controlplane.daemonsets.rollout import Rollout, allows_surge
from shoal.kinds.pod_state import is_available, is_ready, is_terminal
from shoal.kinds.revisions import POD_REVISION

Object = dict[str, Any]

BURST = 250
"""Maximum number of pods created or deleted in one reconcile."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    daemon_set: Object
    nodes: Iterable[Object]
    pods: list[Object]
    """Pods it controls. Pods whose deletion was accepted carry a deletionTimestamp."""
    hashed: str
    """Hash of the current revision of its template."""
    held: Mapping[str, float]
    """Nodes where a pod failed recently, with the seconds of backoff left before the next failed pod there is
    deleted.
    """
    now: float


@dataclass(slots=True)
class Decision:
    create: list[str] = field(default_factory=list)
    """Nodes that need a pod."""
    delete: list[Object] = field(default_factory=list)
    ended: list[tuple[Object, str]] = field(default_factory=list)
    """Pods among the deleted ones that failed or succeeded, with their nodes."""
    lost: list[tuple[Object, str]] = field(default_factory=list)
    """Unscheduled pods whose node is missing, with its name. They are deleted if the server has no such node either."""
    status: Object = field(default_factory=dict)
    later: float | None = None


def decide(seen: Snapshot) -> Decision:
    placing = Placing(seen.daemon_set)
    verdicts = {node["metadata"]["name"]: placing.verdict(node) for node in seen.nodes}
    placed = by_node(seen.pods)
    decision = Decision(status=_status(seen, placed, verdicts))
    surges = allows_surge(seen.daemon_set)
    for node, verdict in verdicts.items():
        _see_to(seen, decision, node, verdict, placed.get(node), surges)
    for node, pods in placed.items():
        if node not in verdicts:
            decision.lost += [(pod, node) for pod in pods if _is_waiting(pod)]
    rolls = (seen.daemon_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
    if rolls and not decision.create and not decision.delete:
        decision.create, decision.delete = Rollout(seen.daemon_set, placed, verdicts, seen.hashed, seen.now).step()
    decision.create, decision.delete = decision.create[:BURST], decision.delete[:BURST]
    return decision


def by_node(pods: list[Object]) -> dict[str, list[Object]]:
    """Oldest first. Leaves out finished pods that are being deleted."""
    found: dict[str, list[Object]] = {}
    for pod in pods:
        node = node_of(pod)
        if node and not ("deletionTimestamp" in pod["metadata"] and is_terminal(pod)):
            found.setdefault(node, []).append(pod)
    for some in found.values():
        if len(some) > 1:
            some.sort(key=_age)
    return found


def outdated(daemon_set: Object, pods: list[Object], old: list[Object]) -> list[Object]:
    """Returns revisions over the history limit, except those that a pod uses. `old_revisions` are ordered and exclude
    the current one.
    """
    limit = daemon_set["spec"].get("revisionHistoryLimit")
    surplus = len(old) - limit if limit is not None else 0
    live = {(pod["metadata"].get("labels") or {}).get(POD_REVISION) for pod in pods}
    return [one for one in old if hash_of(one) not in live][: max(surplus, 0)]


def hash_of(revision: Object) -> str:
    """Returns the hash that pods of the revision carry as a label."""
    metadata = revision["metadata"]
    return str((metadata.get("labels") or {}).get(POD_REVISION) or metadata["name"])


def _age(pod: Object) -> tuple[bool, str, str]:
    metadata = pod["metadata"]
    return not pod["spec"].get("nodeName"), metadata.get("creationTimestamp") or "", metadata["name"]


def _is_waiting(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]


def _see_to(
    seen: Snapshot, decision: Decision, node: str, verdict: Verdict, pods: list[Object] | None, surges: bool
) -> None:
    """Decides what one node needs."""
    if pods is None:
        if verdict.runs:
            decision.create.append(node)
        return
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    if not verdict.stays:
        decision.delete += staying
        return
    running = [pod for pod in staying if not _is_over(seen, decision, node, pod)]
    if not surges:
        decision.delete += running[1:]
    elif running:
        decision.delete += _surplus(seen, running)
    elif verdict.runs:
        decision.create.append(node)


def _is_over(seen: Snapshot, decision: Decision, node: str, pod: Object) -> bool:
    """Returns whether the pod has finished. A finished pod is deleted; a failed one only after its backoff."""
    if not is_terminal(pod):
        return False
    held = seen.held.get(node) if pod["status"]["phase"] == "Failed" else None
    if held is not None:
        decision.later = held if decision.later is None else min(decision.later, held)
    else:
        decision.delete.append(pod)
        decision.ended.append((pod, node))
    return True


def _surplus(seen: Snapshot, running: list[Object]) -> list[Object]:
    """Returns the pods over the surge. Two pods share a node only while the old one is ready and the new one is not
    available yet.
    """
    new = [pod for pod in running if (pod["metadata"].get("labels") or {}).get(POD_REVISION) == seen.hashed]
    old = [pod for pod in running if pod not in new]
    surplus = new[1:] + old[1:]
    min_ready = seen.daemon_set["spec"].get("minReadySeconds") or 0
    if new and old and (not is_ready(old[0]) or is_available(new[0], min_ready, seen.now)):
        surplus.append(old[0])
    return surplus


def _status(seen: Snapshot, placed: Mapping[str, list[Object]], verdicts: Mapping[str, Verdict]) -> Object:
    """As upstream: some counts of zero are omitted."""
    daemon_set, generation = seen.daemon_set, generation_of(seen.daemon_set)
    min_ready = daemon_set["spec"].get("minReadySeconds") or 0
    desired = sum(verdict.runs for verdict in verdicts.values())
    first = [placed[node][0] for node, verdict in verdicts.items() if verdict.runs and node in placed]
    ready = [pod for pod in first if is_ready(pod)]
    available = sum(is_available(pod, min_ready, seen.now) for pod in ready)
    counts = {
        "updatedNumberScheduled": sum(is_updated(pod, seen.hashed, generation) for pod in first),
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
    }
    kept = ("conditions", "collisionCount")
    before = daemon_set.get("status") or {}
    return {
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(node in placed for node, verdict in verdicts.items() if not verdict.runs),
        "numberReady": len(ready),
        **{name: count for name, count in counts.items() if count},
        **{name: before[name] for name in kept if before.get(name)},
    }
