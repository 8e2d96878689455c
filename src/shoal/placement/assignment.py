"""Assigns the target number of replicas to each cluster. Pure.

Clusters that only keep what they have are subtracted first. Each of the others has a weight, a minimum and a maximum.
Overflow groups are filled one after another, and prices make a group of every price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from shoal.fit.resources import Resources
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.division import UNBOUNDED, ShareBounds, divide_replicas
from shoal.placement.policy import PlacementPolicy, SpreadConstraint


def assign_replicas(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    requests: Resources,
) -> dict[str, int]:
    """`clusters` are the selected ones, ties in order; `requests` is what one replica requests."""
    if policy.is_duplicate:
        return {cluster.name: total for cluster in clusters}
    is_growing = total >= sum(current_shares.get(cluster.name, NO_SHARE).replicas for cluster in clusters)
    bounds = {
        cluster.name: _share_bounds(
            cluster, policy, current_shares.get(cluster.name, NO_SHARE), requests, is_growing=is_growing
        )
        for cluster in clusters
    }
    if policy.spread is None:
        return _assign_tiers(total, clusters, bounds, policy)
    return _assign_spread(total, clusters, bounds, policy, policy.spread)


def replica_capacity(cluster: ClusterInfo, current_share: CurrentShare, requests: Resources) -> int:
    """Returns how many replicas it has capacity for, including its current ones; unknown capacity is no limit. Replicas
    assigned to it that do not run yet may not have been subtracted from its capacity yet.
    """
    limit = current_share.capacity_limit if current_share.capacity_limit is not None else UNBOUNDED
    free = free_capacity(cluster, requests)
    return limit if free is None else min(limit, max(current_share.replicas, current_share.available + free))


def free_capacity(cluster: ClusterInfo, requests: Resources) -> int | None:
    """Returns how many more replicas have capacity there; None if unknown."""
    if cluster.free is None:
        return None
    return max(
        min((cluster.free.get(name, 0) // much for name, much in requests.items() if much), default=UNBOUNDED), 0
    )


def max_replicas(
    cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare, requests: Resources
) -> int:
    """Returns the most replicas it may have by the policy, and by its capacity where the policy uses that."""
    _, maximum = policy.limit_of(cluster.name, cluster.labels)
    maximum = UNBOUNDED if maximum is None else maximum
    return (
        min(maximum, replica_capacity(cluster, current_share, requests))
        if policy.divide_by != "Weight" or policy.overflow
        else maximum
    )


def _share_bounds(
    cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare, requests: Resources, *, is_growing: bool
) -> ShareBounds:
    minimum, maximum = policy.limit_of(cluster.name, cluster.labels)
    maximum = UNBOUNDED if maximum is None else maximum
    weight: float = policy.weight_of(cluster.name, cluster.labels)
    if policy.divide_by == "Capacity":
        # Other workloads change the free capacity all the time: only added or removed replicas are divided by it.
        capacity = replica_capacity(cluster, current_share, requests)
        weight = weight * capacity if capacity < UNBOUNDED else weight
        maximum = min(maximum, capacity if is_growing else current_share.replicas)
        minimum = max(minimum, current_share.replicas) if is_growing else minimum
    elif policy.divide_by == "Price" or policy.overflow or current_share.capacity_limit is not None:
        maximum = min(maximum, replica_capacity(cluster, current_share, requests))
    return ShareBounds(cluster.name, weight, min(minimum, maximum), maximum, current_share.replicas)


def _assign_tiers(
    total: int, clusters: Sequence[ClusterInfo], bounds: Mapping[str, ShareBounds], policy: PlacementPolicy
) -> dict[str, int]:
    """Minimums come first whatever the group; then the groups in order, and by price within a group."""

    def rank(cluster: ClusterInfo) -> tuple[int, float]:
        price = cluster.price if policy.divide_by == "Price" and cluster.price is not None else float("inf")
        return policy.tier_of(cluster.name, cluster.labels), price if policy.divide_by == "Price" else 0.0

    minimums = sum(bounds[site.name].minimum for site in clusters)
    if total <= minimums or (not policy.overflow and policy.divide_by != "Price"):
        return divide_replicas(total, [bounds[site.name] for site in clusters])
    shares: dict[str, int] = {}
    remaining = total - minimums
    for _, tier in groupby(sorted(clusters, key=rank), rank):
        tier_bounds = [bounds[site.name] for site in tier]
        divided = divide_replicas(remaining + sum(seat.minimum for seat in tier_bounds), tier_bounds)
        shares |= divided
        remaining -= sum(divided.values()) - sum(seat.minimum for seat in tier_bounds)
    return shares


def _assign_spread(
    total: int,
    clusters: Sequence[ClusterInfo],
    bounds: Mapping[str, ShareBounds],
    policy: PlacementPolicy,
    spread: SpreadConstraint,
) -> dict[str, int]:
    """Divides over domains first, then within each."""
    domains: dict[str, list[ClusterInfo]] = {}
    for cluster in clusters:
        domains.setdefault(cluster.labels.get(spread.label, ""), []).append(cluster)
    maximums = {
        name: min(sum(bounds[cluster.name].maximum for cluster in members), UNBOUNDED)
        for name, members in domains.items()
    }
    domain_bounds = [
        ShareBounds(
            name,
            sum(bounds[cluster.name].weight for cluster in members),
            sum(bounds[cluster.name].minimum for cluster in members),
            maximums[name],
            sum(bounds[cluster.name].current for cluster in members),
        )
        for name, members in domains.items()
    ]
    shares: dict[str, int] = {}
    for name, count in _assign_within_skew(total, domain_bounds, spread).items():
        shares |= _assign_tiers(count, domains[name], bounds, policy)
    return shares


def _assign_within_skew(total: int, domains: Sequence[ShareBounds], spread: SpreadConstraint) -> dict[str, int]:
    """Assigns one by one, so that a larger total never shrinks a share: the next goes to the highest average among the
    domains that are not ahead of the smallest by the skew already.
    """
    minimums = [domain.minimum for domain in domains]
    if not domains or total <= sum(minimums):
        return divide_replicas(total, domains)
    shares = minimums

    def next_of(limit: int) -> int | None:
        eligible = [
            at for at, domain in enumerate(domains) if domain.weight > 0 and shares[at] < min(domain.maximum, limit)
        ]
        return max(eligible, key=average, default=None)

    def average(index: int) -> tuple[float, bool]:
        return domains[index].weight / (2 * shares[index] + 1), shares[index] < domains[index].current

    for _ in range(total - sum(minimums)):
        index = next_of(min(shares) + spread.max_skew)
        if index is None and spread.place_anyway:
            index = next_of(UNBOUNDED)
        if index is None:
            break
        shares[index] += 1
    return {domain.name: share for domain, share in zip(domains, shares, strict=True)}
