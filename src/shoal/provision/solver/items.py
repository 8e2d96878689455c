"""Items of the packing instance, and rules that limit which items share a node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.fit.ports import HostPort, ports_conflict
from shoal.fit.requirements import Requirement
from shoal.fit.resources import Resources
from shoal.provision.simulation.model import PodConstraints
from shoal.provision.solver.instance import UNBOUNDED, Bools, Ints

Object = dict[str, Any]


@dataclass(slots=True)
class PackingItem:
    """Pods with equal constraints and pools of the same weight."""

    requests: Resources
    constraints: PodConstraints
    ports: frozenset[HostPort]
    pool_weight: int
    pods: list[Object] = field(default_factory=list)


def host_rules(items: Sequence[PackingItem], allowed: Bools) -> tuple[Bools, Ints]:
    """Returns `counted` and `node_limits` of the instance: from hostname topologies, host ports, and requirements that
    no node satisfies together.
    """
    size = len(items)
    host_limits: list[tuple[Bools, Ints]] = []
    for number in sorted({rule for item in items for rule, _ in item.constraints.host_limits}):
        counted = np.asarray([number in item.constraints.host_topologies for item in items], np.bool_)
        limits = [dict(item.constraints.host_limits).get(number, UNBOUNDED) for item in items]
        host_limits.append((counted, np.asarray(limits, np.int64)))
    with_ports = [number for number, item in enumerate(items) if item.ports]
    for number in with_ports:
        against = np.zeros(size, np.bool_)
        against[[other for other in with_ports if ports_conflict(items[number].ports, items[other].ports)]] = True
        host_limits.append((against, _limit_for(size, [number], 1)))
    host_limits += _conflicts(items, allowed)
    shape = (len(host_limits), size)
    return (
        np.asarray([counted for counted, _ in host_limits], np.bool_).reshape(shape),
        np.asarray([limits for _, limits in host_limits], np.int64).reshape(shape),
    )


def _conflicts(items: Sequence[PackingItem], allowed: Bools) -> Iterable[tuple[Bools, Ints]]:
    """Items with incompatible requirements that have a common option."""
    items_by_requirements: dict[frozenset[Requirement], list[int]] = {}
    for number, item in enumerate(items):
        items_by_requirements.setdefault(frozenset(item.constraints.requirements.values()), []).append(number)
    requirement_groups = [
        (items[members[0]].constraints.requirements, members) for members in items_by_requirements.values()
    ]
    options = [allowed[:, members].any(axis=1) for _, members in requirement_groups]
    for number, (required, members) in enumerate(requirement_groups):
        against = np.zeros(len(items), np.bool_)
        for other, (other_required, others) in enumerate(requirement_groups):
            if other != number and (options[number] & options[other]).any() and not required.intersects(other_required):
                against[others] = True
        if against.any():
            yield against, _limit_for(len(items), members, 0)


def _limit_for(size: int, members: Sequence[int], limit: int) -> Ints:
    """A rule that limits only these items."""
    limits = np.full(size, UNBOUNDED, np.int64)
    limits[list(members)] = limit
    return limits
