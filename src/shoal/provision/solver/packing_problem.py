"""Translates the new claims of a plan to a packing instance: equal pods become items, offerings become options.

Pods stay in the topology domains in which the simulation counted them, and in pools of the same weight. Claims that
cannot be expressed in numbers stay fixed: pods with affinity to each other, reserved instances, relaxed minValues.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from shoal.fit.ports import HostPort, host_ports
from shoal.fit.requirements import NOT_IN, Requirements, new_requirement
from shoal.fit.resources import Resources, max_resources, pod_requests, subtract
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, HOSTNAME, RESERVED, nodepool_weight
from shoal.provision.cloudprovider.types import Offering
from shoal.provision.simulation.model import (
    NODES,
    NewNodeClaim,
    NodePoolInput,
    PodConstraints,
    Results,
    SchedulingInput,
)
from shoal.provision.simulation.nodeclaim_template import NodeClaimTemplate, build_templates
from shoal.provision.simulation.requirement_state import RequirementState
from shoal.provision.simulation.topology_group import ALL_EFFECTS
from shoal.provision.solver.instance import (
    Bools,
    Floats,
    Ints,
    PackedNode,
    Packing,
    PackingInstance,
    merge_equal_nodes,
    options_holding,
    packed_node,
)
from shoal.provision.solver.items import PackingItem, host_rules


def undominated_options(capacity: Ints, prices: Floats, allowed: Bools, limit_usage: Ints) -> Ints:
    """Indexes of the undominated options. `limit_usage`: q x k, as in an instance."""
    keys = [row.tobytes() for row in np.packbits(allowed, axis=1)]
    first = {key: number for number, key in reversed(list(enumerate(keys)))}
    number_of = {key: number for number, key in enumerate(first)}
    kind_of = np.asarray([number_of[key] for key in keys], np.int64)
    kinds = allowed[list(first.values())]
    # Whether the other kind may hold all items of the one.
    within = np.asarray([(~one | kinds).all(axis=1) for one in kinds], np.bool_).reshape(len(kinds), len(kinds))
    kept: list[int] = []
    for option in np.lexsort((-capacity.sum(axis=1), -allowed.sum(axis=1), prices)).tolist():
        if not allowed[option].any():
            continue
        others = np.asarray(kept, np.int64)
        better = within[kind_of[option]][kind_of[others]]
        better &= (capacity[others] >= capacity[option]).all(axis=1)
        better &= (limit_usage[:, others] <= limit_usage[:, [option]]).all(axis=0)
        if not better.any():
            kept.append(option)
    return np.sort(np.asarray(kept, np.int64))


Object = dict[str, Any]

NOT_RESERVED = Requirements([new_requirement(CAPACITY_TYPE, NOT_IN, [RESERVED])])
"""A pod that was not assigned a reserved instance does not get one by chance."""
_NODE_FEE_SHARE = 0.02
"""Fee per node, as a share of the cheapest node's price."""


@dataclass(frozen=True, slots=True)
class PackingOption:
    template: NodeClaimTemplate
    type_index: int
    offering: Offering


