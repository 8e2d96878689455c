"""Limited capacity: reservations, and offerings with a remaining count. Pure."""

from __future__ import annotations

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, RESERVED
from shoal.provision.cloudprovider.types import Offering
from shoal.provision.simulation.model import STRICT, SchedulingInput
from shoal.provision.simulation.nodes import InFlightNodeClaim
from shoal.provision.simulation.requirement_state import RequirementState

NO_RESERVATION = "all reserved capacity of compatible instance types is in use"
LOST_RESERVATION = "the pod would remove the reserved offerings of its NodeClaim"


class ReservationManager:
    """A claim holds one unit of every reservation it may be launched from, because the choice is made only at
    launch.
    """

    def __init__(self, inputs: SchedulingInput) -> None:
        self._strict = inputs.reserved_offering_mode == STRICT
        self._remaining: dict[str, int] = {}
        for pool in inputs.node_pools:
            for kind in pool.types:
                for offering in kind.offerings:
                    if offering.labels.get(CAPACITY_TYPE) == RESERVED:
                        capacity = self._remaining.get(offering.reservation, offering.reservation_capacity)
                        self._remaining[offering.reservation] = min(capacity, offering.reservation_capacity)

    def available(self, claim: InFlightNodeClaim, state: RequirementState, types: int) -> tuple[frozenset[str], str]:
        """Returns the reservations the claim could hold, and why that is not enough."""
        matching = claim.template.reservations(state, types)
        free = frozenset(name for name in matching if name in claim.reservations or self._remaining[name] > 0)
        if self._strict and not free:
            if matching:
                return free, NO_RESERVATION
            if claim.reservations:
                return free, LOST_RESERVATION
        return free, ""

    def reserve(self, claim: InFlightNodeClaim, names: frozenset[str]) -> None:
        for name in names - claim.reservations:
            self._remaining[name] -= 1
        for name in claim.reservations - names:
            self._remaining[name] += 1
        claim.reservations = names


class OfferingCapacity:
    """Offerings with a remaining count. Every claim that depends on them is assigned to one."""

    def __init__(self) -> None:
        self._claims_by_offering: dict[str, list[InFlightNodeClaim]] = {}
        self._assigned: dict[InFlightNodeClaim, Offering] = {}
        self._acceptable: dict[InFlightNodeClaim, list[Offering]] = {}

    def assign(self, claim: InFlightNodeClaim, state: RequirementState, types: int) -> bool:
        """Returns True if an offering can be assigned, reassigning other claims if needed (bipartite matching)."""
        template = claim.template
        if template.unlimited_types(state) & types:
            self._release(claim)
            return True
        acceptable = [template.offerings[number][1] for number in template.offerings_of(state, types)]
        assigned = self._assigned.get(claim)
        if assigned is not None and any(each.name == assigned.name for each in acceptable):
            self._acceptable[claim] = acceptable
            return True
        previous = self._acceptable.get(claim)
        self._release(claim)
        self._acceptable[claim] = sorted(acceptable, key=lambda each: (each.price, each.name))
        if self._reassign(claim, set()):
            return True
        if previous is not None:  # restore the claim: another claim may have its offering by now, but a matching exists
            self._acceptable[claim] = previous
            self._reassign(claim, set())
        return False

    def final_offering(self, claim: InFlightNodeClaim) -> tuple[int, Offering]:
        """Returns the final offering and the index of its type, if all claims launch."""
        template = claim.template
        offers = (template.offerings[type_index] for type_index in template.offerings_of(claim.state, claim.types))
        by_price = sorted(offers, key=lambda each: (each[1].price, each[1].name))
        assigned = self._assigned.get(claim)
        usable = (
            each for each in by_price if (each[1] is assigned if assigned is not None else self._has_room(each[1]))
        )
        type_index, offering = next(usable, by_price[0])
        if assigned is None and offering.remaining is not None:
            self._assigned[claim] = offering
            self._claims_by_offering.setdefault(offering.name, []).append(claim)
        return type_index, offering

    def _has_room(self, offering: Offering) -> bool:
        return offering.remaining is None or len(self._claims_by_offering.get(offering.name, ())) < offering.remaining

    def _reassign(self, claim: InFlightNodeClaim, tried: set[str]) -> bool:
        for offering in self._acceptable[claim]:
            if offering.name in tried:
                continue
            tried.add(offering.name)
            holders = self._claims_by_offering.setdefault(offering.name, [])
            if len(holders) >= (offering.remaining or 0):
                other = next((each for each in holders if self._reassign(each, tried)), None)
                if other is None:
                    continue
                holders.remove(other)
            holders.append(claim)
            self._assigned[claim] = offering
            return True
        return False

    def _release(self, claim: InFlightNodeClaim) -> None:
        assigned = self._assigned.pop(claim, None)
        if assigned is not None:
            self._claims_by_offering[assigned.name].remove(claim)
