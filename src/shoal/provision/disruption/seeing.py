"""Builds disruption snapshots of a cluster from ClusterState."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from shoal.clock import rfc3339
from shoal.kinds.karpenter import INITIALIZED, is_going, is_managed, pool_of, provider_id, template_spec
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.drift import with_consolidatable
from shoal.provision.disruption.evicting import Limits, is_kept, is_reschedulable
from shoal.provision.disruption.marks import Marks
from shoal.provision.disruption.model import Snapshot, Standing
from shoal.provision.simulation.model import Pool, Question
from shoal.provision.view import View

Object = dict[str, Any]


class Asking(Protocol):
    """Interface of the provisioner: nominations, pending plans and the scheduling input."""

    def is_promised(self, cluster: str, claim: str, node: str) -> bool: ...

    def is_undecided(self, cluster: str) -> bool: ...

    def promise(self, cluster: str, places: Mapping[str, str]) -> None: ...

    def question(self, cluster: str, pods: list[Object]) -> Question: ...


class Sight:
    def __init__(self, view: View, marks: Marks, asking: Asking) -> None:
        self._view, self._marks, self._asking = view, marks, asking

    def undecided(self, cluster: str) -> bool:
        """True if pods are pending that no plan has covered yet."""
        return self._asking.is_undecided(cluster)

    def settled(self, cluster: str) -> bool:
        """True if no pod is pending and no node is starting or being deleted."""
        there = all(condition_is(each, INITIALIZED) and not is_going(each) for each in self._view.claims.of(cluster))
        return there and not self._view.waiting(cluster)

    def standing(self, cluster: str, busy: Collection[str], awaited: Collection[str], now: float) -> list[Standing]:
        """`disrupting`: NodeClaims that commands in flight delete. `replacements`: NodeClaims that they wait for."""
        found = []
        for claim in self._view.claims.of(cluster):
            node = self._view.node_of(cluster, provider_id(claim))
            pool = self._view.pools.get(cluster, pool_of(claim))
            if node is None or pool is None or not condition_is(claim, INITIALIZED) or not is_managed(claim["spec"]):
                continue
            name, node_name = claim["metadata"]["name"], node["metadata"]["name"]
            event = self._marks.event(cluster, claim)
            fresh = with_consolidatable(claim, pool, event, now)
            fresh = {**fresh, "status": {**fresh["status"], "lastPodEventTime": rfc3339(event)}}
            nominated = name in awaited or self._asking.is_promised(cluster, name, node_name)
            pods = tuple(self._view.pods_on(cluster, node_name))
            found.append(Standing(node, fresh, pods, nominated, name in busy))
        return found

    def light(self, cluster: str, standing: Iterable[Standing], now: float) -> Snapshot:
        """Enough to find empty nodes."""
        pdbs = tuple(self._view.pdbs.of(cluster))
        return Snapshot(Question(()), tuple(standing), pdbs, now, tuple(self._pools(cluster)))

    def whole(self, cluster: str, standing: Iterable[Standing], now: float) -> Snapshot:
        nodes, pdbs = tuple(standing), tuple(self._view.pdbs.of(cluster))
        limits = Limits(pdbs)
        leaving = [each for each in nodes if each.busy or is_going(each.claim) or is_going(each.node)]
        homeless = [
            pod
            for each in leaving
            for pod in each.pods
            if is_reschedulable(pod) and not is_kept(pod, now) and not limits.fully_blocked(pod, now)
        ]
        waiting = self._view.waiting(cluster)
        # The volume requirements of every pod that might move must be known.
        movable = [pod for each in nodes for pod in each.pods if is_reschedulable(pod)]
        question = self._asking.question(cluster, [*waiting, *movable])
        question = _without(replace(question, pods=[*waiting, *homeless]), {each.name for each in leaving})
        buying = {pool.name for pool in question.pools}
        idle = tuple(pool for pool in self._pools(cluster) if pool.name not in buying)
        return Snapshot(question, nodes, pdbs, now, idle)

    def _pools(self, cluster: str) -> list[Pool]:
        return [
            Pool(pool, self._marks.types(cluster, pool), {}, {})
            for pool in self._view.pools.of(cluster)
            if is_managed(template_spec(pool))
        ]


def _without(question: Question, names: Collection[str]) -> Question:
    """Moves nodes that are being deleted to the draining nodes."""
    gone = [place for place in question.places if place.name in names]
    known = {place.name for place in question.others}
    kept = [place for place in question.places if place.name not in names]
    return replace(question, places=kept, others=[*question.others, *(each for each in gone if each.name not in known)])
