"""How a root Deployment is divided over workload Clusters. Pure.

The rule. Replicas are divided evenly over the clusters that are open: Ready, schedulable, not on their way out; the
first ones by name take what is left over. A cluster that is not Ready, or is unschedulable, keeps what it has, which
counts, and gets no more: not to hear from a cluster is no reason to move its pods. It shrinks only when the root asks
for less than such clusters hold. A leaf goes when its cluster is deleted or its `spec.evictAfter` is past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.deployments import replicas_of
from shoal.kinds.leaves import leaf_name, leaf_of, renewed
from shoal.kinds.workload import assigned_to, is_ready
from shoal.objects.duration import parse_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """What placement asks of a workload Cluster."""

    name: str
    ready: bool = True
    schedulable: bool = True
    until: float | None = None
    """When its leaves go; 0: now, it is being deleted."""

    def is_leaving(self, now: float) -> bool:
        return self.until is not None and self.until <= now

    def is_open(self, now: float) -> bool:
        return self.ready and self.schedulable and not self.is_leaving(now)


def site_of(cluster: Object) -> Site:
    spec, metadata = cluster.get("spec") or {}, cluster["metadata"]
    until = 0.0 if "deletionTimestamp" in metadata else parse_time(spec.get("evictAfter"))
    return Site(metadata["name"], is_ready(cluster), not spec.get("unschedulable"), until)


@dataclass(frozen=True, slots=True)
class Split:
    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    absent: tuple[Object, ...] = ()
    """Leaves of clusters nobody knows of: to be deleted once it is certain that there are none."""
    leaves: tuple[Object, ...] = ()
    """Those that stay, as they are found."""
    taken: tuple[str, ...] = ()
    """Names of leaves that other Deployments have."""
    unplaced: int = 0
    """Replicas for which no cluster is open."""
    later: float | None = None


@dataclass(slots=True)
class _Draft:
    held: dict[str, int] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    leaves: dict[str, Object] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def even(total: int, names: Sequence[str]) -> dict[str, int]:
    each, left = divmod(total, len(names)) if names else (0, 0)
    return {name: each + (place < left) for place, name in enumerate(names)}


def at_most(total: int, held: Mapping[str, int]) -> dict[str, int]:
    """What is held, cut down to a total, the largest first."""
    sizes: dict[str, int] = {}
    for place, (name, size) in enumerate(sorted(held.items(), key=lambda one: (one[1], one[0]))):
        sizes[name] = min(size, total // (len(held) - place))
        total -= sizes[name]
    return sizes


def shares(total: int, names: Sequence[str], held: Mapping[str, int]) -> dict[str, int]:
    """Replicas per cluster; `names` are open, `held` keep what they have as far as the total allows."""
    kept = at_most(total, held)
    return kept | even(total - sum(kept.values()), sorted(names))


def split(root: Object, owned: Iterable[Object], others: Iterable[str], sites: Iterable[Site], now: float) -> Split:
    """`owned` are the Deployments that the root controls, `others` the names of all that it does not."""
    by_name = {leaf["metadata"]["name"]: leaf for leaf in owned}
    sites, taken = list(sites), set(others)
    draft = _Draft()
    for site in sites:
        _survey(draft, site, leaf_name(root["metadata"]["name"], site.name), by_name, taken, now)
    known = {site.name for site in sites}
    strays = [leaf for leaf in by_name.values() if "deletionTimestamp" not in leaf["metadata"]]
    sizes = shares(replicas_of(root), draft.open, draft.held)
    wanted = {name: leaf_of(root, name, size) for name, size in sizes.items()}
    waking = [site.until - now for site in sites if site.until is not None and site.until > now]
    return Split(
        create=tuple(leaf for name, leaf in wanted.items() if name not in draft.leaves),
        update=tuple(
            changed
            for name, leaf in draft.leaves.items()
            if "deletionTimestamp" not in leaf["metadata"] and (changed := renewed(leaf, wanted[name])) is not None
        ),
        delete=(*draft.delete, *(leaf for leaf in strays if assigned_to(leaf) in known)),
        absent=tuple(leaf for leaf in strays if assigned_to(leaf) not in known),
        leaves=tuple(draft.leaves.values()),
        taken=tuple(draft.taken),
        unplaced=replicas_of(root) - sum(sizes.values()),
        later=min(waking, default=None),
    )


def _survey(draft: _Draft, site: Site, name: str, owned: dict[str, Object], taken: set[str], now: float) -> None:
    """Takes what is found of the site's leaf out of `owned`."""
    leaf = owned.pop(name, None)
    alive = leaf is not None and "deletionTimestamp" not in leaf["metadata"]
    if site.is_leaving(now):
        if leaf is not None and alive:
            draft.delete.append(leaf)
    elif leaf is None and name in taken:
        draft.taken.append(name)
    elif site.is_open(now):
        draft.open.append(site.name)
        if leaf is not None:
            draft.leaves[site.name] = leaf  # one that is being deleted comes anew when it is gone
    elif leaf is not None and alive:
        draft.held[site.name] = replicas_of(leaf)
        draft.leaves[site.name] = leaf
