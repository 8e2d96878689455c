"""Converts the scheduler's state to Results: claims with types by price, pod constraints and failure reasons.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import Resources, add
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, RESERVED
from shoal.provision.simulation.equivalence import EquivalenceClass
from shoal.provision.simulation.failure_reasons import FailureReasons
from shoal.provision.simulation.model import STRICT, NewNodeClaim, NodePoolInput, PodConstraints, Results
from shoal.provision.simulation.nodeclaim_template import SIMULATED_LABELS, NodeClaimTemplate
from shoal.provision.simulation.nodes import InFlightNodeClaim
from shoal.provision.simulation.requirement_state import RequirementState, requirement_in
from shoal.provision.simulation.scheduler import Scheduler
from shoal.provision.simulation.topology_group import AFFINITY, ANTI_AFFINITY, SPREAD

Object = dict[str, Any]

MAX_INSTANCE_TYPES = 600
"""Maximum number of types in a claim; the cheapest are kept."""
MIN_VALUES_ERROR = "minValues requirement is not met by the cheapest instance types of the NodeClaim"


def build_results(scheduler: Scheduler) -> Results:
    finalizer = _ClaimFinalizer(scheduler)
    claims, failures, constraints = [], [], dict[str, PodConstraints]()
    for claim in scheduler.node_claims.all:
        new_claim = finalizer.new_claim(claim)
        if new_claim is None:
            message = f'incompatible with nodepool "{claim.template.name}", {MIN_VALUES_ERROR}'
            failures += [(pod, message) for pod, _ in claim.pods]
            continue
        claims.append(new_claim)
        for pod, pod_class in claim.pods:
            constraints[pod["metadata"]["uid"]] = finalizer.constraints(pod_class, claim.state)
    reasons, waiting = FailureReasons(scheduler), []
    for pod, pod_data, message in scheduler.failures:
        if pod_data is not None and message:
            waiting.append((pod, message))
        else:
            failures.append((pod, message if pod_data is None else reasons.reason_of(pod_data)))
    nominations = tuple((pod, spot.existing.kind, spot.existing.name) for pod, spot in scheduler.nominations)
    return Results(tuple(claims), nominations, tuple(failures), constraints, tuple(waiting))


class _ClaimFinalizer:
    """Caches by state: equal claims share their computed fields, as there may be thousands."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._finalized: dict[Any, tuple[tuple[str, ...], Requirements, float, Resources]] = {}
        self._constraints: dict[tuple[EquivalenceClass, RequirementState], PodConstraints] = {}

    def new_claim(self, claim: InFlightNodeClaim) -> NewNodeClaim | None:
        key = (claim.state, claim.types, claim.min_values, claim.reservations)
        finalized = self._finalized.get(key)
        if finalized is None:
            finalized = self._finalized[key] = self._finalize(claim)
        types, requirements, price, overhead = finalized
        if not types:
            return None
        if claim.template.has_limited_offerings:
            type_index, offering = self._scheduler.offering_capacity.final_offering(claim)
            first, price = claim.template.types[type_index].name, offering.price
            types = (first, *(name for name in types if name != first))
        pods = tuple(pod for pod, _ in claim.pods)
        return NewNodeClaim(
            pool=claim.template.name,
            name=claim_name(claim.template.pool, pods),
            types=types,
            requirements=requirements,
            requests=add(claim.requests, overhead),
            pods=pods,
            price=price,
            min_values_relaxed=claim.min_values_relaxed,
            taints=claim.template.offering_taints,
            labels=open_label_values(claim.template, requirements),
        )

    def _finalize(self, claim: InFlightNodeClaim) -> tuple[tuple[str, ...], Requirements, float, Resources]:
        template, requirements_left = claim.template, claim.state.requirements.without(*SIMULATED_LABELS)
        if claim.reservations:
            pins = [requirement_in(CAPACITY_TYPE, (RESERVED,)), requirement_in(RESERVATION_ID, claim.reservations)]
            requirements_left = requirements_left.without(CAPACITY_TYPE).add(pins)
        state = template.state(requirements_left)
        ordered = [(price, number) for price, number in template.prices(state) if claim.types >> number & 1]
        ordered = ordered[:MAX_INSTANCE_TYPES]
        mask = sum(1 << number for _, number in ordered)
        has_min_values = all(template.value_count(key, mask) >= least for key, least in claim.min_values)
        if not ordered or (not has_min_values and self._scheduler.inputs.min_values_policy == STRICT):
            return (), requirements_left, 0.0, {}
        types = tuple(template.types[number].name for _, number in ordered)
        capacity_types = {
            template.offerings[n][1].labels.get(CAPACITY_TYPE) for n in template.offerings_of(state, mask)
        }
        known_capacity_types = frozenset(each for each in capacity_types if each)
        pins = [
            requirement_in(INSTANCE_TYPE, types),
            *([requirement_in(CAPACITY_TYPE, known_capacity_types)] if known_capacity_types else []),
        ]
        requirements = _with_min_values(requirements_left.add(pins), claim.min_values)
        return (
            types,
            requirements,
            ordered[0][0],
            _common_overhead([template.overheads[number] for _, number in ordered]),
        )

    def constraints(self, pod_class: EquivalenceClass, state: RequirementState) -> PodConstraints:
        constraints = self._constraints.get((pod_class, state))
        if constraints is None:
            constraints = self._constraints[pod_class, state] = self._build_constraints(pod_class, state)
        return constraints

    def _build_constraints(self, pod_class: EquivalenceClass, state: RequirementState) -> PodConstraints:
        counted = pod_class.counted_groups(self._scheduler.topology)
        keys = {
            group.key for group in (*pod_class.own_groups, *pod_class.inverse_groups, *counted) if not group.by_host
        }
        keys |= {key for each in pod_class.pod_data.volumes for key in each}
        pod_labels = (pod_class.pod_data.namespace, pod_class.pod_data.labels)
        keys |= {
            group.key
            for group in self._scheduler.topology.inverse_groups
            if not group.by_host and group.selects(*pod_labels)
        }
        pins = [state.requirements[key] for key in sorted(keys) if key in state.requirements]
        hosts = [group for group in pod_class.own_groups if group.by_host]
        limits = [(group.index, group.max_skew) for group in hosts if group.kind == SPREAD]
        limits += [(group.index, int(group in counted)) for group in hosts if group.kind == ANTI_AFFINITY]
        has_affinity = any(group.kind == AFFINITY for group in hosts) or any(
            group.kind == AFFINITY for group in counted if group.by_host
        )
        return PodConstraints(
            requirements=pod_class.constraints.requirements.add(pins),
            tolerations=pod_class.pod_data.relaxations[pod_class.relaxation].tolerations,
            host_limits=tuple(limits),
            host_topologies=frozenset(group.index for group in counted if group.by_host),
            fixed_to_claim=has_affinity,
        )