class PackingProblem:
    """`fixed_claims` stay unchanged; `instance` covers all others."""

    def __init__(self, inputs: SchedulingInput, plan: Results) -> None:
        self.inputs, self.plan = inputs, plan
        self.templates = build_templates(inputs)
        self._weights = {pool.name: nodepool_weight(pool.node_pool) for pool in inputs.node_pools}
        self._template_by_taints = {(each.name, _taint_key(each.offering_taints)): each for each in self.templates}
        self.binding_limits = {pool.name: self._binding_limits(pool) for pool in inputs.node_pools}
        """Limits of pools that could be reached."""
        self.fixed_claims = [claim for claim in plan.new_node_claims if not self._is_free(claim)]
        self.free_claims = [claim for claim in plan.new_node_claims if self._is_free(claim)]
        self._build()
        nodes = [(claim, self._node_of(claim)) for claim in self.free_claims]
        self._fix_claims([claim for claim, packed in nodes if packed is None])
        self.incumbent_nodes = [(claim, packed) for claim, packed in nodes if packed is not None]
        """The plan's claims as nodes of the instance."""
        self.incumbent: Packing = merge_equal_nodes((packed, 1) for _, packed in self.incumbent_nodes)

    def _build(self) -> None:
        self.items, self._item_of = self._group_pods(self.free_claims)
        self._states = [[self._state_with(each, item) for item in self.items] for each in self.templates]
        options = list(self._options())
        names = sorted({name for item in self.items for name in item.requests})
        capacity = np.asarray([[_free_resources(each).get(name, 0) for name in names] for each in options], np.int64)
        capacity = capacity.reshape(len(options), len(names))
        prices = np.asarray([each.offering.price for each in options], np.float64)
        allowed = self._allowed_items(options)
        usage, limits = self._limit_matrix(options)
        kept = undominated_options(capacity, prices, allowed, usage)
        self.options = [options[number] for number in kept.tolist()]
        pool_of_option = np.asarray([each.template.name for each in self.options])
        self._options_of_pool = {each.name: np.flatnonzero(pool_of_option == each.name) for each in self.templates}
        counted, most = host_rules(self.items, allowed[kept])
        self.instance = PackingInstance(
            requests=np.asarray(
                [[item.requests.get(name, 0) for name in names] for item in self.items], np.int64
            ).reshape(len(self.items), len(names)),
            counts=np.asarray([len(item.pods) for item in self.items], np.int64),
            capacity=capacity[kept],
            prices=prices[kept],
            allowed=allowed[kept],
            counted=counted,
            node_limits=most,
            limit_usage=usage[:, kept],
            limits=limits,
            node_fee=_NODE_FEE_SHARE * float(prices[kept].min(initial=0.0)),
        )

    def _fix_claims(self, fixed: Sequence[NewNodeClaim]) -> None:
        """Fixes further claims: the simulation allowed something that the instance forbids."""
        if not fixed:
            return
        self.fixed_claims += fixed
        self.free_claims = [claim for claim in self.free_claims if not any(claim is each for each in fixed)]
        fixed_uids = {_uid(pod) for claim in fixed for pod in claim.pods}
        for item in self.items:
            item.pods = [pod for pod in item.pods if _uid(pod) not in fixed_uids]
        counts = np.asarray([len(item.pods) for item in self.items], np.int64)
        self.instance = replace(self.instance, counts=counts, limits=self._limit_matrix(self.options)[1])

    def _is_free(self, claim: NewNodeClaim) -> bool:
        template = self._template_by_taints.get((claim.pool, _taint_key(claim.taints)))
        pinned = claim.requirements.get(CAPACITY_TYPE)
        return (
            template is not None
            and not claim.min_values_relaxed
            and not (template.min_values and self.binding_limits[template.name])
            and not (pinned is not None and not pinned.complement and pinned.values == {RESERVED})
            and all(
                uid in self.plan.pod_constraints and not self.plan.pod_constraints[uid].fixed_to_claim
                for uid in map(_uid, claim.pods)
            )
        )

    def _group_pods(self, claims: Sequence[NewNodeClaim]) -> tuple[list[PackingItem], dict[str, int]]:
        items: list[PackingItem] = []
        index_by_key: dict[Any, int] = {}
        key_by_id: dict[int, Any] = {}
        item_of: dict[str, int] = {}
        for claim in claims:
            pool_weight = self._weights[claim.pool]
            for pod in claim.pods:
                constraints = self.plan.pod_constraints[_uid(pod)]
                constraints_key = key_by_id.get(id(constraints))
                if constraints_key is None:
                    constraints_key = key_by_id[id(constraints)] = _constraints_key(constraints)
                requests, ports = pod_requests(pod), host_ports(pod)
                key = (pool_weight, tuple(sorted(requests.items())), ports, constraints_key)
                item_index = index_by_key.get(key)
                if item_index is None:
                    item_index = index_by_key[key] = len(items)
                    items.append(PackingItem(requests, constraints, ports, pool_weight))
                items[item_index].pods.append(pod)
                item_of[_uid(pod)] = item_index
        return items, item_of

    def _state_with(self, template: NodeClaimTemplate, item: PackingItem) -> RequirementState | None:
        """State of a template node with such a pod; None if incompatible."""
        if self._weights[template.name] != item.pool_weight:
            return None
        if first_untolerated(template.taints, item.constraints.tolerations, ALL_EFFECTS) is not None:
            return None
        return template.narrow(template.empty_state, item.constraints.requirements.without(HOSTNAME))

    def _options(self) -> Iterable[PackingOption]:
        for number, template in enumerate(self.templates):
            states = [each for each in self._states[number] if each is not None]
            for kind, offering in template.offerings if states else ():
                flexible = not template.min_values or _has_min_values(template, kind, states)
                if offering.available and flexible and offering.labels.get(CAPACITY_TYPE) != RESERVED:
                    yield PackingOption(template, kind, offering)

    def _allowed_items(self, options: Sequence[PackingOption]) -> Bools:
        allowed = np.zeros((len(options), len(self.items)), np.bool_)
        rows = {(id(each.template), each.type_index, id(each.offering)): row for row, each in enumerate(options)}
        cache: dict[tuple[RequirementState, frozenset[HostPort]], list[int]] = {}
        for template, states in zip(self.templates, self._states, strict=True):
            for number, (item, state) in enumerate(zip(self.items, states, strict=True)):
                if state is None:
                    continue
                matching_rows = cache.get((state, item.ports))
                if matching_rows is None:
                    types = (
                        template.all_types & ~template.types_with_port_conflict(item.ports)
                        if item.ports
                        else template.all_types
                    )
                    offers = [template.offerings[each] for each in template.offerings_of(state, types)]
                    keys = [(id(template), kind, id(offering)) for kind, offering in offers]
                    matching_rows = cache[state, item.ports] = [rows[key] for key in keys if key in rows]
                allowed[matching_rows, number] = True
        return allowed

    def _limit_matrix(self, options: Sequence[PackingOption]) -> tuple[Ints, Ints]:
        """Limits of the pools, and of offerings with a remaining count."""
        usage: list[list[int]] = []
        limits: list[int] = []
        for pool in self.inputs.node_pools:
            for name in self.binding_limits[pool.name]:
                usage.append([_limit_usage(each, name) if each.template.name == pool.name else 0 for each in options])
                fixed = sum(self._max_usage(each, name) for each in self.fixed_claims if each.pool == pool.name)
                limits.append(pool.limits[name] - pool.usage.get(name, 0) - fixed)
        remaining = {
            each.offering.name: each.offering.remaining for each in options if each.offering.remaining is not None
        }
        fixed_counts = self._fixed_offering_counts() if remaining else {}
        for name, count in remaining.items():
            usage.append([int(each.offering.name == name) for each in options])
            limits.append(count - fixed_counts.get(name, 0))
        table = np.asarray(usage, np.int64).reshape(len(limits), len(options))
        return table, np.maximum(np.asarray(limits, np.int64), 0)

    def _binding_limits(self, pool: NodePoolInput) -> tuple[str, ...]:
        """Limits that one node of the largest type per pod would exceed."""
        nodes = sum(len(claim.pods) for claim in self.plan.new_node_claims)
        largest = {**max_resources(each.capacity for each in pool.types), NODES: 1}
        remaining = subtract(pool.limits, pool.usage)
        return tuple(name for name in pool.limits if remaining[name] < nodes * largest.get(name, 0))

    def _max_usage(self, claim: NewNodeClaim, name: str) -> int:
        """Maximum usage of a limit by a fixed claim over its types."""
        template = self._template_by_taints[claim.pool, _taint_key(claim.taints)]
        if name == NODES:
            return 1
        return max((each.capacity.get(name, 0) for each in template.types if each.name in claim.types), default=0)

    def _fixed_offering_counts(self) -> dict[str, int]:
        """Offerings used by the fixed claims, assuming the cheapest matching one for each."""
        counts: dict[str, int] = {}
        for claim in self.fixed_claims:
            template = self._template_by_taints[claim.pool, _taint_key(claim.taints)]
            matching = [
                offering
                for kind, offering in template.offerings
                if offering.available
                and template.types[kind].name in claim.types
                and all(
                    claim.requirements[key].has(value)
                    for key, value in offering.labels.items()
                    if key in claim.requirements
                )
            ]
            if matching:
                name = min(matching, key=lambda each: (each.price, each.name)).name
                counts[name] = counts.get(name, 0) + 1
        return counts

    def _node_of(self, claim: NewNodeClaim) -> PackedNode | None:
        """Node of the instance that equals the claim; None if there is none."""
        contents = np.zeros(len(self.items), np.int64)
        for pod in claim.pods:
            contents[self._item_of[_uid(pod)]] += 1
        options = self._options_of_pool[claim.pool]
        feasible = options[options_holding(self.instance, options, contents)]
        if not len(feasible):
            return None
        cheapest = int(feasible[self.instance.prices[feasible].argmin()])
        return packed_node(cheapest, contents) if self.instance.prices[cheapest] <= claim.price * (1 + 1e-9) else None


