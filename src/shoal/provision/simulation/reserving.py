"""Limited capacity: reservations, and offerings with a remaining count. Pure."""

from __future__ import annotations

from shoal.kinds.karpenter import CAPACITY_TYPE, RESERVED
from shoal.provision.cloudprovider import Offering
from shoal.provision.simulation.bins import Claim
from shoal.provision.simulation.model import STRICT, Question
from shoal.provision.simulation.states import State

NO_RESERVATION = "instance types with a reservation would do, but all of it is spoken for"
LOST_RESERVATION = "its node would lose the reservation that it was to be had of"


class Reservations:
    """A claim holds one unit of every reservation it may be launched from, because the choice is made only at
    launch.
    """

    def __init__(self, question: Question) -> None:
        self._strict = question.reserved == STRICT
        self._left: dict[str, int] = {}
        for pool in question.pools:
            for kind in pool.types:
                for offering in kind.offerings:
                    if offering.labels.get(CAPACITY_TYPE) == RESERVED:
                        least = self._left.get(offering.reservation, offering.reservation_capacity)
                        self._left[offering.reservation] = min(least, offering.reservation_capacity)

    def open(self, claim: Claim, state: State, types: int) -> tuple[frozenset[str], str]:
        """Returns the reservations the claim could hold, and why that is not enough."""
        suiting = claim.template.reservations(state, types)
        free = frozenset(name for name in suiting if name in claim.reserved or self._left[name] > 0)
        if self._strict and not free:
            if suiting:
                return free, NO_RESERVATION
            if claim.reserved:
                return free, LOST_RESERVATION
        return free, ""

    def hold(self, claim: Claim, names: frozenset[str]) -> None:
        for name in names - claim.reserved:
            self._left[name] -= 1
        for name in claim.reserved - names:
            self._left[name] += 1
        claim.reserved = names


class Rooms:
    """Offerings with a remaining count. Every claim that depends on them is assigned to one."""

    def __init__(self) -> None:
        self._taken: dict[str, list[Claim]] = {}
        self._seats: dict[Claim, Offering] = {}
        self._wants: dict[Claim, list[Offering]] = {}

    def hold(self, claim: Claim, state: State, types: int) -> bool:
        """Returns True if an offering can be assigned, reassigning other claims if needed (bipartite matching)."""
        template = claim.template
        if template.unlimited(state) & types:
            self._leave(claim)
            return True
        wanted = [template.offerings[number][1] for number in template.offers(state, types)]
        seat = self._seats.get(claim)
        if seat is not None and any(each.name == seat.name for each in wanted):
            self._wants[claim] = wanted
            return True
        before = self._wants.get(claim)
        self._leave(claim)
        self._wants[claim] = sorted(wanted, key=lambda each: (each.price, each.name))
        if self._seated(claim, set()):
            return True
        if before is not None:  # restore the claim: another claim may have its offering by now, but a matching exists
            self._wants[claim] = before
            self._seated(claim, set())
        return False

    def settled(self, claim: Claim) -> tuple[int, Offering]:
        """Returns the final offering and the index of its type, if all claims launch."""
        template = claim.template
        offers = (template.offerings[number] for number in template.offers(claim.state, claim.types))
        by_price = sorted(offers, key=lambda each: (each[1].price, each[1].name))
        seat = self._seats.get(claim)
        open_ = (each for each in by_price if (each[1] is seat if seat is not None else self._has_room(each[1])))
        number, offering = next(open_, by_price[0])
        if seat is None and offering.room is not None:
            self._seats[claim] = offering
            self._taken.setdefault(offering.name, []).append(claim)
        return number, offering

    def _has_room(self, offering: Offering) -> bool:
        return offering.room is None or len(self._taken.get(offering.name, ())) < offering.room

    def _seated(self, claim: Claim, tried: set[str]) -> bool:
        for offering in self._wants[claim]:
            if offering.name in tried:
                continue
            tried.add(offering.name)
            taken = self._taken.setdefault(offering.name, [])
            if len(taken) >= (offering.room or 0):
                other = next((each for each in taken if self._seated(each, tried)), None)
                if other is None:
                    continue
                taken.remove(other)
            taken.append(claim)
            self._seats[claim] = offering
            return True
        return False

    def _leave(self, claim: Claim) -> None:
        seat = self._seats.pop(claim, None)
        if seat is not None:
            self._taken[seat.name].remove(claim)
