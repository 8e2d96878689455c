"""Decides the shares of an object now: the policy's filters, selection and division, and one rolling step towards them.
Pure.

`shoal plan` and `shoal explain` use the same function as the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.fit.resources import Resources
from shoal.placement.choosing import Outlook, Refusal, chosen, refusal, wakes
from shoal.placement.division import Seat, divide
from shoal.placement.keeping import step
from shoal.placement.ordinals import Range, ranges
from shoal.placement.policy import NEVER, Policy
from shoal.placement.sites import NO_PART, Part, Site
from shoal.placement.target import ceiling, target

AWAY = ("NotReady", "FailBackWaits")


@dataclass(frozen=True, slots=True)
class Placed:
    shares: Mapping[str, int]
    """For now. A share of 0 is a leaf that stays: the cluster has to see it when it comes back, or the object requests
    no replicas anywhere.
    """
    away: frozenset[str]
    """Clusters whose replicas were evicted because they are not ready, or have been ready again for too short a
    time.
    """
    target: Mapping[str, int]
    """In the end."""
    refusals: Mapping[str, Refusal]
    unplaced: int
    later: float | None
    starts: Mapping[str, int] = field(default_factory=dict)
    """The first ordinal of each share, where the kind has ordinals."""


def place(
    total: int,
    sites: Sequence[Site],
    policy: Policy,
    parts: Mapping[str, Part],
    asks: Resources,
    now: float,
    first: int | None = None,
) -> Placed:
    """`current_shares` is by cluster; `requests` is what one replica requests; `first_ordinal` is set for kinds with
    ordinals.
    """
    return place_in(total, Outlook(sites, policy, now), parts, asks, now, first)


def place_in(
    total: int, outlook: Outlook, parts: Mapping[str, Part], asks: Resources, now: float, first: int | None = None
) -> Placed:
    """Like `decide_placement`, with clusters that were filtered for the policy before."""
    policy = outlook.policy
    there = {name: outlook.sites[name] for name in parts if name in outlook.sites}
    refusals = {name: why for name, why in outlook.refusals.items() if name not in there}
    refusals |= {name: why for name, site in there.items() if (why := refusal(site, policy, parts[name], now))}
    open_ = outlook.open(parts, refusals)
    held = {name: parts[name].replicas for name, why in refusals.items() if why.keeps and name in parts}
    kept = held if policy.duplicate else _kept(total, held, parts, policy.surge(total))
    using = chosen(open_, policy, parts, sum(share > 0 for share in kept.values()))
    rest = total if policy.duplicate else total - sum(kept.values())
    starts: dict[str, int] = {}
    if first is None or policy.duplicate:
        wanted = {**_wanted(rest, using, policy, parts, asks), **kept}
    else:
        spans = _ranges(Range(first, total), using, policy, parts, asks, kept)
        wanted, starts = (
            {name: one.count for name, one in spans.items()},
            {name: one.start for name, one in spans.items()},
        )
    ready = {name for name, site in there.items() if site.ready}
    seen = {name: part if name in ready else replace(part, available=0) for name, part in parts.items()}
    floor = min(policy.floor(total), sum(wanted.values()))
    shares = wanted if policy.duplicate or first is not None else step(wanted, seen, floor, policy.surge(total))
    waking = [after for name, site in there.items() if (after := wakes(site, policy, parts[name], now)) is not None]
    if outlook.until < NEVER:
        waking.append(outlook.until - now)
    away = {name for name in parts if name in refusals and refusals[name].reason in AWAY and not shares.get(name)}
    return Placed(
        shares={
            name: share
            for name, share in shares.items()
            if share or name in away or (not total and name not in refusals)
        },
        away=frozenset(away),
        target=wanted,
        refusals=refusals,
        unplaced=max(total - sum(wanted.values()), 0),
        later=min(waking, default=None),
        starts=starts,
    )


def _ranges(
    wanted: Range,
    using: Sequence[Site],
    policy: Policy,
    parts: Mapping[str, Part],
    asks: Resources,
    kept: Mapping[str, int],
) -> dict[str, Range]:
    rooms = {site.name: ceiling(site, policy, parts.get(site.name, NO_PART), asks) for site in using}
    stay = {name: part for name, part in parts.items() if part.replicas and (name in rooms or name in kept)}
    held = {name: Range(part.start, part.replicas) for name, part in stay.items()}
    return ranges(wanted, held, rooms, lambda total: target(total, using, policy, {}, asks))


def _kept(total: int, held: Mapping[str, int], parts: Mapping[str, Part], surge: int) -> Mapping[str, int]:
    """Returns what such clusters hold, or their part of less if the object requests less than there is."""
    if sum(part.replicas for part in parts.values()) <= total + surge:
        return held
    seats = [Seat(name, part.replicas, most=part.replicas) for name, part in sorted(parts.items())]
    shares = divide(total, seats)
    return {name: shares[name] for name in held}


def _wanted(
    total: int, sites: Sequence[Site], policy: Policy, parts: Mapping[str, Part], asks: Resources
) -> dict[str, int]:
    """A capacity limit from unschedulable replicas only serves to place them elsewhere. Replicas that fit nowhere stay
    where the other rules place them, or they would be moved forever.
    """
    wanted = target(total, sites, policy, parts, asks)
    left = total - sum(wanted.values())
    if left <= 0 or all(part.most is None for part in parts.values()):
        return wanted
    free = {name: replace(part, most=None) for name, part in parts.items()}
    anywhere = target(total, sites, policy, free, asks)
    for name, share in anywhere.items():
        more = min(max(share - wanted[name], 0), left)
        wanted[name] += more
        left -= more
    return wanted
