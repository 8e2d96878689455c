"""NodeClaim templates: a NodePool's requirements, taints and types, with DaemonSet overhead subtracted.

Offerings of a pool with their own taints form a separate template for each set of taints, because a claim is for one of
them. Sets of types and offerings are integers with one bit per element. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.ports import HostPort, host_ports, ports_conflict
from shoal.fit.requirements import (
    DOES_NOT_EXIST,
    Requirement,
    Requirements,
    from_expressions,
    from_labels,
    new_requirement,
)
from shoal.fit.resources import Resources, add_to, pod_requests, subtract
from shoal.fit.taints import HARD_EFFECTS, first_untolerated
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    INITIALIZED_LABEL,
    NODE_CLASS_LABEL,
    NODE_POOL_LABEL,
    REGISTERED_LABEL,
    RESERVED,
    WELL_KNOWN_LABELS,
    node_class_ref,
    nodepool_template_labels,
    nodepool_template_spec,
    nodepool_weight,
)
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.simulation.model import IGNORE, NodePoolInput, SchedulingInput
from shoal.provision.simulation.preferences import new_pod_data, normalize, required_node_requirements
from shoal.provision.simulation.requirement_state import RequirementState, requirement_in
from shoal.provision.simulation.threshold_bitmaps import ResourceBitmaps

Object = dict[str, Any]

SIMULATED_LABELS = (REGISTERED_LABEL, INITIALIZED_LABEL)
"""Labels that a node will have when it is ready. Only DaemonSets select them."""


class NodeClaimTemplate:
    """Origin of new nodes. `empty_state` is the state of a node without pods."""

    def __init__(
        self,
        pool: NodePoolInput,
        types: Sequence[InstanceType],
        offering_taints: tuple[Object, ...],
        daemons: Sequence[DaemonOverhead],
    ):
        self.pool, self.name, self.offering_taints = pool, pool.name, offering_taints
        self.taints: Sequence[Object] = (
            *(nodepool_template_spec(pool.node_pool).get("taints") or ()),
            *offering_taints,
        )
        self.requirements = pool_requirements(pool.node_pool)
        self.allow_undefined = WELL_KNOWN_LABELS | {key for each in types for key in _label_keys(each)}
        types = _with_absent_labels(types, self.allow_undefined - WELL_KNOWN_LABELS - set(self.requirements))
        tolerating = [each for each in daemons if each.tolerates(self.taints)]
        overheads = [_type_overhead(each, self, tolerating) for each in types]
        fitting = [
            (each, overhead_of_type, ports)
            for each, (overhead_of_type, ports) in zip(types, overheads, strict=True)
            if all(amount >= 0 for amount in subtract(each.allocatable, overhead_of_type).values())
        ]
        self.types = [each for each, _, _ in fitting]
        self.overheads = [overhead_of_type for _, overhead_of_type, _ in fitting]
        self.ports = [ports for _, _, ports in fitting]
        self.free_resources = ResourceBitmaps(
            [subtract(each.allocatable, overhead_of_type) for each, overhead_of_type, _ in fitting]
        )
        self.capacity = ResourceBitmaps([each.capacity for each in self.types])
        self.offerings = [(number, each) for number, kind in enumerate(self.types) for each in kind.offerings]
        self._offerings_of_type = _offering_masks(self.offerings, len(self.types))
        self._available = _bits(n for n, (_, each) in enumerate(self.offerings) if each.available)
        self.has_limited_offerings = any(each.remaining is not None for _, each in self.offerings)
        self.reserved_offerings = _bits(
            n
            for n, (_, each) in enumerate(self.offerings)
            if each.available and each.labels.get(CAPACITY_TYPE) == RESERVED
        )
        self._unlimited_offerings = _bits(n for n, (_, each) in enumerate(self.offerings) if each.remaining is None)
        self._unlimited_types: dict[RequirementState, int] = {}
        self._types_by_requirement: dict[str, dict[Requirement, int]] = {}
        self._offerings_by_label: dict[str, dict[str, int]] = {}
        self._offerings_without_label: dict[str, int] = {}
        self._index()
        self._match_cache: dict[Requirement, tuple[int, int]] = {}
        self._states: dict[frozenset[Requirement], RequirementState] = {}
        self._offerings_by_state: dict[RequirementState, int] = {}
        self._prices: dict[RequirementState, list[tuple[float, int]]] = {}
        min_values = ((each.key, each.min_values) for each in self.requirements.values() if each.min_values)
        self.min_values = tuple(sorted(min_values))
        self.empty_state = self.state(self.requirements)
        self.all_types = self.empty_state.mask & (1 << len(self.types)) - 1

    def state(self, requirements: Requirements) -> RequirementState:
        key = frozenset(requirements.values())
        state = self._states.get(key)
        if state is None:
            types, offers = -1, self._available
            for each in requirements.values():
                matching_types, matching_offerings = self._matching_masks(each)
                types, offers = types & matching_types, offers & matching_offerings
            state = self._states[key] = RequirementState(self, requirements, types & self._types_offering(offers))
            self._offerings_by_state[state] = offers
        return state

    def matching_types(self, requirements: Requirements) -> int:
        """Types that match, whether or not an offering of them is available."""
        types, offers = (1 << len(self.types)) - 1, -1
        for each in requirements.values():
            matching_types, matching_offerings = self._matching_masks(each)
            types, offers = types & matching_types, offers & matching_offerings
        return types & self._types_offering(offers)

    def narrow(self, state: RequirementState, requirements: Requirements) -> RequirementState | None:
        if not state.requirements.is_compatible(requirements, self.allow_undefined):
            return None
        return self.state(state.requirements.union(requirements))

    def pin(self, state: RequirementState, key: str, domains: frozenset[str]) -> RequirementState | None:
        pin = requirement_in(key, domains)
        current = state.requirements.get(key)
        if current is None and key not in self.allow_undefined:
            return None
        if current is not None:
            pin = replace(current.intersection(pin), min_values=current.min_values)
            if not pin.values:
                return None
        return self.state(state.requirements.without(key).add((pin,)))

    def offerings_of(self, state: RequirementState, types: int) -> list[int]:
        """Indexes of the offerings that match the state and these types."""
        mask = self._offerings_by_state[state]
        return [n for n, (number, _) in enumerate(self.offerings) if mask >> n & 1 and types >> number & 1]

    def unlimited_types(self, state: RequirementState) -> int:
        """Types that are available in this state without a count limit."""
        types = self._unlimited_types.get(state)
        if types is None:
            types = self._unlimited_types[state] = self._types_offering(
                self._offerings_by_state[state] & self._unlimited_offerings
            )
        return types

    def reservations(self, state: RequirementState, types: int) -> list[str]:
        """Reservation ids of the matching reserved offerings."""
        mask = self._offerings_by_state[state] & self.reserved_offerings
        names = []
        while mask:
            number = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            kind, offering = self.offerings[number]
            if types >> kind & 1:
                names.append(offering.reservation)
        return names

    def prices(self, state: RequirementState) -> list[tuple[float, int]]:
        """Price of the cheapest available offering and type index, cheapest first."""
        prices = self._prices.get(state)
        if prices is None:
            mask, lowest = self._offerings_by_state[state], dict[int, float]()
            for n, (number, offering) in enumerate(self.offerings):
                if mask >> n & 1 and offering.price < lowest.get(number, float("inf")):
                    lowest[number] = offering.price
            by_name = sorted(lowest, key=lambda number: self.types[number].name)
            prices = self._prices[state] = sorted(((lowest[number], number) for number in by_name), key=_price)
        return prices

    def value_count(self, key: str, types: int) -> int:
        """Number of distinct values of a label among these types."""
        distinct: set[str] = set()
        for each, mask in self._types_by_requirement.get(key, {}).items():
            if mask & types and not each.complement:
                distinct |= each.values
        return len(distinct)

    def types_with_port_conflict(self, ports: frozenset[HostPort]) -> int:
        """Types on which a DaemonSet pod uses one of these host ports."""
        return _bits(
            number
            for number, daemon_ports in enumerate(self.ports)
            if daemon_ports and ports_conflict(ports, daemon_ports)
        )

    def _index(self) -> None:
        for number, kind in enumerate(self.types):
            for key, each in kind.requirements.items():
                masks = self._types_by_requirement.setdefault(key, {})
                masks[each] = masks.get(each, 0) | 1 << number
        for number, (type_number, offering) in enumerate(self.offerings):
            for key, value in offering.labels.items():
                bits = self._offerings_by_label.setdefault(key, {})
                bits[value] = bits.get(value, 0) | 1 << number
            for key, each in self.types[type_number].requirements.items():
                if each.allows_absent and key not in offering.labels and key not in self.requirements:
                    self._offerings_without_label[key] = self._offerings_without_label.get(key, 0) | 1 << number

    def _matching_masks(self, requirement: Requirement) -> tuple[int, int]:
        """Bit sets of the types and offerings that do not contradict the requirement."""
        masks = self._match_cache.get(requirement)
        if masks is None:
            types = offers = -1
            for each, mask in self._types_by_requirement.get(requirement.key, {}).items():
                if not each.has_intersection(requirement):
                    types &= ~mask
            for value, mask in self._offerings_by_label.get(requirement.key, {}).items():
                if not requirement.has(value):
                    offers &= ~mask
            if not requirement.allows_absent:
                offers &= ~self._offerings_without_label.get(requirement.key, 0)
            masks = self._match_cache[requirement] = (types, offers)
        return masks

    def _types_offering(self, offers: int) -> int:
        """Types that have one of these offerings."""
        return _bits(number for number, span in enumerate(self._offerings_of_type) if offers & span)


def build_templates(inputs: SchedulingInput) -> list[NodeClaimTemplate]:
    """Returns the templates in the order in which they are tried: heaviest pool first, then descending by name."""
    result = []
    daemons = [daemon_overhead_of(each) for each in inputs.daemon_sets]
    pools = sorted(inputs.node_pools, key=lambda each: each.name, reverse=True)
    for pool in sorted(pools, key=lambda each: -nodepool_weight(each.node_pool)):
        taints_by_key: dict[tuple[tuple[str, ...], ...], tuple[Object, ...]] = {}
        for kind in pool.types:
            for offering in kind.offerings:
                taints_by_key.setdefault(_taint_key(offering.taints), offering.taints)
        for taint_key, offering_taints in sorted(taints_by_key.items()):
            types = [_with_offering_taints(kind, taint_key) for kind in pool.types]
            result.append(NodeClaimTemplate(pool, [each for each in types if each.offerings], offering_taints, daemons))
    return result


def pool_requirements(pool: Object) -> Requirements:
    """Requirements of a ready node, with all labels that the pool sets."""
    spec = nodepool_template_spec(pool)
    labels = {
        **nodepool_template_labels(pool),
        NODE_POOL_LABEL: pool["metadata"]["name"],
        **dict.fromkeys(SIMULATED_LABELS, "true"),
    }
    if node_class_ref(spec):
        labels[NODE_CLASS_LABEL] = node_class_ref(spec).get("name", "")
    return normalize(from_expressions(spec.get("requirements")).values()).union(from_labels(labels))


@dataclass(frozen=True, slots=True)
class DaemonOverhead:
    """Requests, ports and node selection of a DaemonSet's pods."""

    requests: Resources
    ports: frozenset[HostPort]
    tolerations: tuple[Object, ...]
    alternatives: tuple[Requirements, ...]

    def tolerates(self, taints: Sequence[Object]) -> bool:
        return first_untolerated(taints, self.tolerations, HARD_EFFECTS) is None


