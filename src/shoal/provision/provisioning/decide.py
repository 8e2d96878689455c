"""Which pods go where: onto nodes that are there or coming, and onto which new ones. Pure.

NodePools are tried by weight; each takes what it can, as cheaply as `packing` finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.ports import HostPort, clash
from shoal.fit.requirements import Requirement, Requirements, from_expressions, from_labels, from_pod
from shoal.fit.resources import Resources, add_to, fits, highest, pod_requests, subtract_from
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import INSTANCE_TYPE, POOL_LABEL, WELL_KNOWN, template_labels, template_spec, weight
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.provisioning.packing import (
    NODES,
    Accept,
    Bin,
    Budget,
    Contents,
    Option,
    Packer,
    how_many,
    times,
)
from shoal.provision.provisioning.pods import Group, Shape, groups
from shoal.provision.provisioning.reasons import why_not

Object = dict[str, Any]


@dataclass(slots=True)
class Place:
    """A node, or a NodeClaim that will be one."""

    name: str
    kind: str
    """Node or NodeClaim."""
    labels: Mapping[str, str]
    taints: Sequence[Object]
    free: Resources
    ports: set[HostPort] = field(default_factory=set)
    pods: list[Object] = field(default_factory=list)
    """Those that are there: only their labels matter."""
    claim: str = ""
    """Of a node: its NodeClaim, which pods may have been promised."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool that may buy, with what it may buy."""

    pool: Object
    types: Sequence[InstanceType]
    used: Resources
    """Of its limits, by the nodes it has; `nodes` is their number."""
    limits: Resources

    @property
    def name(self) -> str:
        return str(self.pool["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class NewClaim:
    pool: str
    name: str
    types: tuple[str, ...]
    """The cheapest first."""
    requirements: Requirements
    requests: Resources
    pods: tuple[Object, ...]
    price: float


@dataclass(frozen=True, slots=True)
class Plan:
    claims: tuple[NewClaim, ...] = ()
    nominations: tuple[tuple[Object, str, str], ...] = ()
    """Pod, kind and name of the place that was there already."""
    failures: tuple[tuple[Object, str], ...] = ()
    """Pod, and why it gets no node."""


def plan(
    pods: Iterable[Object],
    places: Sequence[Place],
    pools: Iterable[Pool],
    daemons: Sequence[Object],
    promised: Mapping[str, str],
) -> Plan:
    """`promised`: names of places by uid of the pods they were meant for. `daemons`: the DaemonSets."""
    nominations: list[tuple[Object, str, str]] = []
    waiting = _keep_promises(groups(pods), places, promised, nominations)
    _use_places(waiting, places, nominations)
    waiting = [group for group in waiting if group.pods]
    claims: list[NewClaim] = []
    reasons: list[list[str]] = [[] for _ in waiting]
    for pool in sorted(pools, key=lambda each: (-weight(each.pool), each.name)):
        options = _options(pool, daemons)
        claims += _buy(pool, options, waiting)
        for number, group in enumerate(waiting):
            if group.pods:
                reasons[number].append(why_not(group.shape, pool.name, pool.pool, pool.types, options, pool.limits))
    failures = [
        (pod, "; ".join(reasons[number]) or "there is no NodePool that is ready")
        for number, group in enumerate(waiting)
        for pod in group.pods
    ]
    return Plan(tuple(claims), tuple(nominations), tuple(failures))


def _keep_promises(
    found: list[Group], places: Sequence[Place], promised: Mapping[str, str], kept: list[tuple[Object, str, str]]
) -> list[Group]:
    by_name = {place.claim: place for place in places} | {place.name: place for place in places}
    for group in found:
        left = []
        for pod in group.pods:
            place = by_name.get(promised.get(pod["metadata"]["uid"], "-"))
            if place is not None and _put(group.shape, [pod], place):
                kept.append((pod, place.kind, place.name))
            else:
                left.append(pod)
        group.pods = left
    return found


def _use_places(found: list[Group], places: Sequence[Place], kept: list[tuple[Object, str, str]]) -> None:
    for group in found:
        for place in places:
            if not group.pods:
                break
            amount = _put(group.shape, group.pods, place)
            kept += [(pod, place.kind, place.name) for pod in group.pods[:amount]]
            group.pods = group.pods[amount:]


def _put(shape: Shape, pods: Sequence[Object], place: Place) -> int:
    """How many of them it takes."""
    if shape.problem or not fits(shape.requests, place.free) or clash(shape.ports, place.ports):
        return 0
    if untolerated(place.taints, shape.tolerations) is not None:
        return 0
    if not any(each.matches(place.labels) for each in shape.alternatives):
        return 0
    amount = how_many(shape.requests, place.free, len(pods))
    if shape.apart is not None:
        if any(shape.apart.matches(there["metadata"].get("labels") or {}) for there in place.pods):
            return 0
        amount = min(1, amount)
    if shape.ports:
        amount = min(1, amount)
    subtract_from(place.free, times(shape.requests, amount))
    place.ports |= shape.ports
    place.pods += pods[:amount]
    return amount


def _options(pool: Pool, daemons: Sequence[Object]) -> list[Option]:
    spec = template_spec(pool.pool)
    wanted = pool_requirements(pool.pool)
    taints = tuple(spec.get("taints") or ())
    found = []
    for kind in pool.types:
        for offering in kind.offerings:
            has = from_labels(offering.labels)
            if not offering.available or not has.intersects(wanted):
                continue
            both, obstacles = wanted.union(has), (*taints, *offering.taints)
            found.append(Option(kind, offering, both, obstacles, overhead(daemons, both, obstacles)))
    return found


def pool_requirements(pool: Object) -> Requirements:
    labels = {**template_labels(pool), POOL_LABEL: pool["metadata"]["name"]}
    return from_expressions(template_spec(pool).get("requirements")).union(from_labels(labels))


def overhead(daemons: Iterable[Object], requirements: Requirements, taints: Sequence[Object]) -> Resources:
    """What the DaemonSets' pods will take of a node like that."""
    total: Resources = {}
    for daemon in daemons:
        pod = daemon["spec"]["template"]
        spec = pod.get("spec") or {}
        if untolerated(taints, spec.get("tolerations") or ()) is not None:
            continue
        try:
            wanted = from_pod(spec)
        except ValueError:
            continue
        if requirements.compatible(wanted, WELL_KNOWN):
            add_to(total, pod_requests(pod))
    return total


def _buy(pool: Pool, options: list[Option], waiting: list[Group]) -> list[NewClaim]:
    if not options or not any(group.pods for group in waiting):
        return []
    packer = Packer(options, [group.shape for group in waiting], _flexibility(pool, options))
    bins = packer.best([len(group.pods) for group in waiting], _budget(pool, options, packer.accept is not None))
    claims = []
    for each in bins:
        for _ in range(each.times):
            pods: list[Object] = []
            for number, amount in each.contents:
                group = waiting[number]
                pods += group.pods[:amount]
                group.pods = group.pods[amount:]
            claims.append(_claim(pool, packer, each, pods))
    return claims


def _budget(pool: Pool, options: Sequence[Option], flexible: bool) -> Budget:
    left = {name: amount - pool.used.get(name, 0) for name, amount in pool.limits.items()}
    rooms = {option.offering.name: option.offering.room for option in options if option.offering.room is not None}
    if not flexible:
        return Budget(left, rooms)
    # Any of the types that a NodeClaim lists may come: the largest counts.
    largest = {**highest(option.kind.capacity for option in options), NODES: 1}
    return Budget(left, rooms, lambda option: largest)


def _flexibility(pool: Pool, options: Sequence[Option]) -> Accept | None:
    least = {each.key: each.min_values for each in pool_requirements(pool.pool).values() if each.min_values}
    if not least:
        return None

    def accept(requests: Resources, wanted: Requirements) -> bool:
        able = [each for each in options if can_hold(each, requests, wanted)]
        values = {key: {each.offering.labels.get(key) for each in able} - {None} for key in least}
        return all(len(values[key]) >= amount for key, amount in least.items())

    return accept


def can_hold(option: Option, requests: Resources, wanted: Requirements) -> bool:
    return fits(requests, option.space) and option.requirements.compatible(wanted, WELL_KNOWN)


def _claim(pool: Pool, packer: Packer, bought: Bin, pods: list[Object]) -> NewClaim:
    wanted = packer.wanted(bought.option, bought.contents)
    requests = _requests(packer, bought.contents)
    may = {name: bought.option.kind.capacity.get(name, 0) for name in pool.limits if name != NODES}
    flexible = packer.accept is not None
    able: dict[str, float] = {}
    for option in sorted(packer.options, key=lambda each: (each.offering.price, each.offering.name)):
        within = flexible or all(option.kind.capacity.get(name, 0) <= amount for name, amount in may.items())
        holds = option.taints == bought.option.taints and packer.holds(option, bought.contents)
        if within and holds and can_hold(option, requests, wanted):
            able.setdefault(option.kind.name, option.offering.price)
    able.setdefault(bought.option.kind.name, bought.option.offering.price)
    types = Requirement(INSTANCE_TYPE, False, frozenset(able))
    requirements = pool_requirements(pool.pool).union(wanted).add([types])
    add_to(requests, bought.option.overhead)
    return NewClaim(
        pool=pool.name,
        name=_name(pool, pods),
        types=tuple(able),
        requirements=requirements,
        requests=requests,
        pods=tuple(pods),
        price=bought.option.offering.price,
    )


def _requests(packer: Packer, contents: Contents) -> Resources:
    total: Resources = {}
    for number, amount in contents:
        add_to(total, times(packer.shapes[number].requests, amount))
    return total


def _name(pool: Pool, pods: Sequence[Object]) -> str:
    """The same for the same pods: a NodeClaim that was made and forgotten is not made twice."""
    text = "\n".join([pool.pool["metadata"].get("uid", ""), *sorted(pod["metadata"]["uid"] for pod in pods)])
    return f"{pool.name[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
