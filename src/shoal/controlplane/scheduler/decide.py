"""Filters and scores nodes for a pod, and builds the message of a FitError. Pure.

`decide` evaluates all nodes. `ranking` evaluates only changed nodes and returns the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.company import Company, Mood, worths
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import Node
from shoal.controlplane.scheduler.volumes import Ties
from shoal.fit.affinity import preference, selected
from shoal.fit.headroom import HIGHEST
from shoal.fit.headroom import headroom as left
from shoal.fit.ports import clash
from shoal.fit.resources import CPU, MEMORY, PODS, fits, lacking
from shoal.fit.taints import UNSCHEDULABLE, intolerances, tolerated, untolerated

Object = dict[str, Any]
Dice = Callable[[str], int]
"""Breaks ties between nodes: the lowest number wins. Must be deterministic by name."""
Reasons = tuple[str, ...]
Bid = tuple[int, int, str, int]
"""Negated score (lower is better), tie break, node name, and the node revision it was computed for."""

SCHEDULER = "default-scheduler"
NO_NODES = "no nodes available to schedule pods"
NOT_NAMED = ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
TAINT_WEIGHT, AFFINITY_WEIGHT = 3, 2


@dataclass(frozen=True, slots=True)
class Chosen:
    node: str


@dataclass(frozen=True, slots=True)
class Refused:
    message: str


def is_wanted(pod: Object) -> bool:
    """Returns whether this scheduler must find a node for the pod."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and not is_finished(pod)
    )


def is_finished(pod: Object) -> bool:
    """Returns whether the pod has terminated and no longer uses resources of its node."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def decide(
    nodes: Iterable[Node], shape: Shape, dice: Dice, company: Company | None = None, ties: Ties | None = None
) -> Chosen | Refused:
    """`inter_pod` is the state of a pod affected by other pods, `volume_constraints` those of a pod with volumes."""
    bids: list[Bid] = []
    moods: list[Mood] = []
    reasons: list[Reasons] = []
    for node in nodes:
        if not node.present:
            continue
        why = banned(shape, node) or crowded(shape, node) or (ties.reasons(node) if ties is not None else ())
        if not why and company is not None and (obstacle := company.obstacle(node.labels)):
            why = (obstacle,)
        if why:
            reasons.append(why)
            continue
        bids.append((-(attraction(shape, node) + headroom(shape, node)), dice(node.name), node.name, node.revision))
        if company is not None:
            moods.append(company.mood(node.labels))
    if ties is not None and ties.message and (bids or reasons):
        return Refused(f"0/{len(bids) + len(reasons)} nodes are available: {ties.message}.")
    return Chosen(best(bids, moods)) if bids else Refused(message(reasons))


def best(bids: list[Bid], moods: list[Mood]) -> str:
    """Returns the node of the best bid. `inter_pod_scores`, if any, belong to the same nodes."""
    if not moods:
        return min(bids)[2]
    offers = zip(bids, worths(moods), strict=True)
    return min((score - worth, throw, name) for (score, throw, name, _), worth in offers)[2]


def banned(shape: Shape, node: Node) -> Reasons:
    """Filters that ignore running pods: pinned node, unschedulable, taints, node affinity."""
    if shape.pinned is not None and node.name not in shape.pinned:
        return NOT_NAMED
    if node.unschedulable and not tolerated(UNSCHEDULABLE, shape.tolerations):
        return ("node(s) were unschedulable",)
    taint = untolerated(node.taints, shape.tolerations)
    if taint is not None:
        return (f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}",)
    if not selected(shape.spec, node.name, node.labels):
        return ("node(s) didn't match Pod's node affinity/selector",)
    return ()


def crowded(shape: Shape, node: Node) -> Reasons:
    """Filters that depend on the pods of the node: host ports and resources."""
    if shape.ports and clash(shape.ports, node.ports):
        return ("node(s) didn't have free ports for the requested pod ports",)
    if fits(shape.requests, node.free):
        return ()
    short = lacking(shape.requests, node.free)
    return tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in short)


def attraction(shape: Shape, node: Node) -> int:
    """Scores that ignore running pods: preferred node affinity and PreferNoSchedule taints."""
    liked = HIGHEST * preference(shape.spec, node.name, node.labels) // shape.wish if shape.wish else 0
    calm = HIGHEST // (1 + intolerances(node.taints, shape.tolerations))
    return AFFINITY_WEIGHT * liked + TAINT_WEIGHT * calm


def headroom(shape: Shape, node: Node) -> int:
    """Scores free resources with the pod on the node. The scarcer resource counts twice, so that nodes fill up evenly.

    Assigning a pod never raises the score; `ranking` relies on that.
    """
    return left(node.cpu + shape.cpu, node.room.get(CPU, 0), node.memory + shape.memory, node.room.get(MEMORY, 0))


def message(reasons: Iterable[Reasons]) -> str:
    """Builds the message of an unschedulable pod from the reasons of each node."""
    counts: Counter[str] = Counter()
    nodes = 0
    for why in reasons:
        nodes += 1
        counts.update(why)
    if not nodes:
        return NO_NODES
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {why}' for why, n in counts.items()))}."


def condition(pod: Object) -> tuple[str | None, int, str]:
    """Returns the last reported message (None if there was none), the pod generation it was for, and the nominated
    node.
    """
    status = pod.get("status") or {}
    nominated = status.get("nominatedNodeName") or ""
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return each.get("message") or "", each.get("observedGeneration") or 0, nominated
    return None, 0, nominated