def _has_min_values(template: NodeClaimTemplate, kind: int, states: Iterable[RequirementState]) -> bool:
    """True if enough other types can hold whatever this type holds to satisfy minValues."""
    space = subtract(template.types[kind].allocatable, template.overheads[kind])
    larger_types = 0
    for number, other in enumerate(template.types):
        other_space = subtract(other.allocatable, template.overheads[number])
        if all(other_space.get(name, 0) >= amount for name, amount in space.items()):
            larger_types |= 1 << number
    for state in states:
        larger_types &= state.mask
    return all(template.value_count(key, larger_types) >= least for key, least in template.min_values)


def _free_resources(option: PackingOption) -> Resources:
    return subtract(option.template.types[option.type_index].allocatable, option.template.overheads[option.type_index])


def _limit_usage(option: PackingOption, name: str) -> int:
    return 1 if name == NODES else option.template.types[option.type_index].capacity.get(name, 0)


def _constraints_key(constraints: PodConstraints) -> Any:
    """Equal for equal constraints."""
    tolerations = orjson.dumps(constraints.tolerations, option=orjson.OPT_SORT_KEYS)
    return (
        frozenset(constraints.requirements.values()),
        tolerations,
        constraints.host_limits,
        constraints.host_topologies,
    )


def _taint_key(taints: Iterable[Object]) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
