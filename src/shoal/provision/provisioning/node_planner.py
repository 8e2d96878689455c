"""Chooses where a plan is computed: in this process for few pods, in the solver process otherwise.

Only the pod fields that planning reads are sent, and only pod uids come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from shoal.provision.provisioning.planner_process import load_optimizer, may_be_improved, plan_in_process
from shoal.provision.settings import OPTIMAL
from shoal.provision.simulation.model import ExistingNode, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulation.topology import REQUIRED, anti_affinity_terms, selected_labels, selector_keys
from shoal.provision.solver.process import ITERATIONS, SECONDS, SolverFailed, SolverProcess
from shoal.provision.solver.report import OptimizationReport

log = logging.getLogger(__name__)

Object = dict[str, Any]

MAX_INLINE_PODS = 40
"""Up to this many pods are planned in this process, which takes some milliseconds."""
MAX_SECONDS = 60.0
"""Time limit in seconds for Karpenter's algorithm. Pods placed by then form the plan."""
_METADATA_FIELDS = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
_SPEC_FIELDS = (
    *("nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("overhead", "resources", "resourceClaims"),
)
_POD_SELECTOR_FIELDS = frozenset(("affinity", "topologySpreadConstraints"))
"""Fields in which pods select other pods."""
_CONTAINER_FIELDS = ("name", "resources", "ports", "restartPolicy")


class Planner:
    def __init__(self, planner: str, process: SolverProcess | None) -> None:
        self._optimal, self._process = planner == OPTIMAL, process

    def prepare(self) -> None:
        """Starts the solver process, because a plan that it will be asked for is near."""
        if self._process is not None:
            self._process.prepare(load_optimizer)

    async def plan(self, inputs: SchedulingInput) -> tuple[Results, OptimizationReport | None]:
        """Returns the plan, with a report if the solver tried to improve it."""
        inline = len(inputs.pods) <= MAX_INLINE_PODS
        plan = simulate(inputs) if inline or self._process is None else None
        if self._process is None:
            return plan or Results(), None
        if plan is not None and not (self._optimal and may_be_improved(plan)):
            return plan, None
        arguments = (trim_input(inputs), self._optimal, ITERATIONS, SECONDS, MAX_SECONDS)
        try:
            answer = await self._process.call(plan_in_process, *arguments, seconds=MAX_SECONDS + SECONDS)
        except SolverFailed as error:
            log.warning("solver process failed, planning in this process: %s", error)
            return plan or simulate(inputs), None
        return restore_pods(answer[0], inputs), answer[1]


def trim_input(inputs: SchedulingInput) -> SchedulingInput:
    """Returns the input with pods reduced to the fields that planning reads."""
    peers = _PeerPods(inputs)
    return replace(
        inputs,
        pods=[_trim_pod(pod) for pod in inputs.pods],
        existing_nodes=[replace(node, pods=peers.of(node)) for node in inputs.existing_nodes],
        draining_nodes=[replace(node, pods=peers.of(node)) for node in inputs.draining_nodes],
    )


def restore_pods(plan: Results, inputs: SchedulingInput) -> Results:
    """Replaces the stripped pods of the results by those of the input."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in inputs.pods}

    def pod(bare: Object) -> Object:
        return by_uid[bare["metadata"]["uid"]]

    return replace(
        plan,
        new_node_claims=tuple(
            replace(claim, pods=tuple(pod(each) for each in claim.pods)) for claim in plan.new_node_claims
        ),
        nominations=tuple((pod(each), kind, name) for each, kind, name in plan.nominations),
        failures=tuple((pod(each), reason) for each, reason in plan.failures),
        awaiting_reservation=tuple((pod(each), reason) for each, reason in plan.awaiting_reservation),
    )


class _PeerPods:
    """Pods already on nodes. Pods that no selector can distinguish share one object, which is sent once."""

    def __init__(self, inputs: SchedulingInput) -> None:
        self._keys = selector_keys(inputs)
        self._peers_matter = any(_POD_SELECTOR_FIELDS & pod["spec"].keys() for pod in inputs.pods)
        self._rescheduled = {pod["metadata"]["uid"] for pod in inputs.pods}
        self._cache: dict[object, Object] = {}

    def of(self, node: ExistingNode) -> list[Object]:
        """Pods of the node without those that are rescheduled or irrelevant."""
        return [self._peer_of(pod) for pod in node.pods if self._stays(pod)]

    def _stays(self, pod: Object) -> bool:
        if not self._peers_matter and not anti_affinity_terms(pod):
            return False
        metadata = pod["metadata"]
        is_terminal = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return not is_terminal and "deletionTimestamp" not in metadata and metadata["uid"] not in self._rescheduled

    def _peer_of(self, pod: Object) -> Object:
        namespace, labels = (
            pod["metadata"].get("namespace", ""),
            selected_labels(pod["metadata"].get("labels"), self._keys),
        )
        terms = anti_affinity_terms(pod)
        name = (namespace, labels, orjson.dumps(terms) if terms else b"")
        peer = self._cache.get(name)
        if peer is None:
            spec = {"affinity": {"podAntiAffinity": {REQUIRED: terms}}} if terms else {}
            metadata = {"namespace": namespace, "labels": dict(labels), "uid": ""}
            peer = self._cache[name] = {"metadata": metadata, "spec": spec}
        return peer


def _trim_pod(pod: Object) -> Object:
    spec = pod.get("spec") or {}
    trimmed = _pick(spec, _SPEC_FIELDS)
    for name in ("containers", "initContainers"):
        if spec.get(name):
            trimmed[name] = [_pick(container, _CONTAINER_FIELDS) for container in spec[name]]
    return {"metadata": _pick(pod["metadata"], _METADATA_FIELDS), "spec": trimmed}


def _pick(source: Object, names: Iterable[str]) -> Object:
    return {name: source[name] for name in names if name in source}
