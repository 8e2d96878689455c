"""Results of a scheduling cycle: bindings, preemptions, and unschedulable pods with their condition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.controlplane.scheduler.decide import Object
from shoal.controlplane.scheduler.preemption import PreemptionPlan
from shoal.controlplane.scheduler.queue import QueuedPod


@dataclass(frozen=True, slots=True)
class Binding:
    pod: QueuedPod
    node: str
    unbound_claims: tuple[str, ...] = ()
    """Claims that wait for a node. The pod is bound once they have their volumes."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods that are deleted to make room."""

    pod: QueuedPod
    plan: PreemptionPlan


@dataclass(frozen=True, slots=True)
class Unschedulable:
    pod: QueuedPod
    message: str


def unschedulable_condition(unschedulable: Unschedulable, now: str) -> Object:
    """Returns the PodScheduled condition. The transition time is that of the first report."""
    since = {} if unschedulable.pod.reported[0] is not None else {"lastProbeTime": None, "lastTransitionTime": now}
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": unschedulable.message,
        "observedGeneration": unschedulable.pod.generation,
        **since,
    }