def daemon_overhead_of(daemon_set: Object) -> DaemonOverhead:
    pod = daemon_set["spec"]["template"]
    pod_data = new_pod_data({"metadata": {}, **pod}, {}, (), IGNORE)
    try:
        terms = pod_data.preferences.node_terms or ({},)
        alternatives = tuple(
            required_node_requirements(pod_data.node_selector, replace(pod_data.preferences, node_terms=(term,)))
            for term in terms
        )
    except ValueError:
        alternatives = ()
    return DaemonOverhead(pod_requests(pod), host_ports(pod), pod_data.preferences.tolerations, alternatives)


def daemon_requests(
    daemons: Iterable[DaemonOverhead], labels: Mapping[str, str], taints: Sequence[Object]
) -> Resources:
    """Requests of the DaemonSet pods on a node with these labels."""
    requests: Resources = {}
    for each in daemons:
        if each.tolerates(taints) and any(alternative.matches(labels) for alternative in each.alternatives):
            add_to(requests, each.requests)
    return requests


def _type_overhead(
    kind: InstanceType, template: NodeClaimTemplate, daemons: Iterable[DaemonOverhead]
) -> tuple[Resources, frozenset[HostPort]]:
    """Requests and host ports of the DaemonSet pods on a new node."""
    requests: Resources = {}
    ports: frozenset[HostPort] = frozenset()
    for each in daemons:
        if any(
            template.requirements.is_compatible(alternative, template.allow_undefined)
            and kind.requirements.intersects(alternative)
            for alternative in each.alternatives
        ):
            add_to(requests, each.requests)
            ports |= each.ports
    return requests, ports


