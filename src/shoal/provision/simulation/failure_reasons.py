"""Explains why a pod gets no node, as specifically as one check of the pools and their types allows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.fit.requirements import Requirements
from shoal.fit.resources import fits, to_quantities
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import nodepool_weight
from shoal.provision.simulation.model import NODES, NodePoolInput
from shoal.provision.simulation.nodeclaim_template import NodeClaimTemplate
from shoal.provision.simulation.preferences import PodData, required_node_requirements
from shoal.provision.simulation.scheduler import Scheduler
from shoal.provision.simulation.topology_group import ALL_EFFECTS

Object = dict[str, Any]

MAX_TYPES = 5
"""Instance types that a reason names."""


class FailureReasons:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cache: dict[int, str] = {}

    def reason_of(self, pod_data: PodData) -> str:
        reason = self._cache.get(id(pod_data))
        if reason is None:
            pools = sorted(
                self._scheduler.inputs.node_pools, key=lambda each: (-nodepool_weight(each.node_pool), each.name)
            )
            pool_reasons = [
                f'incompatible with nodepool "{pool.name}", {self._pool_reason(pod_data, pool)}' for pool in pools
            ]
            reason = self._cache[id(pod_data)] = "; ".join(pool_reasons) or "no NodePool is ready"
        return reason

    def _pool_reason(self, pod_data: PodData, pool: NodePoolInput) -> str:
        templates = [template for template in self._scheduler.templates if template.pool is pool]
        if not templates:
            return "it has no instance types"
        reasons = [self._template_reason(pod_data, template) for template in templates]
        return max(reasons)[1]

    def _template_reason(self, pod_data: PodData, template: NodeClaimTemplate) -> tuple[int, str]:
        """Returns how many checks passed, and the reason of the first failure."""
        preferences = pod_data.relaxations[-1]
        taint = first_untolerated(template.taints, preferences.tolerations, ALL_EFFECTS)
        if taint is not None:
            return 1, f"did not tolerate taint {taint_text(taint)}"
        if not template.types:
            return 0, "the requests of DaemonSets exceed each of its instance types"
        with_room = template.free_resources.with_room_for(pod_data.requests, {})
        if not template.all_types:
            sold_out = template.matching_types(template.requirements)
            if sold_out:
                return 0, _unavailable_reason(template, pod_data, [sold_out], with_room)
            return 0, "no instance type satisfies its requirements"
        if any(template.value_count(key, template.all_types) < least for key, least in template.min_values):
            return 0, "minValues requirement is not met by its instance types"
        pod_requirements = required_node_requirements(pod_data.node_selector, preferences)
        state = template.empty_state.narrow(pod_requirements)
        if state is None:
            return 2, f"incompatible requirements, {_requirement_conflict(template, pod_requirements)}"
        with_volumes = [state.narrow(each) for each in pod_data.volumes] if pod_data.volumes else [state]
        states = [each for each in with_volumes if each is not None]
        if not states:
            return 3, "incompatible with the zones of its volumes"
        type_masks = [each.mask & template.all_types for each in states]
        matching = [template.matching_types(each.requirements) for each in states]
        if not any(type_masks):
            if any(matching):
                return 4, _unavailable_reason(template, pod_data, matching, with_room)
            return 4, f"no instance type meets all requirements, {pod_requirements}"
        if not any(each & with_room for each in type_masks):
            return 5, _unavailable_reason(template, pod_data, matching, with_room)
        with_room &= ~template.types_with_port_conflict(pod_data.ports) if pod_data.ports else -1
        if not any(each & with_room for each in type_masks):
            ports = ", ".join(sorted(f"{each.port}/{each.protocol}" for each in pod_data.ports))
            return 5, f"DaemonSets use its host ports on each instance type: {ports}"
        remaining = self._scheduler.remaining_limits[template.name]
        if remaining.get(NODES, 1) <= 0:
            return 6, f'node limits have been exhausted for nodepool: "{template.name}"'
        within_limits = template.capacity.within(remaining)
        if not any(each & with_room & within_limits for each in type_masks):
            return 6, f'all available instance types exceed limits for nodepool: "{template.name}"'
        pod_class = self._scheduler.pod_classes.initial_class(pod_data)
        groups = sorted({f"{group.kind} by {group.key}" for group in pod_class.own_groups})
        if groups or self._is_excluded(pod_data):
            return 7, f"unsatisfiable topology constraint: {', '.join(groups) or 'pod anti-affinity of other pods'}"
        if template.min_values:
            return 7, "minValues requirement is not met by its instance types"
        return 7, f"no instance type has enough remaining resources for {_requests_text(pod_data)}"

    def _is_excluded(self, pod_data: PodData) -> bool:
        return any(
            group.selects(pod_data.namespace, pod_data.labels) for group in self._scheduler.topology.inverse_groups
        )


def _unavailable_reason(
    template: NodeClaimTemplate, pod_data: PodData, type_masks: Sequence[int], with_room: int
) -> str:
    """Names the types that would hold the pod, none of which is available. Without such a type the pod is too large,
    whatever is sold out.
    """
    names = sorted(
        {
            each.name
            for number, each in enumerate(template.types)
            if any((m & with_room) >> number & 1 for m in type_masks)
        }
    )
    if not names:
        return _room_reason(template, pod_data, type_masks)
    more = f" and {len(names) - MAX_TYPES} more" if len(names) > MAX_TYPES else ""
    return f"sold out, or at the maximum number of machines: {', '.join(names[:MAX_TYPES])}{more}"


def _requests_text(pod_data: PodData) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(to_quantities(pod_data.requests).items()))


def _room_reason(template: NodeClaimTemplate, pod_data: PodData, type_masks: Sequence[int]) -> str:
    """Tells a pod that is too large from one that is too large beside the DaemonSets."""
    reason = f"no instance type has enough resources for {_requests_text(pod_data)}"
    for number, each in enumerate(template.types):
        if any(mask >> number & 1 for mask in type_masks) and fits(pod_data.requests, each.allocatable):
            overhead = ", ".join(
                f"{key}={value}" for key, value in sorted(to_quantities(template.overheads[number]).items())
            )
            return f"{reason} beside DaemonSets, which use {overhead} of {each.name}"
    return reason


def _requirement_conflict(template: NodeClaimTemplate, pod_requirements: Requirements) -> str:
    return "; ".join(template.requirements.conflicts(pod_requirements, template.allow_undefined))


def taint_text(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
