"""Items of the packing instance, and rules that limit which items share a node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.fit.ports import HostPort, clash
from shoal.fit.requirements import Requirement
from shoal.fit.resources import Resources
from shoal.provision.simulation.model import Ask
from shoal.provision.solver.instance import MANY, Bools, Ints

Object = dict[str, Any]


@dataclass(slots=True)
class Item:
    """Pods with equal constraints and pools of the same weight."""

    requests: Resources
    ask: Ask
    ports: frozenset[HostPort]
    weight: int
    pods: list[Object] = field(default_factory=list)


def rules(items: Sequence[Item], allowed: Bools) -> tuple[Bools, Ints]:
    """Returns `counted` and `node_limits` of the instance: from hostname topologies, host ports, and requirements that
    no node satisfies together.
    """
    size = len(items)
    found: list[tuple[Bools, Ints]] = []
    for number in sorted({rule for item in items for rule, _ in item.ask.most}):
        counted = np.asarray([number in item.ask.counts for item in items], np.bool_)
        most = [dict(item.ask.most).get(number, MANY) for item in items]
        found.append((counted, np.asarray(most, np.int64)))
    with_ports = [number for number, item in enumerate(items) if item.ports]
    for number in with_ports:
        against = np.zeros(size, np.bool_)
        against[[other for other in with_ports if clash(items[number].ports, items[other].ports)]] = True
        found.append((against, _only(size, [number], 1)))
    found += _disagreements(items, allowed)
    shape = (len(found), size)
    return (
        np.asarray([counted for counted, _ in found], np.bool_).reshape(shape),
        np.asarray([most for _, most in found], np.int64).reshape(shape),
    )


def _disagreements(items: Sequence[Item], allowed: Bools) -> Iterable[tuple[Bools, Ints]]:
    """Items with incompatible requirements that have a common option."""
    kinds: dict[frozenset[Requirement], list[int]] = {}
    for number, item in enumerate(items):
        kinds.setdefault(frozenset(item.ask.requirements.values()), []).append(number)
    wishes = [(items[members[0]].ask.requirements, members) for members in kinds.values()]
    reach = [allowed[:, members].any(axis=1) for _, members in wishes]
    for number, (wish, members) in enumerate(wishes):
        against = np.zeros(len(items), np.bool_)
        for other, (its, others) in enumerate(wishes):
            if other != number and (reach[number] & reach[other]).any() and not wish.intersects(its):
                against[others] = True
        if against.any():
            yield against, _only(len(items), members, 0)


def _only(size: int, members: Sequence[int], most: int) -> Ints:
    """A rule that limits only these items."""
    found = np.full(size, MANY, np.int64)
    found[list(members)] = most
    return found
