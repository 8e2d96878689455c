"""Decides the shares of an object now: the policy's filters, selection and division, and one rolling step towards them.
Pure.

`shoal plan` and `shoal explain` use the same function as the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.fit.room import PodDemand
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.served_apis import REFUSAL_REASONS
from shoal.placement.assignment import assign_replicas, max_replicas, replica_capacity
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.division import ShareBounds, divide_replicas
from shoal.placement.filter import (
    NO_ROOM,
    FilteredClusters,
    FilterFailure,
    filter_cluster,
    room_failures,
    seconds_until_change,
    select_clusters,
)
from shoal.placement.ordinals import HeldRange, OrdinalRange, assign_ranges, step_ranges
from shoal.placement.policy import NEVER, PlacementPolicy
from shoal.placement.rollout import DEFAULT_STRATEGY, RolloutStrategy, move_budget, rolling_step

EVICTED_REASONS = ("NotReady", "FailBackWaits")
FORCED_REASONS = ("Leaving", "TaintNotTolerated")
"""Replicas have to leave such a cluster, whether or not their successors run."""


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
    is_limited_by_room: bool = False
    """More room in some cluster may change the shares."""
    first_ordinals: Mapping[str, int] = field(default_factory=dict)
    """The first ordinal of each share, where the kind has ordinals."""


def decide_placement(
    total: int,
    clusters: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
    now: float,
    first_ordinal: int | None = None,
    *,
    strategy: RolloutStrategy = DEFAULT_STRATEGY,
) -> PlacementDecision:
    """`current_shares` is by cluster; `demand` is that of one replica; `first_ordinal` is set for kinds with
    ordinals.
    """
    return decide_with_filtered(
        total, FilteredClusters(clusters, policy, now), current_shares, demand, now, first_ordinal, strategy
    )


def decide_with_filtered(
    total: int,
    filtered: FilteredClusters,
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
    now: float,
    first_ordinal: int | None = None,
    strategy: RolloutStrategy = DEFAULT_STRATEGY,
) -> PlacementDecision:
    """Like `decide_placement`, with clusters that were filtered for the policy before."""
    policy = filtered.policy
    budget = move_budget(total, policy, strategy)
    current_clusters = {name: filtered.clusters[name] for name in current_shares if name in filtered.clusters}
    failures = {name: failure for name, failure in filtered.failures.items() if name not in current_clusters}
    failures |= {
        name: failure
        for name, cluster in current_clusters.items()
        if (failure := filter_cluster(cluster, policy, current_shares[name], now, filtered.api))
    }
    failures |= room_failures(filtered, failures, current_shares, demand)
    feasible = filtered.feasible_for(current_shares, failures)
    held_replicas = {
        name: _held_replicas(current_shares[name])
        for name, failure in failures.items()
        if failure.keeps_replicas and name in current_shares
    }
    retained = (
        held_replicas
        if policy.is_duplicate
        else _retained_shares(total, held_replicas, current_shares, budget.max_surge)
    )
    selected = select_clusters(feasible, policy, current_shares, sum(share > 0 for share in retained.values()))
    unretained = total if policy.is_duplicate else total - sum(retained.values())
    first_ordinals: dict[str, int] = {}
    ordinal_ranges: dict[str, OrdinalRange] = {}
    if first_ordinal is None or policy.is_duplicate:
        target_shares = {**assign_replicas(unretained, selected, policy, current_shares, demand), **retained}
        if not policy.is_duplicate:
            target_shares |= _stranded_shares(total - sum(target_shares.values()), retained, current_shares)
    else:
        ordinal_ranges = _assign_ordinals(
            OrdinalRange(first_ordinal, total), selected, policy, current_shares, demand, retained
        )
        target_shares = {name: span.count for name, span in ordinal_ranges.items()}
    ready_names = {name for name, cluster in current_clusters.items() if cluster.ready}
    observed = {
        name: current if name in ready_names else replace(current, available=0, is_rolling_out=False)
        for name, current in current_shares.items()
    }
    forced = {
        name for name, failure in failures.items() if failure.reason in FORCED_REASONS and not failure.keeps_replicas
    }
    stopping: set[str] = set()
    if policy.is_duplicate:
        next_shares: Mapping[str, int] = target_shares
    elif first_ordinal is None:
        # The counts of a cluster that is lost, or does not take the kind any more, do not change.
        settled = {name for name in ready_names if _takes(current_clusters[name], filtered.api)}
        observed = {name: part if name in settled else replace(part, pods=0) for name, part in observed.items()}
        next_shares = rolling_step(target_shares, observed, budget, forced, total)
        if not budget.max_surge:
            stopping = {name for name, part in observed.items() if part.pods}
    else:
        held_ranges = {
            name: HeldRange(OrdinalRange(part.first_ordinal, part.replicas), part.available, part.is_stopping)
            for name, part in observed.items()
            if name in ready_names or name in ordinal_ranges
        }
        next_ranges = step_ranges(ordinal_ranges, held_ranges, budget.min_available)
        next_shares = {name: span.count for name, span in next_ranges.items()}
        first_ordinals = {name: span.start for name, span in next_ranges.items()}
        stopping = {name for name, held in held_ranges.items() if held.is_stopping or held.ordinals.count}
    delays = [
        delay
        for name, cluster in current_clusters.items()
        if (delay := seconds_until_change(cluster, policy, current_shares[name], now)) is not None
    ]
    if filtered.valid_until < NEVER:
        delays.append(filtered.valid_until - now)
    # A cluster that was found full keeps its leaf, which records that.
    remembered = {
        name
        for name in current_clusters
        if current_shares[name].has_backoff and (name not in failures or failures[name].keeps_replicas)
    }
    evicted = {
        name
        for name in current_shares
        if name in failures and failures[name].reason in EVICTED_REASONS and not next_shares.get(name)
    }
    return PlacementDecision(
        shares={
            name: share
            for name, share in next_shares.items()
            if share or name in evicted | remembered | stopping or (not total and name not in failures)
        },
        evicted=frozenset(evicted),
        target_shares=target_shares,
        filter_failures=failures,
        unassigned=max(total - sum(target_shares.values()), 0),
        requeue_after=min(delays, default=None),
        first_ordinals=first_ordinals,
        is_limited_by_room=any(failure is NO_ROOM for failure in failures.values())
        or _is_limited(selected, target_shares, current_shares, demand),
    )


def _assign_ordinals(
    ordinals: OrdinalRange,
    selected: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
    retained: Mapping[str, int],
) -> dict[str, OrdinalRange]:
    def ranges_within(ceilings: Mapping[str, int]) -> dict[str, OrdinalRange]:
        staying = {
            name: part
            for name, part in current_shares.items()
            if part.replicas and (name in ceilings or name in retained)
        }
        held_ranges = {name: OrdinalRange(part.first_ordinal, part.replicas) for name, part in staying.items()}
        return assign_ranges(
            ordinals, held_ranges, ceilings, lambda total: assign_replicas(total, selected, policy, {}, demand)
        )

    ceilings = {
        site.name: max_replicas(site, policy, current_shares.get(site.name, NO_SHARE), demand) for site in selected
    }
    ranges = ranges_within(ceilings)
    if policy.depends_on_capacity or sum(each.count for each in ranges.values()) == ordinals.count:
        return ranges
    # What fits nowhere waits for room.
    return ranges_within({site.name: policy.maximum_of(site.name, site.labels) for site in selected})


def _is_limited(
    selected: Sequence[ClusterInfo],
    target_shares: Mapping[str, int],
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
) -> bool:
    """Returns whether a cluster has as many as it has room for, while another has more."""
    most = max(target_shares.values(), default=0)
    return any(
        share >= replica_capacity(site, current_shares.get(site.name, NO_SHARE), demand)
        for site in selected
        if (share := target_shares.get(site.name, 0)) < most
    )


def _stranded_shares(
    unassigned: int, retained: Mapping[str, int], current_shares: Mapping[str, CurrentShare]
) -> dict[str, int]:
    """Returns the shares that stay as they are because nobody takes the rest: those of which more runs than found nodes
    by the current pod template. A smaller share would let the rollout there end more of what runs.
    """
    shares = {}
    for name, held in sorted(retained.items()):
        stays = min(current_shares[name].replicas - held, unassigned)
        if stays > 0 and current_shares[name].available > held:
            shares[name] = held + stays
            unassigned -= stays
    return shares


def _takes(cluster: ClusterInfo, api: GVR | None) -> bool:
    refusal = cluster.apis.refusal_of(api) if api is not None else None
    return refusal is None or refusal.reason not in REFUSAL_REASONS


def _held_replicas(current_share: CurrentShare) -> int:
    """Replicas that found no node may leave."""
    limit = current_share.capacity_limit
    return current_share.replicas if limit is None else min(current_share.replicas, limit)


def _retained_shares(
    total: int, held_replicas: Mapping[str, int], current_shares: Mapping[str, CurrentShare], surge: int
) -> Mapping[str, int]:
    """Returns what such clusters hold, or their part of less if the object requests less than there is. More than it
    requests may exist elsewhere, while replicas move.
    """
    existing = sum(part.replicas for part in current_shares.values())
    if existing <= total + surge and sum(held_replicas.values()) <= total:
        return held_replicas
    bounds = [ShareBounds(name, part.replicas, maximum=part.replicas) for name, part in sorted(current_shares.items())]
    divided = divide_replicas(total, bounds)
    return {name: divided[name] for name in held_replicas}
