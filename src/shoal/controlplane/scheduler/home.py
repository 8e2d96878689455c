"""One hosted cluster as the scheduler sees it: events come in, bindings and refusals come out. Pure.

A pod that was decided is *assumed* to be on its node until the watch shows it there or its binding failed, so that
the next decision counts it.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.controlplane.scheduler.decide import Chosen, Dice, Object, is_finished, is_wanted
from shoal.controlplane.scheduler.pending import Pending, Waiting
from shoal.controlplane.scheduler.shape import Shapes
from shoal.controlplane.scheduler.snapshot import PodKey, Snapshot


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Waiting
    node: str


@dataclass(frozen=True, slots=True)
class Refusal:
    pod: Waiting
    message: str


class Home:
    def __init__(self, shapes: Shapes, dice: Dice) -> None:
        self.snapshot = Snapshot()
        self._shapes = shapes
        self._pending = Pending(dice)
        self._assumed: dict[PodKey, Waiting] = {}
        self._bound: dict[PodKey, tuple[str, str, int]] = {}
        """Node, uid and generation of the pods that the watch showed on a node: most events say nothing new."""
        self._due = 0.0

    @property
    def empty(self) -> bool:
        return not (self.snapshot.nodes or self._pending or self._assumed)

    def see_node(self, name: str, node: Object | None) -> bool:
        """Whether there may be something to do now; so do the others."""
        return self.snapshot.drop_node(name) if node is None else self.snapshot.put_node(node)

    def see_pod(self, key: PodKey, pod: Object | None) -> bool:
        if pod is None or is_finished(pod):
            return self._gone(key)
        node = pod["spec"].get("nodeName")
        if node:
            return self._settled(key, pod, node)
        if not is_wanted(pod):
            return self._gone(key)
        shape = self._shapes.of(pod)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.uid == pod["metadata"].get("uid"):
            # Seen before its binding. Should that fail, this is what the pod looks like.
            self._assumed[key] = self._pending.waiting(key, pod, shape, assumed)
            return False
        if assumed is not None or key in self._bound:
            self._gone(key)
        return self._pending.put(key, pod, shape)

    def choose(self, limit: int) -> list[Bind]:
        """The next pods that fit somewhere, in their order, with their nodes; all others have been refused."""
        self._pending.wake(self.snapshot.gains)
        found: list[Bind] = []
        while len(found) < limit:
            following = self._pending.next()
            if following is None:
                break
            waiting, group = following
            answer = group.ranking.decide(self.snapshot)
            if not isinstance(answer, Chosen):
                group.refusal = answer.message
                continue
            self._pending.drop(waiting.key)
            self._assumed[waiting.key] = waiting
            self.snapshot.place(waiting.key, answer.node, waiting.shape)
            found.append(Bind(waiting, answer.node))
        return found

    def not_bound(self, bind: Bind) -> None:
        """The pod is not on its node after all; if it is still there it waits again."""
        assumed = self._assumed.get(bind.pod.key)
        if assumed is not None and assumed.uid == bind.pod.uid:
            del self._assumed[bind.pod.key]
            self.snapshot.remove(bind.pod.key)
            self._pending.join(assumed)

    def refusals(self, now: float) -> list[Refusal]:
        """Who is to hear that it does not fit. `told` or `not_told` is owed for each."""
        return [Refusal(pod, group.refusal) for group in self._pending.resting() for pod in group.to_tell(now)]

    def told(self, refusal: Refusal) -> None:
        refusal.pod.told = refusal.message, refusal.pod.generation

    def not_told(self, refusal: Refusal) -> None:
        self._pending.untold(refusal.pod)

    def later(self, now: float) -> float | None:
        """In how many seconds somebody is to hear of another reason; None: nobody, or it was asked before."""
        due = min((group.due for group in self._pending.resting() if group.refusal != group.message), default=0.0)
        if not due or now < self._due <= due:
            return None
        self._due = due
        return max(due - now, 0.0)

    def _settled(self, key: PodKey, pod: Object, node: str) -> bool:
        metadata = pod["metadata"]
        seen = node, metadata.get("uid", ""), metadata.get("generation", 0)
        if self._bound.get(key) == seen:
            return False
        self._bound[key] = seen
        self._assumed.pop(key, None)
        self._pending.drop(key)
        return self.snapshot.place(key, node, self._shapes.of(pod))

    def _gone(self, key: PodKey) -> bool:
        self._bound.pop(key, None)
        self._assumed.pop(key, None)
        self._pending.drop(key)
        return self.snapshot.remove(key)


def unscheduled(refusal: Refusal, now: str) -> Object:
    """The condition; the time is that of the first refusal."""
    since = {} if refusal.pod.told[0] is not None else {"lastProbeTime": None, "lastTransitionTime": now}
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": refusal.message,
        "observedGeneration": refusal.pod.generation,
        **since,
    }