def open_label_values(template: NodeClaimTemplate, requirements: Requirements) -> dict[str, str]:
    """Chooses one value for each label that the pool leaves open. No instance type determines it, so the provisioner
    sets it.
    """
    undecided = (
        each for each in requirements.values() if each.key not in template.allow_undefined and not each.allows_absent
    )
    return {each.key: each.any_value() or _satisfying_number(each) for each in undecided if not each.is_impossible}


def _satisfying_number(requirement: Requirement) -> str:
    """Value for requirements that any value satisfies, such as Exists: pods that require the label need the node to
    have it.
    """
    return next(str(number) for number in range(len(requirement.values) + 1) if requirement.has(str(number)))


def claim_name(pool: NodePoolInput, pods: Sequence[Object]) -> str:
    """Deterministic for the same pods, so that a NodeClaim of an interrupted attempt is not created twice. A pod that
    leaves a node counts as different from the same pod without a node.
    """
    pod_keys = sorted(f"{pod['metadata']['uid']} {(pod.get('spec') or {}).get('nodeName') or ''}" for pod in pods)
    text = "\n".join([pool.node_pool["metadata"].get("uid", ""), *pod_keys])
    return f"{pool.name[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _with_min_values(requirements: Requirements, min_values: Sequence[tuple[str, int]]) -> Requirements:
    """Sets minValues as relaxed."""
    amounts = dict(min_values)
    return Requirements(
        replace(each, min_values=amounts[each.key]) if each.key in amounts else each for each in requirements.values()
    )


def _common_overhead(overheads: Sequence[Resources]) -> Resources:
    """Resources that every overhead has, each at its minimum."""
    names = set.intersection(*(set(each) for each in overheads))
    return {name: min(each[name] for each in overheads) for name in sorted(names)}
