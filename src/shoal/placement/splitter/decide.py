"""What has to be done to the leaves of a root. Pure.

Where replicas go is the policy's matter (placement/decide.py); here names are found taken, leaves are made, put right
and removed. A cluster that is not ready keeps its replicas for the policy's grace, and its leaf for longer: when it
comes back it has to be told that it has none any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.kinds.leaves import leaf_name, leaf_of, renewed
from shoal.kinds.workload import assigned_to
from shoal.placement.decide import Placed, place
from shoal.placement.overrides import applies, overridden
from shoal.placement.policy import DEFAULT, NEVER, Policy
from shoal.placement.shapes import REPLICATED, Shape
from shoal.placement.sites import Part, Site

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Split:
    placed: Placed
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    absent: tuple[Object, ...] = ()
    """Leaves of clusters nobody knows of: to be deleted once it is certain that there are none."""
    leaves: tuple[Object, ...] = ()
    """Those that stay, as they are found."""
    taken: tuple[str, ...] = ()
    """Names of leaves that other objects have."""

    @property
    def unplaced(self) -> int:
        """Replicas for which no cluster is open."""
        return self.placed.unplaced

    @property
    def is_done(self) -> bool:
        return not self.create and not self.update


@dataclass(slots=True)
class _Found:
    """What is there already, by cluster."""

    sites: list[Site] = field(default_factory=list)
    leaves: dict[str, Object] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
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
    """`owned` are the objects that the root controls, `others` the names of all that it does not."""
    sites = list(sites)
    found = _survey(root, owned, set(others), sites)
    policy = policy_for(policy, root, shape)
    parts = {name: _part(leaf, shape) for name, leaf in found.leaves.items()}
    placed = place(shape.total(root), found.sites, policy, parts, shape.asks(root), now, shape.first(root))
    labels = {site.name: site.labels for site in sites}
    wanted = {name: _leaf(root, name, placed, policy, labels[name], shape) for name in placed.shares}
    known = labels.keys()
    return Split(
        placed,
        create=tuple(leaf for name, leaf in wanted.items() if name not in found.leaves),
        update=tuple(_updates(found.leaves, wanted, policy, labels)),
        delete=tuple(leaf for name, leaf in found.leaves.items() if name not in wanted and not _is_going(leaf))
        + tuple(leaf for leaf in found.strays if assigned_to(leaf) in known),
        absent=tuple(leaf for leaf in found.strays if assigned_to(leaf) not in known),
        leaves=tuple(leaf for name, leaf in found.leaves.items() if name in wanted),
        taken=tuple(found.taken),
    )


def policy_for(policy: Policy, root: Object, shape: Shape) -> Policy:
    """Copies are in every cluster. What has ordinals does not leave a cluster only because nothing is heard of it: the
    same pod would run twice."""
    if not shape.divides:
        return replace(policy, duplicate=True)
    return policy if shape.first(root) is None else replace(policy, grace=NEVER)


def _survey(root: Object, owned: Iterable[Object], others: set[str], sites: Iterable[Site]) -> _Found:
    by_name = {leaf["metadata"]["name"]: leaf for leaf in owned}
    found = _Found()
    for site in sites:
        name = leaf_name(root["metadata"]["name"], site.name)
        leaf = by_name.pop(name, None)
        if leaf is None and name in others:
            found.taken.append(name)
            continue
        found.sites.append(site)
        if leaf is not None:
            found.leaves[site.name] = leaf
    found.strays = [leaf for leaf in by_name.values() if not _is_going(leaf)]
    return found


def _part(leaf: Object, shape: Shape) -> Part:
    """One that is being deleted runs nothing for long; it comes anew when it is gone."""
    part = shape.part(leaf)
    return replace(part, available=0) if _is_going(leaf) else part


def _leaf(root: Object, name: str, placed: Placed, policy: Policy, labels: Mapping[str, str], shape: Shape) -> Object:
    share = placed.shares[name]
    given = share if shape.divides else None
    made = leaf_of(
        root, name, shape.content(root, share, placed.starts.get(name, 0)), share=given, away=name in placed.away
    )
    return overridden(made, policy, name, labels)


def _updates(
    leaves: Mapping[str, Object], wanted: Mapping[str, Object], policy: Policy, labels: Mapping[str, Mapping[str, str]]
) -> Iterable[Object]:
    for name, leaf in leaves.items():
        if name in wanted and not _is_going(leaf):
            changed = renewed(leaf, wanted[name], defaulted=not applies(policy, name, labels[name]))
            if changed is not None:
                yield changed


def _is_going(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]
