"""Filters the workload clusters an object may use, and selects among them. Pure. Every filter failure has a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from shoal.fit.room import PodDemand
from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, count_untolerated_preferred, first_untolerated
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.served_apis import NOT_SERVED
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.policy import NEVER, PlacementPolicy, SpreadConstraint


@dataclass(frozen=True, slots=True)
class FilterFailure:
    reason: str
    message: str
    keeps_replicas: bool = False
    """Existing replicas stay; the cluster only gets no more."""


EMPTY = FilterFailure("NoNodes", "has no nodes, and no NodePool to buy them", keeps_replicas=True)
NO_MATCHING_NODES = FilterFailure(
    "NoMatchingNodes", "has no nodes that match node selector, affinity and tolerations", keeps_replicas=True
)
NO_ROOM = FilterFailure("NoRoom", "has no node with room for one replica", keeps_replicas=True)
AFFINITY_REASONS = (WORKLOAD_AFFINITY, WORKLOAD_ANTI_AFFINITY) = "WorkloadAffinity", "WorkloadAntiAffinity"


def filter_cluster(
    cluster: ClusterInfo,
    policy: PlacementPolicy,
    current_share: CurrentShare | None,
    now: float,
    api: GVR | None = None,
) -> FilterFailure | None:
    """Returns why the cluster gets no replicas, or no more; the first reason that applies. A new cluster is used at
    once, one that comes back is not. `api` is that of the object.
    """
    if cluster.is_evicted(now):
        return FilterFailure("Leaving", "is being deleted or evicted (evictAfter)")
    if policy.cluster_names and cluster.name not in policy.cluster_names:
        return FilterFailure("NotNamed", "is not in clusters.names of the Placement")
    if policy.is_following:
        return _filter_api(cluster, api)
    if not policy.affinity.matches(cluster.labels):
        return FilterFailure("AffinityMismatch", f"does not match affinity {policy.affinity}")
    if policy.anti_affinity.matches(cluster.labels):
        return FilterFailure("AntiAffinity", f"matches anti-affinity {policy.anti_affinity}")
    taint = first_untolerated(cluster.taints, policy.tolerations, (NO_EXECUTE,))
    if taint is not None:
        return FilterFailure("TaintNotTolerated", f"has untolerated taint {taint['key']}:{taint['effect']}")
    if not cluster.ready:
        return _filter_not_ready(cluster, policy, current_share, now)
    refusal = _filter_api(cluster, api)
    if refusal is not None:
        return refusal
    if not cluster.schedulable:
        return FilterFailure("Unschedulable", "is unschedulable; its leaf stays", keeps_replicas=True)
    taint = first_untolerated(cluster.taints, policy.tolerations, (NO_SCHEDULE,))
    if taint is not None:
        words = f"has untolerated taint {taint['key']}:{taint['effect']}; its leaf stays"
        return FilterFailure("TaintNotTolerated", words, keeps_replicas=True)
    if current_share is not None and current_share.was_evicted and now < cluster.since + policy.fail_back_seconds:
        return FilterFailure(
            "FailBackWaits",
            f"is ready again; it is used after it was ready for {policy.fail_back_seconds:g}s",
            keeps_replicas=True,
        )
    return _filter_workloads(cluster, policy, current_share)


def room_failures(
    filtered: FilteredClusters,
    failures: Mapping[str, FilterFailure],
    current_shares: Mapping[str, CurrentShare],
    demand: PodDemand,
) -> dict[str, FilterFailure]:
    """Returns the clusters that fail for want of room. Clusters that are full are left out only if others are not."""
    if demand.spec is None:
        return {}
    unsuitable, full, has_room = {}, {}, False
    for name, cluster in filtered.clusters.items():
        if name in failures or cluster.room is None:
            has_room |= name not in failures
            continue
        estimate = cluster.room.estimate(demand)
        if not estimate.has_matching_nodes:
            unsuitable[name] = EMPTY if cluster.room.is_empty else NO_MATCHING_NODES
        elif estimate.replicas == 0 and not current_shares.get(name, NO_SHARE).replicas:
            full[name] = NO_ROOM
        else:
            has_room = True
    return unsuitable | full if has_room and not filtered.policy.is_duplicate else unsuitable


def seconds_until_change(
    cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare | None, now: float
) -> float | None:
    """Returns the seconds until time alone changes the filter result."""
    if current_share is None and cluster.until is None:
        return None
    changes_at = [cluster.until] if cluster.until else []
    if current_share is not None and current_share.was_evicted and cluster.ready:
        changes_at.append(cluster.since + policy.fail_back_seconds)
    if current_share is not None and current_share.replicas and not cluster.ready:
        changes_at.append(cluster.since + policy.grace_seconds)
    return min((moment - now for moment in changes_at if now < moment < NEVER), default=None)


def _filter_not_ready(
    cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare | None, now: float
) -> FilterFailure:
    if policy.is_duplicate and current_share is not None:
        return FilterFailure("NotReady", "is not ready; its leaf stays", keeps_replicas=True)
    if current_share is not None and current_share.replicas and now < cluster.since + policy.grace_seconds:
        return FilterFailure(
            "GracePeriod", f"is not ready; it keeps its replicas for {policy.grace_seconds:g}s", keeps_replicas=True
        )
    return FilterFailure("NotReady", "is not ready")


def _filter_workloads(
    cluster: ClusterInfo, policy: PlacementPolicy, current_share: CurrentShare | None
) -> FilterFailure | None:
    """What runs is not removed when the other objects come or go."""
    term = next((one for one in policy.workload_terms if one.is_required and not one.is_met_by(cluster.name)), None)
    if term is None:
        return None
    nowhere = "" if term.clusters else ", which is placed nowhere"
    message = f"has {term}" if term.is_anti else f"has no {term}{nowhere}"
    stays = "; its replicas stay" if current_share is not None and current_share.replicas else ""
    reason = WORKLOAD_ANTI_AFFINITY if term.is_anti else WORKLOAD_AFFINITY
    return FilterFailure(reason, f"{message}{stays}", keeps_replicas=True)


def _filter_api(cluster: ClusterInfo, api: GVR | None) -> FilterFailure | None:
    """What still runs by another schema stays. What is not served any more does not run."""
    refusal = cluster.apis.refusal_of(api) if api is not None else None
    if refusal is None:
        return None
    return FilterFailure(refusal.reason, refusal.message, keeps_replicas=refusal.reason != NOT_SERVED)


class FilteredClusters:
    """Filter results of a policy for clusters in which an object has no share yet. They are the same for all objects
    of an API, so they are computed once, and are valid until a cluster changes or `valid_until`.
    """

    def __init__(
        self, clusters: Iterable[ClusterInfo], policy: PlacementPolicy, now: float, api: GVR | None = None
    ) -> None:
        self.policy, self.api = policy, api
        self.clusters = {site.name: site for site in clusters}
        results = {name: filter_cluster(site, policy, None, now, api) for name, site in self.clusters.items()}
        self.failures = {name: failure for name, failure in results.items() if failure is not None}
        self.feasible = sorted(
            (site for name, site in self.clusters.items() if name not in self.failures), key=_cluster_name
        )
        if policy.max_clusters is not None or policy.spread is not None:
            self.feasible.sort(key=lambda site: _preference_rank(site, policy, 0))
        evictions = (site.until for site in self.clusters.values() if site.until is not None and site.until > now)
        self.valid_until = min(evictions, default=NEVER)

    def feasible_for(
        self, current_shares: Mapping[str, CurrentShare], failures: Mapping[str, FilterFailure]
    ) -> list[ClusterInfo]:
        """Returns all feasible clusters, those with a current share first where that matters; no more than can be
        selected.
        """
        clusters = [site for site in self.feasible if site.name not in failures] if failures else self.feasible
        policy = self.policy
        if policy.max_clusters is None and policy.spread is None:
            return clusters
        replicas_by_cluster = {name: part.replicas for name, part in current_shares.items() if part.replicas}
        used = [
            self.clusters[name]
            for name in sorted(replicas_by_cluster)
            if name in self.clusters and name not in failures
        ]
        used.sort(key=lambda site: _preference_rank(site, policy, replicas_by_cluster[site.name]))
        unused = (site for site in clusters if site.name not in replicas_by_cluster)
        return [*used, *(unused if policy.spread is not None else islice(unused, policy.max_clusters))]


def select_clusters(
    ordered: Sequence[ClusterInfo],
    policy: PlacementPolicy,
    current_shares: Mapping[str, CurrentShare],
    retained: int = 0,
) -> list[ClusterInfo]:
    """Selects at most as many clusters as the policy allows besides the `retained` ones, ordered by: current share,
    preference, fewest soft taints, lower price, more capacity, name.
    """
    if len(ordered) + retained < policy.min_clusters:
        return [site for site in ordered if current_shares.get(site.name, NO_SHARE).replicas]
    if policy.spread is not None:
        ordered = _interleave_domains(ordered, policy.spread, is_limited=policy.is_duplicate)
    return list(ordered if policy.max_clusters is None else ordered[: max(policy.max_clusters - retained, 0)])


def _cluster_name(cluster: ClusterInfo) -> str:
    return cluster.name


def _preference_rank(cluster: ClusterInfo, policy: PlacementPolicy, replicas: int) -> tuple[float, ...]:
    return (
        -policy.preference_of(cluster.name, cluster.labels),
        count_untolerated_preferred(cluster.taints, policy.tolerations),
        cluster.price if cluster.price is not None else NEVER,
        -replicas,
        -(cluster.free or {}).get("cpu", 0),
    )


def _interleave_domains(
    ordered: Sequence[ClusterInfo], spread: SpreadConstraint, *, is_limited: bool
) -> list[ClusterInfo]:
    """Interleaves domains. Where duplicates are counted, no domain has more than the skew allows."""
    domains: dict[str, list[ClusterInfo]] = {}
    for site in ordered:
        domains.setdefault(site.labels.get(spread.label, ""), []).append(site)
    if is_limited and domains and not spread.place_anyway:
        maximum = min(len(sites) for sites in domains.values()) + spread.max_skew
        domains = {name: sites[:maximum] for name, sites in domains.items()}
    rounds = zip_longest(*domains.values())
    return [site for round_clusters in rounds for site in round_clusters if site is not None]
