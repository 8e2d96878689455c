"""Decides the shares of an object now: the policy's filters, selection and division, and one rolling step towards them.
Pure.

`shoal plan` and `shoal explain` use the same function as the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.fit.resources import Resources
from shoal.placement.assignment import assign_replicas, max_replicas
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.division import ShareBounds, divide_replicas
from shoal.placement.filter import (
    FilteredClusters,
    FilterFailure,
    filter_cluster,
    seconds_until_change,
    select_clusters,
)
from shoal.placement.ordinals import OrdinalRange, assign_ranges
from shoal.placement.policy import NEVER, PlacementPolicy


def rolling_step(
    target: Mapping[str, int], current_shares: Mapping[str, CurrentShare], floor: int, surge: int = 0
) -> dict[str, int]:
    """Returns the shares until the next reconcile, including clusters with a target of 0 and what they keep for now."""
    if not current_shares:
        return dict(target)
    names = list(dict.fromkeys([*target, *current_shares]))
    shares = {name: current_shares.get(name, NO_SHARE).replicas for name in names}
    available = {name: min(part.available, part.replicas) for name, part in current_shares.items()}
    spare = max(sum(available.values()) - floor, 0)
    for name in names:
        surplus = max(shares[name] - target.get(name, 0), 0)
        not_running = min(surplus, shares[name] - available.get(name, 0))
        movable = min(surplus - not_running, spare)
        spare -= movable
        shares[name] -= not_running + movable
    shortfall = sum(target.values()) - sum(shares.values())
    for name in names:
        if shortfall + surge > 0:
            change = min(max(target.get(name, 0) - shares[name], 0), shortfall + surge)
        else:
            change = -min(max(shares[name] - available.get(name, 0), 0), -shortfall - surge)
        shares[name] += change
        shortfall -= change
    return shares


EVICTED_REASONS = ("NotReady", "FailBackWaits")


@dataclass(frozen=True, slots=True)
class PlacementDecision:
    shares: Mapping[str, int]
    """For now. A share of 0 is a leaf that stays: the cluster has to see it when it comes back, or the object requests
    no replicas anywhere.
    """
    evicted: frozenset[str]
    """Clusters whose replicas were evicted because they are not ready, or have been ready again for too short a
    time.
    """
    target_shares: Mapping[str, int]
    """In the end."""
    filter_failures: Mapping[str, FilterFailure]
    unassigned: int
    requeue_after: float | None
    first_ordinals: Mapping[str, int] = field(default_factory=dict)
    """The first ordinal of each share, where the kind has ordinals."""


def decide_placement(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    requests: Resources,
    now: float,
    first_ordinal: int | None = None,
) -> PlacementDecision:
    """`current_shares` is by cluster; `requests` is what one replica requests; `first_ordinal` is set for kinds with
    ordinals.
    """
    return decide_with_filtered(
        total, FilteredClusters(clusters, policy, now), current_shares, requests, now, first_ordinal
    )


def decide_with_filtered(
    total: int,
    filtered: FilteredClusters,
    current_shares: Mapping[str, CurrentShare],
    requests: Resources,
    now: float,
    first_ordinal: int | None = None,
) -> PlacementDecision:
    """Like `decide_placement`, with clusters that were filtered for the policy before."""
    policy = filtered.policy
    current_clusters = {name: filtered.clusters[name] for name in current_shares if name in filtered.clusters}
    failures = {name: failure for name, failure in filtered.failures.items() if name not in current_clusters}
    failures |= {
        name: failure
        for name, cluster in current_clusters.items()
        if (failure := filter_cluster(cluster, policy, current_shares[name], now))
    }
    feasible = filtered.feasible_for(current_shares, failures)
    held_replicas = {
        name: current_shares[name].replicas
        for name, failure in failures.items()
        if failure.keeps_replicas and name in current_shares
    }
    retained = (
        held_replicas
        if policy.is_duplicate
        else _retained_shares(total, held_replicas, current_shares, policy.max_surge_count(total))
    )
    selected = select_clusters(feasible, policy, current_shares, sum(share > 0 for share in retained.values()))
    unretained = total if policy.is_duplicate else total - sum(retained.values())
    first_ordinals: dict[str, int] = {}
    if first_ordinal is None or policy.is_duplicate:
        target_shares = {**_assign_with_backoff(unretained, selected, policy, current_shares, requests), **retained}
    else:
        ordinal_ranges = _assign_ordinals(
            OrdinalRange(first_ordinal, total), selected, policy, current_shares, requests, retained
        )
        target_shares, first_ordinals = (
            {name: span.count for name, span in ordinal_ranges.items()},
            {name: span.start for name, span in ordinal_ranges.items()},
        )
    ready_names = {name for name, cluster in current_clusters.items() if cluster.ready}
    observed = {
        name: current if name in ready_names else replace(current, available=0)
        for name, current in current_shares.items()
    }
    floor = min(policy.min_available(total), sum(target_shares.values()))
    next_shares = (
        target_shares
        if policy.is_duplicate or first_ordinal is not None
        else rolling_step(target_shares, observed, floor, policy.max_surge_count(total))
    )
    delays = [
        delay
        for name, cluster in current_clusters.items()
        if (delay := seconds_until_change(cluster, policy, current_shares[name], now)) is not None
    ]
    if filtered.valid_until < NEVER:
        delays.append(filtered.valid_until - now)
    evicted = {
        name
        for name in current_shares
        if name in failures and failures[name].reason in EVICTED_REASONS and not next_shares.get(name)
    }
    return PlacementDecision(
        shares={
            name: share
            for name, share in next_shares.items()
            if share or name in evicted or (not total and name not in failures)
        },
        evicted=frozenset(evicted),
        target_shares=target_shares,
        filter_failures=failures,
        unassigned=max(total - sum(target_shares.values()), 0),
        requeue_after=min(delays, default=None),
        first_ordinals=first_ordinals,
    )


def _assign_ordinals(
    ordinals: OrdinalRange,
    selected: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    requests: Resources,
    retained: Mapping[str, int],
) -> dict[str, OrdinalRange]:
    ceilings = {
        site.name: max_replicas(site, policy, current_shares.get(site.name, NO_SHARE), requests) for site in selected
    }
    staying = {
        name: part for name, part in current_shares.items() if part.replicas and (name in ceilings or name in retained)
    }
    held_ranges = {name: OrdinalRange(part.first_ordinal, part.replicas) for name, part in staying.items()}
    return assign_ranges(
        ordinals, held_ranges, ceilings, lambda total: assign_replicas(total, selected, policy, {}, requests)
    )


def _retained_shares(
    total: int, held_replicas: Mapping[str, int], current_shares: Mapping[str, CurrentShare], surge: int
) -> Mapping[str, int]:
    """Returns what such clusters hold, or their part of less if the object requests less than there is."""
    if sum(part.replicas for part in current_shares.values()) <= total + surge:
        return held_replicas
    bounds = [ShareBounds(name, part.replicas, maximum=part.replicas) for name, part in sorted(current_shares.items())]
    divided = divide_replicas(total, bounds)
    return {name: divided[name] for name in held_replicas}


def _assign_with_backoff(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    requests: Resources,
) -> dict[str, int]:
    """A capacity limit from unschedulable replicas only serves to place them elsewhere. Replicas that fit nowhere stay
    where the other rules place them, or they would be moved forever.
    """
    target_shares = assign_replicas(total, clusters, policy, current_shares, requests)
    remaining = total - sum(target_shares.values())
    if remaining <= 0 or all(part.capacity_limit is None for part in current_shares.values()):
        return target_shares
    without_limits = {name: replace(part, capacity_limit=None) for name, part in current_shares.items()}
    unlimited = assign_replicas(total, clusters, policy, without_limits, requests)
    for name, share in unlimited.items():
        added = min(max(share - target_shares[name], 0), remaining)
        target_shares[name] += added
        remaining -= added
    return target_shares
