"""Computes which nodes a change of pods would add or remove in one cluster, and the cost, from a snapshot. Pure.

It runs the same simulation as the controllers; nothing is launched. Volume topology is not considered here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.requirements import from_labels
from shoal.fit.resources import amounts, pod_requests
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MACHINE_DEPLOYMENT,
    NEVER,
    READY,
    ZONE,
    annotation,
    class_ref,
    is_going,
    is_managed,
    pool_of,
    provider_id,
    template_spec,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.clusterapi.offers import instance_types
from shoal.provision.clusterapi.prices import PriceList
from shoal.provision.clusterapi.sellers import is_open, of_deployment, selected
from shoal.provision.overlays import overlaid
from shoal.provision.pods import is_of_the_node, is_provisionable
from shoal.provision.provisioning.places import places, used
from shoal.provision.simulation.model import NewClaim, Pool, Question
from shoal.provision.simulation.rule import simulate
from shoal.provision.solver.adapting import improve

Object = dict[str, Any]
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of one cluster that decide about its nodes."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    claims: Sequence[Object]
    pools: Sequence[Object]
    classes: Mapping[str, Object]
    overlays: Sequence[Object] = ()
    daemons: Sequence[Object] = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    deployments: Sequence[Object] = ()
    """MachineDeployments of its Cluster API Cluster, including those that nothing is bought from."""
    prices: PriceList = field(default_factory=PriceList)


@dataclass(frozen=True, slots=True)
class Bought:
    pool: str
    type: str
    """The cheapest feasible type."""
    pods: int
    price: float


@dataclass(frozen=True, slots=True)
class Preview:
    bought: tuple[Bought, ...]
    emptied: tuple[str, ...]
    """Nodes that would run no pods and that their NodePool would remove."""
    unplaced: int
    """Pods that would get no node."""
    before: float
    after: float
    """Hourly cost of the nodes."""
    unpriced: int = 0
    """Nodes without a known price."""


def preview(
    seen: Snapshot,
    more: Sequence[Object] = (),
    gone: Collection[str] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Preview:
    """Adds the pods `added` and removes those in `removed_uids`. When `stop` returns True, no cheaper plan is searched
    for any more.
    """
    pods = [pod for pod in seen.pods if pod["metadata"]["uid"] not in gone and not _ended(pod)]
    question = _question(seen, pods, more)
    plan, _ = improve(question, simulate(question), stop=stop)
    known, unpriced = prices(seen)
    emptied = _emptied(seen, pods, {place for _, _, place in plan.nominations}) if gone else ()
    before = sum(known.values())
    return Preview(
        tuple(_bought(claim) for claim in plan.claims),
        emptied,
        len(plan.failures),
        before,
        before + plan.cost - sum(known.get(name, 0.0) for name in emptied),
        unpriced,
    )


def _question(seen: Snapshot, pods: Sequence[Object], more: Sequence[Object]) -> Question:
    on: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        on[(pod.get("spec") or {}).get("nodeName") or ""].append(pod)
    waiting = [pod for pod in on[""] if is_provisionable(pod)]
    there = places(seen.nodes, seen.claims, {}, seen.daemons, lambda node: on.get(node, ()), pod_requests)
    return Question(
        [*waiting, *more],
        there,
        [_pool(seen, pool) for pool in seen.pools if _buys(pool)],
        seen.daemons,
        namespaces=seen.namespaces or {},
    )


def _buys(pool: Object) -> bool:
    return condition_is(pool, READY) and not is_going(pool) and is_managed(template_spec(pool))


def _pool(seen: Snapshot, pool: Object) -> Pool:
    types = overlaid(
        _types(seen, seen.classes.get(class_ref(template_spec(pool)).get("name", ""))), seen.overlays, pool
    )
    limits = amounts((pool.get("spec") or {}).get("limits"))
    return Pool(pool, types, used(seen.claims, pool["metadata"]["name"], {}), limits)


def _types(seen: Snapshot, node_class: Object | None) -> list[InstanceType]:
    """Instance types that the node class can buy; without a class, those that any node of the cluster may have."""
    chosen = [each for each in seen.deployments if node_class is None or (is_open(each) and selected(each, node_class))]
    sellers = [of_deployment(each, None, seen.prices) for each in chosen]
    claimed = Counter(annotation(claim, MACHINE_DEPLOYMENT) for claim in seen.claims)
    return instance_types([each for each in sellers if each.capacity], claimed)


def prices(seen: Snapshot) -> tuple[dict[str, float], int]:
    """Returns prices by name of the node, or of the NodeClaim that will become one, and the number of nodes without a
    price.
    """
    plain = _types(seen, None)
    of_pool = {pool["metadata"]["name"]: overlaid(plain, seen.overlays, pool) for pool in seen.pools}
    known = {provider_id(claim) for claim in seen.claims if provider_id(claim)} & {_id(node) for node in seen.nodes}
    coming = [claim for claim in seen.claims if provider_id(claim) not in known and not is_going(claim)]
    found: dict[str, float] = {}
    unpriced = 0
    for each in [*seen.nodes, *coming]:
        price = _price(each["metadata"].get("labels") or {}, of_pool.get(pool_of(each), plain))
        if price is None:
            unpriced += 1
        else:
            found[each["metadata"]["name"]] = price
    return found, unpriced


def _price(labels: Mapping[str, str], types: Sequence[InstanceType]) -> float | None:
    wanted = from_labels({key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels})
    if INSTANCE_TYPE not in labels:
        return None
    offerings = (each for kind in types if kind.name == labels[INSTANCE_TYPE] for each in kind.offerings)
    return min((each.price for each in offerings if from_labels(each.labels).intersects(wanted)), default=None)


def _emptied(seen: Snapshot, pods: Sequence[Object], promised: Collection[str]) -> tuple[str, ...]:
    """Only nodes of a NodePool are removed."""
    busy = {(pod.get("spec") or {}).get("nodeName") for pod in pods if not is_of_the_node(pod)}
    patient = {
        pool["metadata"]["name"]
        for pool in seen.pools
        if ((pool.get("spec") or {}).get("disruption") or {}).get("consolidateAfter") != NEVER
    }
    was_busy = {
        (pod.get("spec") or {}).get("nodeName") for pod in seen.pods if not (is_of_the_node(pod) or _ended(pod))
    }
    names = (node["metadata"]["name"] for node in seen.nodes if pool_of(node) in patient and not is_going(node))
    return tuple(sorted(name for name in names if name in was_busy and name not in busy and name not in promised))


def _bought(claim: NewClaim) -> Bought:
    return Bought(claim.pool, claim.types[0], len(claim.pods), claim.price)


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _id(node: Object) -> str:
    return str((node.get("spec") or {}).get("providerID") or "")
