"""Computes the changes to the leaves of a root. Pure.

The policy decides where replicas go (placement/decide.py); this finds name conflicts and creates, updates and deletes
leaves. A cluster that is not ready keeps its replicas for the policy's grace period, and its leaf for longer: when it
comes back it has to see that it has none any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.resources import Resources
from shoal.kinds.leaves import CROWDED, leaf_name, leaf_of, renewed
from shoal.kinds.workload import assigned_to
from shoal.placement.choosing import Outlook
from shoal.placement.crowding import CALM, Crowding, crowding_of, looked_at, wakes, without_node
from shoal.placement.decide import Placed, place_in
from shoal.placement.overrides import applies, overridden
from shoal.placement.policy import DEFAULT, NEVER, Policy
from shoal.placement.shapes import REPLICATED, Batch, Shape
from shoal.placement.sites import Part, Site
from shoal.placement.splitter.jobs import split_job
from shoal.placement.splitter.outcome import Split
from shoal.placement.target import fits

Object = dict[str, Any]


@dataclass(slots=True)
class _Found:
    """Existing leaves, by cluster."""

    leaves: dict[str, Object] = field(default_factory=dict)
    strays: list[Object] = field(default_factory=list)


def split(
    root: Object,
    owned: Iterable[Object],
    others: Iterable[str],
    sites: Iterable[Site],
    now: float,
    policy: Policy = DEFAULT,
    shape: Shape = REPLICATED,
) -> Split:
    """`existing` are the objects that the root controls, `foreign_names` the names of all that it does not."""
    outlook = Outlook(sites, policy_for(policy, root, shape), now)
    return split_in(root, owned, frozenset(others), outlook, now, shape)


def split_in(
    root: Object, owned: Iterable[Object], others: Container[str], outlook: Outlook, now: float, shape: Shape
) -> Split:
    """Like `compute_changes`, with clusters that were filtered for `effective_policy` before."""
    if isinstance(shape, Batch):
        return split_job(root, owned, others, outlook, now, shape)
    policy, sites = outlook.policy, outlook.sites
    found = _survey(root, owned, sites)
    asks, first = shape.asks(root), shape.first(root)
    parts = {name: _part(leaf, shape) for name, leaf in found.leaves.items()}
    crowds: dict[str, Crowding] = {}
    if first is None and not policy.duplicate:
        crowds = _crowds(found.leaves, parts, sites, asks, now, policy.unschedulable)
        parts |= {name: replace(parts[name], most=crowd.most) for name, crowd in crowds.items()}
    taken: set[str] = set()
    while True:
        placed = place_in(shape.total(root), outlook, parts, asks, now, first)
        new = {name for name in placed.target.keys() | placed.shares.keys() if name not in parts}
        blocked = {name for name in new if leaf_name(root["metadata"]["name"], name) in others}
        if not blocked:
            break
        taken |= blocked
        outlook = Outlook((site for name, site in sites.items() if name not in taken), policy, now)
    crowded = {name: crowd.text() for name, crowd in crowds.items()}
    wanted = {
        name: _leaf(root, name, placed, policy, sites[name].labels, shape, crowded.get(name, ""))
        for name in placed.shares
    }
    waking = [wakes(crowd, now, policy.unschedulable) for crowd in crowds.values()]
    return Split(
        placed,
        create=tuple(leaf for name, leaf in wanted.items() if name not in found.leaves),
        update=tuple(_updates(found.leaves, wanted, policy, sites)),
        delete=tuple(leaf for name, leaf in found.leaves.items() if name not in wanted and not _is_going(leaf))
        + tuple(leaf for leaf in found.strays if assigned_to(leaf) in sites),
        absent=tuple(leaf for leaf in found.strays if assigned_to(leaf) not in sites),
        leaves=tuple(leaf for name, leaf in found.leaves.items() if name in wanted),
        taken=tuple(leaf_name(root["metadata"]["name"], name) for name in sorted(taken)),
        later=min((after for after in (placed.later, *waking) if after is not None), default=None),
    )


class Outlooks:
    """Caches one FilteredClusters per policy and way to divide, until the clusters change."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._made: dict[tuple[int, bool, bool], tuple[Policy, Outlook]] = {}
        """The policy is kept, so that its id is not reused."""

    def clear(self) -> None:
        self._made.clear()

    def of(self, policy: Policy, root: Object, shape: Shape, now: float) -> Outlook:
        key = id(policy), shape.divides, shape.first(root) is None
        _, found = self._made.get(key, (policy, None))
        if found is None or now >= found.until:
            found = Outlook(self._sites.values(), policy_for(policy, root, shape), now)
            self._made[key] = policy, found
        return found


