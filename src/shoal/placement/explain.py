"""Explains why an object is in its clusters, and which single change would place it in another one. Pure.

Every suggested change was tried with the rules of placement itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.taints import HARD, untolerated
from shoal.kinds.workload import assigned_to
from shoal.objects.errors import NotFound
from shoal.objects.selectors import NOTHING
from shoal.placement.decide import place
from shoal.placement.fleet import Fleet
from shoal.placement.policy import DEFAULT, EVERYTHING, NEVER, Policy
from shoal.placement.shapes import Batch
from shoal.placement.sites import Part, Site
from shoal.placement.splitter.decide import policy_for
from shoal.placement.splitter.outcome import Split
from shoal.placement.target import room

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    cluster: str
    now: int
    """Current replicas; 1 for a duplicated kind."""
    then: int
    """Target replicas."""
    why: str
    change: str
    """The single change that would place replicas there; empty if there is none, or if it has some."""


@dataclass(frozen=True, slots=True)
class Explanation:
    total: int
    placement: str
    """The Placement that applies; empty if none selects it."""
    superseded: list[str]
    unplaced: int
    verdicts: list[Verdict]


def explain(fleet: Fleet, kind: str, namespace: str, name: str, now: float) -> Explanation:
    """Raises NotFound if there is no such root, StatusError if its Placement is invalid."""
    root = fleet.objects.get((kind, namespace, name))
    found = fleet.split(root, now) if root is not None else None
    if root is None or found is None:
        raise NotFound(f"no {kind} {namespace}/{name} is placed")
    candidates, split = found
    shape = fleet.shapes[kind]
    policy = candidates[0].policy if candidates else DEFAULT
    policy = policy_for(policy, root, shape)
    parts = {assigned_to(leaf): shape.part(leaf) for leaf in fleet.leaves_of(root)}
    sites, first = list(fleet.sites.values()), shape.first(root)
    started = isinstance(shape, Batch) and bool(parts)
    asked = _Asked(shape.total(root), sites, policy, parts, shape.asks(root), now, first, started)
    verdicts = [_verdict(asked, site, split) for site in sorted(fleet.sites.values(), key=lambda site: site.name)]
    names = [one.name for one in candidates]
    return Explanation(asked.total, names[0] if names else "", names[1:], split.unplaced, verdicts)


@dataclass(frozen=True, slots=True)
class _Asked:
    total: int
    sites: list[Site]
    policy: Policy
    parts: dict[str, Part]
    asks: dict[str, int]
    now: float
    first: int | None
    started: bool
    """A Job that was divided already, which is not done twice."""

    def gives(self, site: Site, policy: Policy) -> bool:
        """Returns whether the given state of the cluster would get replicas by that policy."""
        sites = [site if one.name == site.name else one for one in self.sites]
        placed = place(self.total, sites, policy, self.parts, self.asks, self.now, self.first)
        return placed.target.get(site.name, 0) > 0 and site.name not in placed.refusals


def _verdict(asked: _Asked, site: Site, split: Split) -> Verdict:
    now, then = asked.parts.get(site.name, Part()).replicas, split.placed.target.get(site.name, 0)
    refused = split.placed.refusals.get(site.name)
    if refused is not None:
        why = refused.message
    elif then:
        why = "is chosen"
    elif asked.started:
        why = "had no part when the Job was divided"
    elif asked.policy.by != "Weight" and not room(site, asked.parts.get(site.name, Part()), asked.asks):
        why = "has no room"
    elif asked.policy.max_clusters is not None:
        why = "could be used, but others come first"
    else:
        why = "gets none: there are not enough replicas for all"
    helpless = asked.started or (then and refused is None)
    change = "" if helpless else next((said for said, helps in _changes(asked, site) if helps), "")
    return Verdict(site.name, now, then, why, change)


def _changes(asked: _Asked, site: Site) -> Iterator[tuple[str, bool]]:
    policy = asked.policy
    if policy.names and site.name not in policy.names:
        yield (
            f"name {site.name} in clusters.names",
            asked.gives(site, replace(policy, names=policy.names | {site.name})),
        )
    if not policy.affinity.matches(site.labels):
        yield f"label it so that it matches {policy.affinity}", asked.gives(site, replace(policy, affinity=EVERYTHING))
    if policy.anti_affinity.matches(site.labels):
        said = f"label it so that it does not match {policy.anti_affinity}"
        yield said, asked.gives(site, replace(policy, anti_affinity=NOTHING))
    taint = untolerated(site.taints, policy.tolerations, HARD)
    if taint is not None:
        more = (*policy.tolerations, {"key": taint["key"], "operator": "Exists"})
        yield f"tolerate its taint {taint['key']}", asked.gives(site, replace(policy, tolerations=more))
    if not site.ready:
        ready = replace(site, ready=True, since=-NEVER)
        yield "make it ready", asked.gives(ready, policy)
    if not site.schedulable:
        yield "make it schedulable (spec.unschedulable: false)", asked.gives(replace(site, schedulable=True), policy)
    if policy.max_clusters is not None:
        most = policy.max_clusters + 1
        yield f"raise clusters.maxClusters to {most}", asked.gives(site, replace(policy, max_clusters=most))
    if policy.weight_of(site.name, site.labels) == 0:
        yield "give it a weight", asked.gives(site, replace(policy, weights=()))
    if site.free is not None and policy.by != "Weight":
        free = {name: amount + asked.asks.get(name, 0) for name, amount in site.free.items()}
        yield "make room there for one replica", asked.gives(replace(site, free=free), policy)
    if asked.total < len(asked.sites):
        more_replicas = replace(asked, total=len(asked.sites))
        yield f"ask for {len(asked.sites)} replicas", more_replicas.gives(site, policy)
