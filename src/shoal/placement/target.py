"""Assigns the target number of replicas to each cluster. Pure.

Clusters that only keep what they have are subtracted first. Each of the others has a weight, a minimum and a maximum.
Overflow groups are filled one after another, and prices make a group of every price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from shoal.fit.resources import Resources
from shoal.placement.division import WITHOUT_END, Seat, divide
from shoal.placement.policy import Policy, Spread
from shoal.placement.sites import NO_PART, Part, Site


def target(
    total: int, sites: Sequence[Site], policy: Policy, parts: Mapping[str, Part], asks: Resources
) -> dict[str, int]:
    """`clusters` are the selected ones, ties in order; `requests` is what one replica requests."""
    if policy.duplicate:
        return {site.name: total for site in sites}
    growing = total >= sum(parts.get(site.name, NO_PART).replicas for site in sites)
    seats = {site.name: _seat(site, policy, parts.get(site.name, NO_PART), asks, growing=growing) for site in sites}
    if policy.spread is None:
        return _tiers(total, sites, seats, policy)
    return _spread(total, sites, seats, policy, policy.spread)


def room(site: Site, part: Part, asks: Resources) -> int:
    """Returns how many replicas it has capacity for, including its current ones; unknown capacity is no limit. Replicas
    assigned to it that do not run yet may not have been subtracted from its capacity yet.
    """
    most = part.most if part.most is not None else WITHOUT_END
    more = fits(site, asks)
    return most if more is None else min(most, max(part.replicas, part.available + more))


def fits(site: Site, asks: Resources) -> int | None:
    """Returns how many more replicas have capacity there; None if unknown."""
    if site.free is None:
        return None
    return max(min((site.free.get(name, 0) // much for name, much in asks.items() if much), default=WITHOUT_END), 0)


def ceiling(site: Site, policy: Policy, part: Part, asks: Resources) -> int:
    """Returns the most replicas it may have by the policy, and by its capacity where the policy uses that."""
    _, most = policy.limit_of(site.name, site.labels)
    most = WITHOUT_END if most is None else most
    return min(most, room(site, part, asks)) if policy.by != "Weight" or policy.overflow else most


def _seat(site: Site, policy: Policy, part: Part, asks: Resources, *, growing: bool) -> Seat:
    least, most = policy.limit_of(site.name, site.labels)
    most = WITHOUT_END if most is None else most
    weight: float = policy.weight_of(site.name, site.labels)
    if policy.by == "Capacity":
        # Other workloads change the free capacity all the time: only added or removed replicas are divided by it.
        space = room(site, part, asks)
        weight = weight * space if space < WITHOUT_END else weight
        most = min(most, space if growing else part.replicas)
        least = max(least, part.replicas) if growing else least
    elif policy.by == "Price" or policy.overflow or part.most is not None:
        most = min(most, room(site, part, asks))
    return Seat(site.name, weight, min(least, most), most, part.replicas)


def _tiers(total: int, sites: Sequence[Site], seats: Mapping[str, Seat], policy: Policy) -> dict[str, int]:
    """Minimums come first whatever the group; then the groups in order, and by price within a group."""

    def rank(site: Site) -> tuple[int, float]:
        price = site.price if policy.by == "Price" and site.price is not None else float("inf")
        return policy.tier_of(site.name, site.labels), price if policy.by == "Price" else 0.0

    floors = sum(seats[site.name].least for site in sites)
    if total <= floors or (not policy.overflow and policy.by != "Price"):
        return divide(total, [seats[site.name] for site in sites])
    shares: dict[str, int] = {}
    left = total - floors
    for _, tier in groupby(sorted(sites, key=rank), rank):
        group = [seats[site.name] for site in tier]
        found = divide(left + sum(seat.least for seat in group), group)
        shares |= found
        left -= sum(found.values()) - sum(seat.least for seat in group)
    return shares


def _spread(
    total: int, sites: Sequence[Site], seats: Mapping[str, Seat], policy: Policy, spread: Spread
) -> dict[str, int]:
    """Divides over domains first, then within each."""
    domains: dict[str, list[Site]] = {}
    for site in sites:
        domains.setdefault(site.labels.get(spread.label, ""), []).append(site)
    rooms = {name: min(sum(seats[site.name].most for site in of), WITHOUT_END) for name, of in domains.items()}
    whole = [
        Seat(
            name,
            sum(seats[site.name].weight for site in of),
            sum(seats[site.name].least for site in of),
            rooms[name],
            sum(seats[site.name].held for site in of),
        )
        for name, of in domains.items()
    ]
    shares: dict[str, int] = {}
    for name, count in _within_skew(total, whole, spread).items():
        shares |= _tiers(count, domains[name], seats, policy)
    return shares


def _within_skew(total: int, domains: Sequence[Seat], spread: Spread) -> dict[str, int]:
    """Assigns one by one, so that a larger total never shrinks a share: the next goes to the highest average among the
    domains that are not ahead of the smallest by the skew already.
    """
    floors = [domain.least for domain in domains]
    if not domains or total <= sum(floors):
        return divide(total, domains)
    shares = floors

    def next_of(limit: int) -> int | None:
        open_ = [at for at, domain in enumerate(domains) if domain.weight > 0 and shares[at] < min(domain.most, limit)]
        return max(open_, key=average, default=None)

    def average(at: int) -> tuple[float, bool]:
        return domains[at].weight / (2 * shares[at] + 1), shares[at] < domains[at].held

    for _ in range(total - sum(floors)):
        at = next_of(min(shares) + spread.max_skew)
        if at is None and spread.anyway:
            at = next_of(WITHOUT_END)
        if at is None:
            break
        shares[at] += 1
    return {domain.name: share for domain, share in zip(domains, shares, strict=True)}