def _label_keys(kind: InstanceType) -> set[str]:
    return set(kind.requirements).union(*(each.labels for each in kind.offerings))


def _with_absent_labels(types: Sequence[InstanceType], keys: frozenset[str]) -> Sequence[InstanceType]:
    """Labels of some machines, which the pool does not set, are not on the nodes of the others."""
    absent = [(each, [new_requirement(key, DOES_NOT_EXIST) for key in keys - _label_keys(each)]) for each in types]
    return [replace(kind, requirements=kind.requirements.add(more)) if more else kind for kind, more in absent]


def _with_offering_taints(kind: InstanceType, taints: tuple[tuple[str, ...], ...]) -> InstanceType:
    """The type with only the offerings that have these taints; the same object if that is all of them."""
    offerings = tuple(each for each in kind.offerings if _taint_key(each.taints) == taints)
    return kind if len(offerings) == len(kind.offerings) else replace(kind, offerings=offerings)


def _taint_key(taints: Iterable[Object]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _offering_masks(offerings: Sequence[tuple[int, Offering]], types: int) -> list[int]:
    spans = [0] * types
    for n, (number, _) in enumerate(offerings):
        spans[number] |= 1 << n
    return spans


def _bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _price(each: tuple[float, int]) -> float:
    return each[0]
