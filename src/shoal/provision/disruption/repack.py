"""Repack consolidation: replaces a set of nodes by cheaper ones, with the pods repacked by the solver. Pure.

A command must save even at the worst price that may have to be paid. So each step makes the cluster cheaper and cannot
be reversed by another. Karpenter's decision stands unless there is a better one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shoal.fit.resources import Resources, pod_requests
from shoal.kinds.karpenter import SPOT
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.disruption.balanced import approved
from shoal.provision.disruption.budgets import allowed
from shoal.provision.disruption.candidates import within_budget
from shoal.provision.disruption.consolidation import MOST_AT_ONCE, Stop, eligible, never
from shoal.provision.disruption.exchange import exchanged
from shoal.provision.disruption.model import UNDERUTILIZED, Candidate, Command, Decision, Settings, Snapshot
from shoal.provision.disruption.moving import Move, move
from shoal.provision.disruption.outcome import foreseen
from shoal.provision.disruption.prices import allows, below, pin_to_spot, pinned, priced, renamed
from shoal.provision.simulation.model import NewClaim, Plan, Pool
from shoal.provision.solver.adapting import improve

NEARLY = 0.8
"""Share of the best savings above which the set that moves the fewest pods wins."""
SOLVED = 6
"""Maximum sets passed to the solver, most promising first."""
DROPS = 4
"""Maximum attempts to leave a node of the best set in place."""

FEW, WORST = 3, 12
"""Maximum nodes replaced by the replacement search, and the number of nodes with the highest excess cost it chooses
from.
"""
EXCHANGES = 4000
"""Limit of nodes checked by the replacement search over all sets: with more nodes, fewer sets are tried."""


def repack(snapshot: Snapshot, settings: Settings, rule: Decision, stop: Stop = never) -> Decision:
    found, _, sums = eligible(snapshot)
    sets, limited = _sets(found, allowed(snapshot, UNDERUTILIZED), settings.most_pods)
    options = [] if rule.command is None else [rule.command]
    moves: list[tuple[float, Sequence[Candidate], Move]] = []
    shares, pools = _Shares(), snapshot.pools()
    for some in sets:
        if stop():
            break
        moved = move(snapshot, some)
        if moved.problem:
            continue
        options += _as_command(moved, moved.plan, some, settings)
        if moved.plan.claims:
            least = sum(shares.of(pod_requests(pod), pools[c.pool]) for c in moved.plan.claims for pod in c.pods)
            moves.append((sum(each.price for each in some) - least, some, moved))
    options = [each for each in options if approved(each, sums)]
    for hope, some, moved in sorted(moves, key=lambda each: -each[0])[:SOLVED]:
        if stop() or hope <= max((each.savings for each in options), default=0.0):
            break
        plan, _ = improve(moved.question, moved.plan, iterations=settings.iterations, stop=stop)
        options += [each for each in _as_command(moved, plan, some, settings) if approved(each, sums)]
    most_sets = max(EXCHANGES // max(len(snapshot.question.places), 1), 1)
    for hope, some in _few(found, allowed(snapshot, UNDERUTILIZED))[:most_sets]:
        if stop() or hope <= max((each.savings for each in options), default=0.0):
            break
        moved = move(snapshot, some)
        options += [each for each in _exchanged(moved, some, settings) if approved(each, sums)]
    if not options:
        return replace(rule, limited=rule.limited or limited)
    most = max(each.savings for each in options)
    best = min((each for each in options if each.savings >= most * NEARLY), key=_effort)
    return replace(rule, command=_spared(snapshot, settings, best, stop), limited=rule.limited or limited)


def repacked(snapshot: Snapshot, some: Sequence[Candidate], settings: Settings, stop: Stop = never) -> Command | None:
    """Best command that removes all of them and saves something; None if there is none."""
    moved = move(snapshot, some)
    if moved.problem:
        return None
    options = _as_command(moved, moved.plan, some, settings)
    if moved.plan.claims:
        plan, _ = improve(moved.question, moved.plan, iterations=settings.iterations, stop=stop)
        options += _as_command(moved, plan, some, settings)
    options += _exchanged(moved, some, settings)
    return max(options, key=lambda each: each.savings, default=None)


def _exchanged(moved: Move, some: Sequence[Candidate], settings: Settings) -> list[Command]:
    plan = exchanged(moved, some, settings) if len(some) <= FEW and not moved.problem else None
    return _as_command(moved, plan, some, settings) if plan is not None else []


def _few(found: Sequence[Candidate], left: dict[str, int]) -> list[tuple[float, Sequence[Candidate]]]:
    """All small sets of the nodes with the highest excess cost, with their maximum savings."""
    shares = _Shares()
    extra = {each.name: shares.excess(each) for each in found}
    worst = sorted(found, key=lambda each: (-extra[each.name], each.name))[:WORST]
    sets = (some for count in range(1, FEW + 1) for some in itertools.combinations(worst, count))
    kept = (some for some in sets if not within_budget(some, left)[1])
    return sorted(((sum(extra[each.name] for each in some), some) for some in kept), key=lambda each: -each[0])


def _as_command(moved: Move, plan: Plan, some: Sequence[Candidate], settings: Settings) -> list[Command]:
    """Empty if it saves nothing."""
    pools = {pool.name: pool for pool in moved.question.pools}
    claims = _affordable(plan, pools, some, settings)
    if claims is None:
        return []
    command = Command(UNDERUTILIZED, "repack", tuple(some), tuple(renamed(each, some) for each in claims), plan)
    found = foreseen(command, moved.question, settings)
    return [found] if found is not None else []


def _affordable(
    plan: Plan, pools: dict[str, Pool], some: Sequence[Candidate], settings: Settings
) -> list[NewClaim] | None:
    """Claims restricted to types whose total worst price saves enough; None if impossible."""
    if not plan.claims:
        return []
    spot = all(each.capacity_type == SPOT for each in some)
    claims: list[NewClaim] = []
    for each in plan.claims:
        claim = _capacity(each, pools[each.pool], settings, spot=spot)
        if claim is None:
            return None
        claims.append(claim)
    least = [min((each.worst for each in priced(c, pools[c.pool])), default=math.inf) for c in claims]
    most = sum(each.price for each in some) * (1.0 - settings.least_saving)
    if not sum(least) < most:
        return None
    # The remaining savings allow slightly more expensive types, in case the cheapest are unavailable.
    share = (most - sum(least)) / len(claims)
    cheap = [below(claim, pools[claim.pool], worst + share) for claim, worst in zip(claims, least, strict=True)]
    found = [claim for claim in cheap if claim is not None]
    return found if len(found) == len(cheap) else None


def _capacity(claim: NewClaim, pool: Pool, settings: Settings, *, spot: bool) -> NewClaim | None:
    if not (spot and allows(claim, SPOT)):
        return pin_to_spot(claim, pool)
    return pinned(claim, pool, SPOT) if settings.spot_to_spot else None


def _spared(snapshot: Snapshot, settings: Settings, best: Command, stop: Stop) -> Command:
    """Drops nodes that need not be disrupted: fewer pods move, and no less is saved."""
    if best.method != "repack":
        return best
    for each in sorted(best.candidates, key=lambda each: (-len(each.pods), each.name))[:DROPS]:
        rest = [other for other in best.candidates if other.name != each.name]
        if not rest or stop():
            break
        fewer = repacked(snapshot, rest, settings, stop)
        if fewer is not None and fewer.savings >= best.savings - 1e-9:
            best = fewer
    return best


def _sets(found: Sequence[Candidate], left: dict[str, int], most_pods: int) -> tuple[list[Sequence[Candidate]], bool]:
    """Prefixes of several orders within the budgets, and whether a budget excluded candidates."""
    sets: dict[frozenset[str], Sequence[Candidate]] = {}
    limited = False
    for order in _orders(found):
        kept, short = within_budget(order, left)
        limited |= short
        for some in _prefixes(kept, most_pods):
            sets.setdefault(frozenset(each.name for each in some), some)
    return list(sets.values()), limited


def _orders(found: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """By price per disruption cost, by excess cost, and by excess cost per pod to move."""
    shares = _Shares()
    extra = {each.name: shares.excess(each) for each in found}
    yield list(found)
    yield sorted(found, key=lambda each: (-extra[each.name], each.name))
    yield sorted(found, key=lambda each: (-extra[each.name] / (1 + len(each.pods)), each.name))


def _prefixes(order: Sequence[Candidate], most_pods: int) -> Iterator[Sequence[Candidate]]:
    size, last = 1, min(len(order), MOST_AT_ONCE)
    while last:
        some = order[: min(size, last)]
        if sum(len(each.pods) for each in some) > most_pods:
            return
        yield some
        if size >= last:
            return
        size = max(size + 1, size * 3 // 2)


class _Shares:
    """Minimum cost of pods: each one's share of the cheapest type for it. Cached for equal requests."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[tuple[str, int], ...]], float] = {}

    def excess(self, candidate: Candidate) -> float:
        """Price of a node beyond the minimum cost of its pods."""
        return candidate.price - sum(self.of(pod_requests(pod), candidate.pool) for pod in candidate.pods)

    def of(self, requests: Resources, pool: Pool) -> float:
        key = (pool.name, tuple(sorted(requests.items())))
        if key not in self._known:
            found = min((_cost(requests, kind) for kind in pool.types), default=math.inf)
            self._known[key] = 0.0 if math.isinf(found) else found
        return self._known[key]


def _cost(requests: Resources, kind: InstanceType) -> float:
    taken = max((_part(amount, kind.allocatable.get(name, 0)) for name, amount in requests.items()), default=0.0)
    return min((each.price * taken for each in kind.offerings if each.available and taken <= 1.0), default=math.inf)


def _part(amount: int, of: int) -> float:
    return amount / of if of > 0 else math.inf if amount > 0 else 0.0


def _effort(command: Command) -> tuple[int, int, float, list[str]]:
    return (
        command.moved,
        len(command.candidates) + len(command.replacements),
        -command.savings,
        sorted(each.name for each in command.candidates),
    )