def looks_at_room(split: Split, policy: Policy) -> bool:
    """Returns whether added capacity in some cluster may change something: for unassigned or unschedulable replicas,
    and where the cheapest clusters, or the first overflow groups, are to be filled.
    """
    crowded = any(CROWDED in (leaf["metadata"].get("annotations") or {}) for leaf in split.leaves)
    return bool(split.unplaced or crowded or policy.by == "Price" or policy.overflow)


def policy_for(policy: Policy, root: Object, shape: Shape) -> Policy:
    """Duplicated kinds are in every cluster. Kinds with ordinals do not leave a silent cluster: the same pod would run
    twice.
    """
    if not shape.divides:
        return replace(policy, duplicate=True)
    return policy if shape.first(root) is None else replace(policy, grace=NEVER)


def _survey(root: Object, owned: Iterable[Object], sites: Mapping[str, Site]) -> _Found:
    found = _Found()
    for leaf in sorted(owned, key=lambda one: str(one["metadata"]["name"])):
        cluster = assigned_to(leaf)
        if leaf["metadata"]["name"] != leaf_name(root["metadata"]["name"], cluster):
            cluster = _cluster_of(leaf, root, sites)
        if cluster in sites:
            found.leaves[cluster] = leaf
        elif not _is_going(leaf):
            found.strays.append(leaf)
    return found


def _cluster_of(leaf: Object, root: Object, sites: Iterable[str]) -> str:
    """Returns its cluster by its name, where somebody changed its label."""
    name = leaf["metadata"]["name"]
    return next((cluster for cluster in sites if leaf_name(root["metadata"]["name"], cluster) == name), "")


def _part(leaf: Object, shape: Shape) -> Part:
    """A leaf that is being deleted soon runs nothing; it is created again when it is gone."""
    part = shape.part(leaf)
    return replace(part, available=0) if _is_going(leaf) else part


def _crowds(
    leaves: Mapping[str, Object],
    parts: Mapping[str, Part],
    sites: Mapping[str, Site],
    asks: Resources,
    now: float,
    patience: float,
) -> dict[str, Crowding]:
    """Returns the backoff of clusters with unschedulable replicas, now or recently."""
    found = {}
    for name, leaf in leaves.items():
        before, stuck = crowding_of(leaf), without_node(leaf)
        if stuck or before != CALM:
            replicas = parts[name].replicas
            found[name] = looked_at(before, replicas, min(stuck, replicas), fits(sites[name], asks), now, patience)
    return found


def _leaf(
    root: Object,
    name: str,
    placed: Placed,
    policy: Policy,
    labels: Mapping[str, str],
    shape: Shape,
    crowded: str,
) -> Object:
    share = placed.shares[name]
    content = shape.content(root, share, placed.starts.get(name, 0))
    given = share if shape.divides else None
    made = leaf_of(root, name, content, share=given, away=name in placed.away, crowded=crowded)
    return overridden(made, policy, name, labels)


def _updates(
    leaves: Mapping[str, Object], wanted: Mapping[str, Object], policy: Policy, sites: Mapping[str, Site]
) -> Iterable[Object]:
    for name, leaf in leaves.items():
        if name in wanted and not _is_going(leaf):
            changed = renewed(leaf, wanted[name], defaulted=not applies(policy, name, sites[name].labels))
            if changed is not None:
                yield changed


def _is_going(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]
