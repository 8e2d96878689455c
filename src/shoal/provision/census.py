"""Metrics computed from ClusterState at scrape time (nodes, pools, usage, cost) and pod startup latencies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.fit.resources import CPU, Resources, add_to, allocatable, amounts, capacity, subtract, total
from shoal.kinds.karpenter import INSTANCE_TYPE, LAUNCHED, class_ref, pool_of, template_spec
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.provision import metrics
from shoal.provision.cloudprovider import CloudProvider, InstanceType, ProviderError
from shoal.provision.disruption.prices import price_of
from shoal.provision.overlays import overlaid
from shoal.provision.pods import is_of_the_node
from shoal.provision.view import View

Object = dict[str, Any]
Value = tuple[str, Mapping[str, str], float]


class Census:
    name = "provision-census"

    def __init__(self, view: View, provider: CloudProvider, clock: Clock) -> None:
        self._view, self._provider, self._clock = view, provider, clock
        view.pools.listen(self._pool)
        view.pods.listen(self._pod)

    async def run(self) -> None:
        view = self._view
        with ExitStack() as while_it_runs:
            for lookup, read in (
                (metrics.STATE_SYNCED, lambda: [("", {}, float(view.synced))]),
                (metrics.STATE_NODES, self._node_counts),
                (metrics.NODES_ALLOCATABLE, lambda: self._nodes(lambda _, node: allocatable(node))),
                (metrics.NODES_OVERHEAD, lambda: self._nodes(_overhead)),
                (metrics.NODES_POD_REQUESTS, lambda: self._nodes(self._requests)),
                (metrics.NODES_DAEMON_REQUESTS, lambda: self._nodes(self._daemon_requests)),
                (metrics.NODES_AGE, self._ages),
                (metrics.NODEPOOLS_USAGE, lambda: self._pools("status", "resources")),
                (metrics.NODEPOOLS_LIMIT, lambda: self._pools("spec", "limits")),
                (metrics.NODEPOOLS_COST, self._costs),
                (metrics.NODES_COST, self._node_costs),
                (metrics.UTILIZATION, self._utilization),
            ):
                while_it_runs.enter_context(lookup.read_by(read))
            await asyncio.Event().wait()

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            metrics.forget_pool(key[0], key[2])

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Observes only pods that were seen before they reached the condition."""
        if old is None or new is None:
            return
        created = parse_time(new["metadata"].get("creationTimestamp"))
        for condition, seconds in (
            ("PodScheduled", metrics.PODS_BOUND_SECONDS),
            ("Ready", metrics.PODS_STARTUP_SECONDS),
        ):
            if created is not None and condition_is(new, condition) and not condition_is(old, condition):
                at = parse_time((get_condition(new, condition) or {}).get("lastTransitionTime"))
                seconds.observe(key[0], max(0.0, (at or created) - created))

    def _managed(self) -> Iterator[tuple[str, Object]]:
        for cluster in self._view.nodes.clusters():
            for node in self._view.nodes.of(cluster):
                if pool_of(node):
                    yield cluster, node

    def _node_counts(self) -> Iterator[Value]:
        for cluster in self._view.nodes.clusters():
            yield cluster, {}, float(len(self._view.nodes.of(cluster)))

    def _nodes(self, read: Callable[[str, Object], Resources]) -> Iterator[Value]:
        for cluster, node in self._managed():
            labels = {"node_name": node["metadata"]["name"], "nodepool": pool_of(node)}
            yield from _each(cluster, labels, read(cluster, node))

    def _requests(self, cluster: str, node: Object) -> Resources:
        return total(map(self._view.requests, self._pods_on(cluster, node)))

    def _daemon_requests(self, cluster: str, node: Object) -> Resources:
        return total(self._view.requests(pod) for pod in self._pods_on(cluster, node) if is_of_the_node(pod))

    def _pods_on(self, cluster: str, node: Object) -> Iterable[Object]:
        pods = self._view.pods_on(cluster, node["metadata"]["name"])
        return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]

    def _ages(self) -> Iterator[Value]:
        now = self._clock.now()
        for cluster, node in self._managed():
            labels = {"node_name": node["metadata"]["name"], "nodepool": pool_of(node)}
            yield cluster, labels, now - (parse_time(node["metadata"].get("creationTimestamp")) or now)

    def _pools(self, part: str, field: str) -> Iterator[Value]:
        for cluster in self._view.pools.clusters():
            for pool in self._view.pools.of(cluster):
                found = amounts((pool.get(part) or {}).get(field))
                yield from _each(cluster, {"nodepool": pool["metadata"]["name"]}, found)

    def _costs(self) -> Iterator[Value]:
        for cluster in self._view.pools.clusters():
            for pool in self._view.pools.of(cluster):
                cost = sum(price for _, price in self._priced(cluster, pool))
                yield cluster, {"nodepool": pool["metadata"]["name"]}, cost

    def _node_costs(self) -> Iterator[Value]:
        for cluster in self._view.pools.clusters():
            for pool in self._view.pools.of(cluster):
                for claim, price in self._priced(cluster, pool):
                    if node := (claim.get("status") or {}).get("nodeName"):
                        yield cluster, {"node_name": node, "nodepool": pool["metadata"]["name"]}, price

    def _priced(self, cluster: str, pool: Object) -> Iterator[tuple[Object, float]]:
        """NodeClaims of a pool with their hourly price."""
        name, types = pool["metadata"]["name"], self._types(cluster, pool)
        for claim in self._view.claims.of(cluster):
            if pool_of(claim) == name and condition_is(claim, LAUNCHED):
                labels = claim["metadata"].get("labels") or {}
                yield claim, price_of(types.get(labels.get(INSTANCE_TYPE, "")), labels)

    def _types(self, cluster: str, pool: Object) -> dict[str, InstanceType]:
        node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
        if node_class is None:
            return {}
        try:
            found = self._provider.instance_types(cluster, node_class)
        except ProviderError:
            return {}  # prices are not known yet
        return {each.name: each for each in overlaid(found, self._view.overlays.of(cluster), pool)}

    def _utilization(self) -> Iterator[Value]:
        have: dict[str, Resources] = {}
        asked: dict[str, Resources] = {}
        for cluster, node in self._managed():
            add_to(have.setdefault(cluster, {}), allocatable(node))
            add_to(asked.setdefault(cluster, {}), self._requests(cluster, node))
        for cluster, there in have.items():
            for name, amount in there.items():
                if amount > 0:
                    yield cluster, {"resource_type": name}, 100.0 * asked[cluster].get(name, 0) / amount


def _overhead(cluster: str, node: Object) -> Resources:
    return subtract(capacity(node), allocatable(node))


def _each(cluster: str, labels: Mapping[str, str], resources: Resources) -> Iterator[Value]:
    for name, amount in resources.items():
        yield cluster, {**labels, "resource_type": name}, amount / 1000 if name == CPU else float(amount)
