"""Assigns the target number of replicas to each cluster. Pure.

Clusters that only keep what they have are subtracted first. Each of the others has a weight, a minimum and a maximum.
Overflow groups are filled one after another, and prices make a group of every price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from shoal.fit.room import PodDemand
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.division import UNBOUNDED, ShareBounds, divide_replicas
from shoal.placement.policy import PlacementPolicy, SpreadConstraint


def assign_replicas(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
) -> dict[str, int]:
    """`clusters` are the selected ones, ties in order; `demand` is that of one replica. Replicas that fit nowhere wait
    where the other rules place them, unless those depend on capacity: if they were left out, or moved, it would never
    end.
    """
    if policy.is_duplicate:
        return {cluster.name: total for cluster in clusters}
    bounds = _bounds_of(total, clusters, policy, current_shares, demand, limit_by_room=True)
    shares = _divide(total, clusters, bounds, policy)
    new_replicas = _limit_unknown(total, clusters, current_shares, demand, bounds, shares)
    if new_replicas is not None:
        shares = _divide(total, clusters, new_replicas, policy)
    remaining = total - sum(shares.values())
    if remaining > 0:
        bounds = _bounds_of(total, clusters, policy, current_shares, demand, limit_by_room=False)
        for name, share in _divide(total, clusters, bounds, policy).items():
            added = min(max(share - shares[name], 0), remaining)
            shares[name] += added
            remaining -= added
    return shares


def replica_capacity(cluster: ClusterInfo, current_share: CurrentShare, demand: PodDemand) -> int:
    """Returns how many replicas it has capacity for, including its current ones; unknown capacity is no limit. Replicas
    assigned to it that do not run yet may not have been subtracted from its capacity yet.
    """
    limit = current_share.capacity_limit if current_share.capacity_limit is not None else UNBOUNDED
    free = free_capacity(cluster, demand)
    return limit if free is None else min(limit, max(current_share.replicas, current_share.available + free))


def free_capacity(cluster: ClusterInfo, demand: PodDemand) -> int | None:
    """Returns how many more replicas have capacity there; None if unknown."""
    if demand.spec is not None and cluster.room is not None:
        return cluster.room.estimate(demand).replicas
    if cluster.free is None or demand.label_keys:
        return None if demand.requests else UNBOUNDED
    counts = (cluster.free.get(name, 0) // much for name, much in demand.requests.items() if much)
    return max(min(counts, default=UNBOUNDED), 0)


def max_replicas(cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare, demand: PodDemand) -> int:
    """Returns the most replicas it may have by the policy and by its capacity."""
    return min(policy.maximum_of(cluster.name, cluster.labels), replica_capacity(cluster, current_share, demand))


def _bounds_of(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
    *,
    limit_by_room: bool,
) -> dict[str, ShareBounds]:
    is_growing = total >= sum(current_shares.get(cluster.name, NO_SHARE).replicas for cluster in clusters)
    bounds = {}
    for cluster in clusters:
        current_share = current_shares.get(cluster.name, NO_SHARE)
        if not limit_by_room:
            current_share = replace(current_share, capacity_limit=None)
        minimum, _ = policy.limit_of(cluster.name, cluster.labels)
        maximum = policy.maximum_of(cluster.name, cluster.labels)
        weight: float = policy.weight_of(cluster.name, cluster.labels)
        capacity = replica_capacity(cluster, current_share, demand)
        if policy.divide_by == "Capacity":
            # Other workloads change the free capacity all the time: only added or removed replicas are divided by it.
            weight = weight * capacity if capacity < UNBOUNDED else weight
            maximum = min(maximum, capacity if is_growing else current_share.replicas)
            minimum = max(minimum, current_share.replicas) if is_growing else minimum
        elif limit_by_room or policy.depends_on_capacity:
            maximum = min(maximum, capacity)
        bounds[cluster.name] = ShareBounds(cluster.name, weight, min(minimum, maximum), maximum, current_share.replicas)
    return bounds


def _limit_unknown(
    total: int,
    clusters: Sequence[ClusterInfo],
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
    bounds: Mapping[str, ShareBounds],
    shares: Mapping[str, int],
) -> dict[str, ShareBounds] | None:
    """Returns bounds by which clusters of unknown capacity only get replicas that do not run elsewhere; None if they
    get no others.
    """
    running = {
        cluster.name: min(current.available, current.replicas)
        for cluster in clusters
        if (current := current_shares.get(cluster.name)) is not None
    }
    not_running = max(total - sum(running.values()), 0)
    unknown = [cluster.name for cluster in clusters if free_capacity(cluster, demand) is None]
    added = {name: max(shares.get(name, 0) - running.get(name, 0), 0) for name in unknown}
    if sum(added.values()) <= not_running:
        return None
    starting = {name: current_shares[name].replicas - count for name, count in running.items()}
    seats = [
        ShareBounds(name, bounds[name].weight, maximum=count, current=starting.get(name, 0))
        for name, count in added.items()
        if count
    ]
    limited = dict(bounds)
    for name, count in divide_replicas(not_running, seats).items():
        maximum = running.get(name, 0) + count
        limited[name] = replace(bounds[name], minimum=min(bounds[name].minimum, maximum), maximum=maximum)
    return limited


def _divide(
    total: int, clusters: Sequence[ClusterInfo], bounds: Mapping[str, ShareBounds], policy: PlacementPolicy
) -> dict[str, int]:
    if policy.spread is None:
        return _assign_tiers(total, clusters, bounds, policy)
    return _assign_spread(total, clusters, bounds, policy, policy.spread)


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
