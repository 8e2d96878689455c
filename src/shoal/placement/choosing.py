"""Filters the workload clusters an object may use, and selects among them. Pure. Every filter failure has a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, intolerances, untolerated
from shoal.placement.policy import NEVER, Policy, Spread
from shoal.placement.sites import NO_PART, Part, Site


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: str
    message: str
    keeps: bool = False
    """Existing replicas stay; the cluster only gets no more."""


def refusal(site: Site, policy: Policy, part: Part | None, now: float) -> Refusal | None:
    """Returns why the cluster gets no replicas, or no more; the first reason that applies. A new cluster is used at
    once, one that comes back is not.
    """
    if site.is_leaving(now):
        return Refusal("Leaving", "is deleted or to be left (evictAfter)")
    if policy.names and site.name not in policy.names:
        return Refusal("NotNamed", "is not among the names of the Placement")
    if not policy.affinity.matches(site.labels):
        return Refusal("AffinityMismatch", f"does not match affinity {policy.affinity}")
    if policy.anti_affinity.matches(site.labels):
        return Refusal("AntiAffinity", f"matches anti-affinity {policy.anti_affinity}")
    taint = untolerated(site.taints, policy.tolerations, (NO_EXECUTE,))
    if taint is not None:
        return Refusal("TaintNotTolerated", f"has taint {taint['key']}:{taint['effect']} that is not tolerated")
    if not site.ready:
        return _not_ready(site, policy, part, now)
    if not site.schedulable:
        return Refusal("Unschedulable", "is unschedulable; what is there stays", keeps=True)
    taint = untolerated(site.taints, policy.tolerations, (NO_SCHEDULE,))
    if taint is not None:
        words = f"has taint {taint['key']}:{taint['effect']} that is not tolerated; what is there stays"
        return Refusal("TaintNotTolerated", words, keeps=True)
    if part is not None and part.away and now < site.since + policy.fail_back:
        return Refusal(
            "FailBackWaits", f"came back; it is used when it was ready for {policy.fail_back:g}s", keeps=True
        )
    return None


def wakes(site: Site, policy: Policy, part: Part | None, now: float) -> float | None:
    """Returns the seconds until time alone changes the filter result."""
    if part is None and site.until is None:
        return None
    moments = [site.until] if site.until else []
    if part is not None and part.away and site.ready:
        moments.append(site.since + policy.fail_back)
    if part is not None and part.replicas and not site.ready:
        moments.append(site.since + policy.grace)
    return min((moment - now for moment in moments if now < moment < NEVER), default=None)


def _not_ready(site: Site, policy: Policy, part: Part | None, now: float) -> Refusal:
    if policy.duplicate and part is not None:
        return Refusal("NotReady", "is not ready; what is there stays", keeps=True)
    if part is not None and part.replicas and now < site.since + policy.grace:
        return Refusal("GracePeriod", f"is not ready; it keeps its replicas for {policy.grace:g}s", keeps=True)
    return Refusal("NotReady", "is not ready")


class Outlook:
    """Filter results of a policy for clusters in which an object has no share yet. They are the same for all objects,
    so they are computed once, and are valid until a cluster changes or `valid_until`.
    """

    def __init__(self, sites: Iterable[Site], policy: Policy, now: float) -> None:
        self.policy = policy
        self.sites = {site.name: site for site in sites}
        said = {name: refusal(site, policy, None, now) for name, site in self.sites.items()}
        self.refusals = {name: why for name, why in said.items() if why is not None}
        self.order = sorted((site for name, site in self.sites.items() if name not in self.refusals), key=_by_name)
        if policy.max_clusters is not None or policy.spread is not None:
            self.order.sort(key=lambda site: _rank(site, policy, 0))
        leaving = (site.until for site in self.sites.values() if site.until is not None and site.until > now)
        self.until = min(leaving, default=NEVER)

    def open(self, parts: Mapping[str, Part], refusals: Mapping[str, Refusal]) -> list[Site]:
        """Returns all feasible clusters, those with a current share first where that matters; no more than can be
        selected.
        """
        sites = [site for site in self.order if site.name not in refusals] if refusals else self.order
        policy = self.policy
        if policy.max_clusters is None and policy.spread is None:
            return sites
        held = {name: part.replicas for name, part in parts.items() if part.replicas}
        first = [self.sites[name] for name in sorted(held) if name in self.sites and name not in refusals]
        first.sort(key=lambda site: _rank(site, policy, held[site.name]))
        rest = (site for site in sites if site.name not in held)
        return [*first, *(rest if policy.spread is not None else islice(rest, policy.max_clusters))]


def chosen(ordered: Sequence[Site], policy: Policy, parts: Mapping[str, Part], kept: int = 0) -> list[Site]:
    """Selects at most as many clusters as the policy allows besides the `retained` ones, ordered by: current share,
    preference, fewest soft taints, lower price, more capacity, name.
    """
    if len(ordered) + kept < policy.min_clusters:
        return [site for site in ordered if parts.get(site.name, NO_PART).replicas]
    if policy.spread is not None:
        ordered = _in_turns(ordered, policy.spread, limited=policy.duplicate)
    return list(ordered if policy.max_clusters is None else ordered[: max(policy.max_clusters - kept, 0)])


def _by_name(site: Site) -> str:
    return site.name


def _rank(site: Site, policy: Policy, held: int) -> tuple[float, ...]:
    return (
        -policy.points_of(site.labels),
        intolerances(site.taints, policy.tolerations),
        site.price if site.price is not None else NEVER,
        -held,
        -(site.free or {}).get("cpu", 0),
    )


def _in_turns(ordered: Sequence[Site], spread: Spread, *, limited: bool) -> list[Site]:
    """Interleaves domains. Where duplicates are counted, no domain has more than the skew allows."""
    domains: dict[str, list[Site]] = {}
    for site in ordered:
        domains.setdefault(site.labels.get(spread.label, ""), []).append(site)
    if limited and domains and not spread.anyway:
        most = min(len(sites) for sites in domains.values()) + spread.max_skew
        domains = {name: sites[:most] for name, sites in domains.items()}
    turns = zip_longest(*domains.values())
    return [site for turn in turns for site in turn if site is not None]
