"""Karpenter's scheduling algorithm: pods by size, each onto the first feasible node; new nodes keep all types that
still fit.

Existing nodes come first, then in-flight NodeClaims with the fewest pods, then a new NodeClaim of the heaviest feasible
NodePool. A pod that fits nowhere relaxes its preferences one by one. Then it is queued again as long as other pods are
still being placed. Pure. Pods with equal constraints share computed values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from shoal.fit.attachments import exceeds_limits
from shoal.fit.ports import ports_conflict
from shoal.fit.resources import CPU, MEMORY, add_to, fits, subtract_from
from shoal.fit.taints import PREFER_NO_SCHEDULE
from shoal.kinds.karpenter.karpenter import nodepool_template_spec
from shoal.provision.simulation.equivalence import EquivalenceClass, EquivalenceClasses
from shoal.provision.simulation.model import BEST_EFFORT, NODES, SchedulingInput
from shoal.provision.simulation.nodeclaim_template import NodeClaimTemplate, build_templates
from shoal.provision.simulation.nodes import InFlightNodeClaim, InFlightNodeClaims, SimulatedNode
from shoal.provision.simulation.preferences import PodData
from shoal.provision.simulation.requirement_state import RequirementState
from shoal.provision.simulation.reservations import OfferingCapacity, ReservationManager
from shoal.provision.simulation.scheduler_setup import SimulatedNodes, pod_data_by_uid, scheduling_order
from shoal.provision.simulation.topology import Topology, selector_keys
from shoal.provision.simulation.topology_group import ANTI_AFFINITY, TopologyGroup

Object = dict[str, Any]

PLACED = "placed"


class Scheduler:
    """One run of the algorithm. Its attributes hold the decisions."""

    def __init__(self, inputs: SchedulingInput) -> None:
        self.inputs = inputs
        self.templates = build_templates(inputs)
        nodes = scheduling_order(inputs.existing_nodes)
        keys = selector_keys(inputs)
        self.topology = Topology(inputs, nodes, keys)
        has_prefer_no_schedule = any(
            taint.get("effect") == PREFER_NO_SCHEDULE
            for pool in inputs.node_pools
            for taint in nodepool_template_spec(pool.node_pool).get("taints") or ()
        )
        self.pod_classes = EquivalenceClasses(self.topology, has_prefer_no_schedule)
        self.node_claims = InFlightNodeClaims()
        self.reservations, self.offering_capacity = ReservationManager(inputs), OfferingCapacity()
        self.remaining_limits = {
            pool.name: {name: amount - pool.usage.get(name, 0) for name, amount in pool.limits.items()}
            for pool in inputs.node_pools
        }
        """Remaining limits by NodePool."""
        self._within_limits: dict[str, dict[NodeClaimTemplate, int]] = {}
        self.nominations: list[tuple[Object, SimulatedNode]] = []
        self.failures: list[tuple[Object, PodData | None, str]] = []
        """Pod, its PodData (None for an invalid pod), and the reservation it waits for or the error; empty if there is
        neither.
        """
        self._progress = 0
        self.pod_data = pod_data_by_uid(inputs, keys)
        distinct = [each for each in {id(each): each for each in self.pod_data.values()}.values() if not each.error]
        for each in distinct:
            self.pod_classes.register_anti_affinity(each)
        for each in distinct:
            self.pod_classes.initial_class(each)
        self.nodes = SimulatedNodes(nodes, distinct, self.topology)

    def run(self, stop: Callable[[], bool]) -> None:
        queue: deque[Object] = deque()
        for pod in sorted(self.inputs.pods, key=self._sort_key):
            error = self.pod_data[pod["metadata"]["uid"]].error
            if error:
                self.failures.append((pod, None, error))
            elif not self._add_to_nominated_node(pod):
                queue.append(pod)
        queue_length_at: dict[str, int] = {}
        reservation_waits: dict[str, str] = {}
        while queue and not stop():
            pod = queue[0]
            uid = pod["metadata"]["uid"]
            if queue_length_at.get(uid) == len(queue):
                break  # every queued pod was tried since the last placement
            queue.popleft()
            reservation_waits[uid] = self._schedule(pod, self.pod_classes.initial_class(self.pod_data[uid]))
            if reservation_waits[uid] != PLACED:
                queue.append(pod)
                queue_length_at[uid] = len(queue)
        for pod in queue:
            uid = pod["metadata"]["uid"]
            self.failures.append((pod, self.pod_data[uid], reservation_waits.get(uid, "")))

    def _schedule(self, pod: Object, pod_class: EquivalenceClass) -> str:
        """Returns PLACED, or the reservation the pod waits for, or ""."""
        original = pod_class
        if original.failed_progress == self._progress:
            return original.failure
        while True:
            pod_class.constraints.refresh()
            if self._add_to_existing_node(pod, pod_class) or self._add_to_inflight_node(pod, pod_class):
                return PLACED
            reservation = self._add_to_new_node_claim(pod, pod_class)
            if reservation == PLACED:
                return PLACED
            relaxed = self.pod_classes.relax(pod_class) if not reservation else None
            if relaxed is None:
                original.failed_progress, original.failure = self._progress, reservation
                return reservation
            pod_class = relaxed

    def _add_to_nominated_node(self, pod: Object) -> bool:
        node = self.nodes.by_name.get(self.inputs.nominated.get(pod["metadata"]["uid"], ""))
        pod_class: EquivalenceClass | None = (
            self.pod_classes.initial_class(self.pod_data[pod["metadata"]["uid"]]) if node is not None else None
        )
        while pod_class is not None and node is not None:
            pod_class.constraints.refresh()
            if self._add_to_existing_node(pod, pod_class, node.bit):
                return True
            pod_class = self.pod_classes.relax(pod_class)
        return False

    def _add_to_existing_node(self, pod: Object, pod_class: EquivalenceClass, among: int = -1) -> bool:
        candidates, constraints = 0, pod_class.constraints
        for state, bits in self.nodes.by_state.items():
            if constraints.options(state):
                candidates |= bits
        candidates &= among & ~pod_class.rejected_nodes
        if not candidates:
            return False
        candidates &= constraints.allowed_hosts(0)
        if (pod.get("spec") or {}).get("nodeName"):
            candidates &= ~self.nodes.pending_pods_only
        attachments = self.inputs.attachments.get(pod["metadata"]["uid"], frozenset())
        while candidates:
            bit = candidates & -candidates
            node = self.nodes.all[bit.bit_length() - 1]
            hostname_allowed = constraints.hostname is None or constraints.hostname.has(node.hostname)
            if (
                hostname_allowed
                and fits(pod_class.requests, node.free)
                and not (pod_class.ports and ports_conflict(pod_class.ports, node.ports))
                and not exceeds_limits(node.existing.attach_limits, node.attachments, attachments)
            ):
                subtract_from(node.free, pod_class.requests)
                node.attachments |= attachments
                node.ports |= pod_class.ports
                self.nominations.append((pod, node))
                self._record_topology(pod_class, node.state, 0, bit, node.hostname)
                return True
            pod_class.rejected_nodes |= bit
            candidates ^= bit
        return False

    def _add_to_inflight_node(self, pod: Object, pod_class: EquivalenceClass) -> bool:
        constraints, candidates = pod_class.constraints, 0
        if not constraints.allows_inflight_nodes():
            return False
        refused = pod_class.rejected_claims
        for state, bits in self.node_claims.by_state.items():
            options = constraints.options(state)
            if options:
                candidates |= bits & ~refused.get(options, 0)
        if candidates:
            candidates &= constraints.allowed_hosts(1)
        if not candidates:
            return False
        for claim in self.node_claims.in_order(candidates):
            options = constraints.options(claim.state)
            permanent = True
            for state in options:
                types = (
                    claim.types
                    & state.mask
                    & claim.template.free_resources.with_room_for(pod_class.requests, claim.requests)
                )
                if (
                    not types
                    or not self._has_min_values(claim, types)
                    or (pod_class.ports and self._has_port_conflict(pod_class, claim, types))
                ):
                    continue
                if pod_class.ports:
                    types &= ~claim.template.types_with_port_conflict(pod_class.ports)
                permanent = False  # a reservation or offering that is taken now may be released
                if self._add(pod, pod_class, claim, state, types) == PLACED:
                    return True
            if permanent:
                refused[options] = refused.get(options, 0) | claim.bit
        return False

    def _add_to_new_node_claim(self, pod: Object, pod_class: EquivalenceClass) -> str:
        """Returns PLACED, or the reservation the pod waits for, or ""."""
        if not pod_class.constraints.allows_new_node():
            return ""
        for template in self.templates:
            within_limits = self._types_within_limits(template)
            reservation = ""
            for state in pod_class.constraints.options(template.empty_state) if within_limits else ():
                types = within_limits & state.mask & template.free_resources.with_room_for(pod_class.requests, {})
                if pod_class.ports:
                    types &= ~template.types_with_port_conflict(pod_class.ports)
                if not types:
                    continue
                claim = InFlightNodeClaim(len(self.node_claims.all), template, state, types)
                if not self._has_min_values(claim, types) and not self._relax_min_values(claim, types):
                    continue
                reservation = self._add(pod, pod_class, claim, state, types)
                if reservation == PLACED:
                    return PLACED
            if reservation:
                return reservation
        return ""

    def _add(
        self, pod: Object, pod_class: EquivalenceClass, claim: InFlightNodeClaim, state: RequirementState, types: int
    ) -> str:
        template = claim.template
        if template.reserved_offerings:
            reservations, reservation = self.reservations.available(claim, state, types)
            if reservation:
                return reservation
        if template.has_limited_offerings and not self.offering_capacity.assign(claim, state, types):
            return ""
        if template.reserved_offerings:
            self.reservations.reserve(claim, reservations)
        claim.types = types
        claim.pods.append((pod, pod_class))
        claim.ports |= pod_class.ports
        add_to(claim.requests, pod_class.requests)
        if claim.count:
            self.node_claims.on_pod_added(claim, state)
        else:
            self.node_claims.append(claim)
            self._subtract_max(template, types)
        self._record_topology(pod_class, state, 1, claim.bit, claim.hostname)
        return PLACED

    def _record_topology(
        self, pod_class: EquivalenceClass, state: RequirementState, origin: int, bit: int, hostname: str
    ) -> None:
        self._progress += 1
        taints = state.origin.taints
        for group in pod_class.counted_groups(self.topology):
            if group.counts_node(state, taints):
                self._count_pod(group, state, origin, bit, hostname)
        for group in pod_class.inverse_groups:
            self._count_pod(group, state, origin, bit, hostname)

    def _count_pod(self, group: TopologyGroup, state: RequirementState, origin: int, bit: int, hostname: str) -> None:
        """Anti-affinity counts every possible domain of the node. Other groups count only a domain that is certain."""
        if group.by_host:
            group.record_host(hostname, origin, bit)
            return
        domain_requirement = state.requirements.get(group.key)
        if domain_requirement is None or domain_requirement.complement:
            return
        if group.kind == ANTI_AFFINITY or len(domain_requirement.values) == 1:
            for domain in domain_requirement.values:
                group.record(domain)

    def _has_min_values(self, claim: InFlightNodeClaim, types: int) -> bool:
        return all(claim.template.value_count(key, types) >= least for key, least in claim.min_values)

    def _relax_min_values(self, claim: InFlightNodeClaim, types: int) -> bool:
        if self.inputs.min_values_policy != BEST_EFFORT:
            return False
        claim.min_values = tuple(
            (key, min(least, claim.template.value_count(key, types))) for key, least in claim.min_values
        )
        claim.min_values_relaxed = True
        return True

    def _has_port_conflict(self, pod_class: EquivalenceClass, claim: InFlightNodeClaim, types: int) -> bool:
        return ports_conflict(pod_class.ports, claim.ports) or not types & ~claim.template.types_with_port_conflict(
            pod_class.ports
        )

    def _types_within_limits(self, template: NodeClaimTemplate) -> int:
        """Types that the remaining limits of the pool allow."""
        by_template = self._within_limits.setdefault(template.name, {})
        types = by_template.get(template)
        if types is None:
            remaining = self.remaining_limits[template.name]
            types = template.all_types & template.capacity.within(remaining) if remaining.get(NODES, 1) > 0 else 0
            by_template[template] = types
        return types

    def _subtract_max(self, template: NodeClaimTemplate, types: int) -> None:
        """Subtracts the largest of the types, because any of them may be launched."""
        remaining = self.remaining_limits[template.name]
        for name in remaining:
            remaining[name] -= 1 if name == NODES else template.capacity.highest(name, types)
        if remaining:
            self._within_limits.pop(template.name, None)

    def _sort_key(self, pod: Object) -> tuple[int, int, str, str]:
        requests, metadata = self.pod_data[pod["metadata"]["uid"]].requests, pod["metadata"]
        return -requests.get(CPU, 0), -requests.get(MEMORY, 0), metadata.get("creationTimestamp") or "", metadata["uid"]
