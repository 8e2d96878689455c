"""The next step of a DaemonSet: a pod on every node it selects and on no other, and what its status says. Pure."""

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
"""Pods made or deleted in one go."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    daemon_set: Object
    nodes: Iterable[Object]
    pods: list[Object]
    """Its own; those whose deletion was accepted look it."""
    hashed: str
    """The revision of its template."""
    held: Mapping[str, float]
    """Nodes where a pod failed not long ago, and how many seconds the next that fails there is left alone."""
    now: float


@dataclass(slots=True)
class Decision:
    create: list[str] = field(default_factory=list)
    """Nodes that get a pod."""
    delete: list[Object] = field(default_factory=list)
    ended: list[tuple[Object, str]] = field(default_factory=list)
    """Those among them that failed or finished, and their nodes."""
    lost: list[tuple[Object, str]] = field(default_factory=list)
    """Pods that wait for a node that is not there: to be deleted if it really is not."""
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
    """Oldest first. What has ended and is being deleted too needs nothing more."""
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
    """Revisions beyond the history to keep, but none that a pod is at. `old` are ordered, without the newest."""
    limit = daemon_set["spec"].get("revisionHistoryLimit")
    surplus = len(old) - limit if limit is not None else 0
    live = {(pod["metadata"].get("labels") or {}).get(POD_REVISION) for pod in pods}
    return [one for one in old if hash_of(one) not in live][: max(surplus, 0)]


def hash_of(revision: Object) -> str:
    """What pods of the revision are labelled with."""
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
    """What one node needs."""
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
    """Whether the pod has ended; then it goes, one that failed again and again less and less soon."""
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
    """Two pods may be on a node only while the old one is ready and the new one is not available yet."""
    new = [pod for pod in running if (pod["metadata"].get("labels") or {}).get(POD_REVISION) == seen.hashed]
    old = [pod for pod in running if pod not in new]
    surplus = new[1:] + old[1:]
    min_ready = seen.daemon_set["spec"].get("minReadySeconds") or 0
    if new and old and (not is_ready(old[0]) or is_available(new[0], min_ready, seen.now)):
        surplus.append(old[0])
    return surplus


def _status(seen: Snapshot, placed: Mapping[str, list[Object]], verdicts: Mapping[str, Verdict]) -> Object:
    """As upstream writes it: some counts of nothing are left out."""
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
