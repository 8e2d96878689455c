"""Chooses where a plan is computed: in this process for few pods, in the solver process otherwise.

Only the pod fields that planning reads are sent, and only pod uids come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from shoal.provision.settings import OPTIMAL
from shoal.provision.simulation.model import Place, Plan, Question
from shoal.provision.simulation.rule import simulate
from shoal.provision.simulation.topology import REQUIRED, opposing_terms, selector_keys, signature
from shoal.provision.solver.pool import ITERATIONS, SECONDS, PoolFailed, SolverPool
from shoal.provision.solver.report import Report

log = logging.getLogger(__name__)

Object = dict[str, Any]

FEW = 40
"""Up to this many pods are planned in this process, which takes some milliseconds."""
LONGEST = 60.0
"""Time limit in seconds for Karpenter's algorithm. Pods placed by then form the plan."""
_PLANNED = "shoal.provision.provisioning.elsewhere:planned"
_METADATA = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
_SPEC = (
    *("nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("overhead", "resources", "resourceClaims"),
)
_ASKS = frozenset(("affinity", "topologySpreadConstraints"))
"""Fields in which pods select other pods."""
_CONTAINER = ("name", "resources", "ports", "restartPolicy")


class Planner:
    def __init__(self, planner: str, pool: SolverPool | None) -> None:
        self._optimal, self._pool = planner == OPTIMAL, pool

    async def plan(self, question: Question) -> tuple[Plan, Report | None]:
        """Returns the plan, with a report if the solver tried to improve it."""
        few = len(question.pods) <= FEW
        found = simulate(question) if few or self._pool is None else None
        if self._pool is None:
            return found or Plan(), None
        if found is not None and not (self._optimal and is_worth_it(found)):
            return found, None
        asked = (light(question), self._optimal, ITERATIONS, SECONDS, LONGEST)
        try:
            answer: tuple[Plan, Report | None] = await self._pool.call(_PLANNED, *asked, seconds=LONGEST + SECONDS)
        except PoolFailed as error:
            log.warning("planning in this process: %s", error)
            return found or simulate(question), None
        return restored(answer[0], question), answer[1]


def is_worth_it(plan: Plan) -> bool:
    """False if no cheaper plan can exist: a single pod already has its cheapest node and could not join another."""
    return any(len(claim.pods) > 1 for claim in plan.claims)


def light(question: Question) -> Question:
    """Returns the input with pods reduced to the fields that planning reads."""
    peers = _Peers(question)
    return replace(
        question,
        pods=[_light(pod) for pod in question.pods],
        places=[replace(place, pods=peers.of(place)) for place in question.places],
        others=[replace(place, pods=peers.of(place)) for place in question.others],
    )


def restored(plan: Plan, question: Question) -> Plan:
    """Replaces the stripped pods of the results by those of the input."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in question.pods}

    def pod(bare: Object) -> Object:
        return by_uid[bare["metadata"]["uid"]]

    return replace(
        plan,
        claims=tuple(replace(claim, pods=tuple(pod(each) for each in claim.pods)) for claim in plan.claims),
        nominations=tuple((pod(each), kind, name) for each, kind, name in plan.nominations),
        failures=tuple((pod(each), reason) for each, reason in plan.failures),
        waiting=tuple((pod(each), reason) for each, reason in plan.waiting),
    )


class _Peers:
    """Pods already on nodes. Pods that no selector can distinguish share one object, which is sent once."""

    def __init__(self, question: Question) -> None:
        self._keys = selector_keys(question)
        self._looked_at = any(_ASKS & pod["spec"].keys() for pod in question.pods)
        self._moving = {pod["metadata"]["uid"] for pod in question.pods}
        self._known: dict[object, Object] = {}

    def of(self, place: Place) -> list[Object]:
        """Pods of the node without those that are rescheduled or irrelevant."""
        return [self._peer(pod) for pod in place.pods if self._stays(pod)]

    def _stays(self, pod: Object) -> bool:
        if not self._looked_at and not opposing_terms(pod):
            return False
        metadata = pod["metadata"]
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return not ended and "deletionTimestamp" not in metadata and metadata["uid"] not in self._moving

    def _peer(self, pod: Object) -> Object:
        namespace, labels = pod["metadata"].get("namespace", ""), signature(pod["metadata"].get("labels"), self._keys)
        terms = opposing_terms(pod)
        name = (namespace, labels, orjson.dumps(terms) if terms else b"")
        known = self._known.get(name)
        if known is None:
            spec = {"affinity": {"podAntiAffinity": {REQUIRED: terms}}} if terms else {}
            metadata = {"namespace": namespace, "labels": dict(labels), "uid": ""}
            known = self._known[name] = {"metadata": metadata, "spec": spec}
        return known


def _light(pod: Object) -> Object:
    spec = pod.get("spec") or {}
    kept = _some(spec, _SPEC)
    for name in ("containers", "initContainers"):
        if spec.get(name):
            kept[name] = [_some(container, _CONTAINER) for container in spec[name]]
    return {"metadata": _some(pod["metadata"], _METADATA), "spec": kept}


def _some(of: Object, names: Iterable[str]) -> Object:
    return {name: of[name] for name in names if name in of}
