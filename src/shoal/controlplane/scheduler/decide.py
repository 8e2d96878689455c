"""Which node a pod goes to: the nodes that can take it, the best of them, and the sentence if there is none. Pure.

`decide` asks all nodes. `ranking` asks the same of those that changed, and comes to the same answer.
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
"""Breaks ties between nodes: the lower throw wins. The same name must throw the same number."""
Reasons = tuple[str, ...]
Bid = tuple[int, int, str, int]
"""Score (the lower the better), throw, name, and the revision of the node that it is for."""

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
    """Whether a node is to be found for the pod, and by this scheduler."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and not is_finished(pod)
    )


def is_finished(pod: Object) -> bool:
    """Its containers have ended for good: it takes nothing of its node any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def decide(
    nodes: Iterable[Node], shape: Shape, dice: Dice, company: Company | None = None, ties: Ties | None = None
) -> Chosen | Refused:
    """`company`: of a pod that other pods make a difference to, `ties`: of one with volumes."""
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
    """The node of the best bid; `moods`, if any, are those of the same nodes."""
    if not moods:
        return min(bids)[2]
    offers = zip(bids, worths(moods), strict=True)
    return min((score - worth, throw, name) for (score, throw, name, _), worth in offers)[2]


def banned(shape: Shape, node: Node) -> Reasons:
    """What keeps such pods off the node however empty it is."""
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
    """What is missing on the node while the other pods are there."""
    if shape.ports and clash(shape.ports, node.ports):
        return ("node(s) didn't have free ports for the requested pod ports",)
    if fits(shape.requests, node.free):
        return ()
    short = lacking(shape.requests, node.free)
    return tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in short)


def attraction(shape: Shape, node: Node) -> int:
    """How much such pods like the node, whatever runs there: its labels, and the taints they had rather not meet."""
    liked = HIGHEST * preference(shape.spec, node.name, node.labels) // shape.wish if shape.wish else 0
    calm = HIGHEST // (1 + intolerances(node.taints, shape.tolerations))
    return AFFINITY_WEIGHT * liked + TAINT_WEIGHT * calm


def headroom(shape: Shape, node: Node) -> int:
    """How much would be left with the pod there, and of what is scarcer once more: the node fills up evenly.

    It never grows when a pod is placed: `ranking` counts on that.
    """
    return left(node.cpu + shape.cpu, node.room.get(CPU, 0), node.memory + shape.memory, node.room.get(MEMORY, 0))


def message(reasons: Iterable[Reasons]) -> str:
    """What is told of a pod that fits nowhere, given what each node said."""
    counts: Counter[str] = Counter()
    nodes = 0
    for why in reasons:
        nodes += 1
        counts.update(why)
    if not nodes:
        return NO_NODES
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {why}' for why, n in counts.items()))}."


def condition(pod: Object) -> tuple[str | None, int, str]:
    """Why the pod was last told that it has no node (None: it was not), for which generation of it, and the node
    where room is made for it."""
    status = pod.get("status") or {}
    nominated = status.get("nominatedNodeName") or ""
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return each.get("message") or "", each.get("observedGeneration") or 0, nominated
    return None, 0, nominated
