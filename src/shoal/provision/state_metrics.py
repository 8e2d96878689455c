"""Metrics computed from ClusterState at scrape time (nodes, pools, usage, cost) and pod startup latencies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.fit.resources import (
    CPU,
    Resources,
    add_to,
    allocatable,
    capacity,
    parse_amounts,
    pod_limits,
    subtract,
    total,
)
from shoal.kinds.karpenter.karpenter import INSTANCE_TYPE, LAUNCHED, node_class_ref, nodepool_of, nodepool_template_spec
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.provision import metrics
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays
from shoal.provision.cloudprovider.types import CloudProvider, InstanceType, ProviderError
from shoal.provision.disruption.prices import node_price
from shoal.provision.pods import is_node_owned
from shoal.provision.state import ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
MetricSample = tuple[str, Mapping[str, str], float]


class StateMetrics:
    name = "provision-census"

    def __init__(self, state: ClusterState, provider: CloudProvider, clock: Clock) -> None:
        self._state, self._provider, self._clock = state, provider, clock
        self._last_synced = clock.monotonic()
        state.node_pools.add_event_handler(self._on_pool)
        state.pods.add_event_handler(self._on_pod)

    async def run(self) -> None:
        state = self._state
        with ExitStack() as registrations:
            for lookup, read in (
                (metrics.STATE_SYNCED, lambda: [("", {}, float(state.has_synced))]),
                (metrics.STATE_UNSYNCED_SECONDS, self._unsynced_seconds),
                (metrics.STATE_NODES, self._node_counts),
                (metrics.NODES_ALLOCATABLE, lambda: self._node_resources(lambda _, node: allocatable(node))),
                (metrics.NODES_OVERHEAD, lambda: self._node_resources(_overhead)),
                (metrics.NODES_POD_REQUESTS, lambda: self._node_resources(self._pod_requests)),
                (metrics.NODES_DAEMON_REQUESTS, lambda: self._node_resources(self._daemon_requests)),
                (metrics.NODES_POD_LIMITS, lambda: self._node_resources(self._pod_limits)),
                (metrics.NODES_DAEMON_LIMITS, lambda: self._node_resources(self._daemon_limits)),
                (metrics.NODES_AGE, self._node_ages),
                (metrics.NODEPOOLS_USAGE, lambda: self._pool_resources("status", "resources")),
                (metrics.NODEPOOLS_LIMIT, lambda: self._pool_resources("spec", "limits")),
                (metrics.NODEPOOLS_COST, self._pool_costs),
                (metrics.NODES_COST, self._node_costs),
                (metrics.UTILIZATION, self._utilization),
            ):
                registrations.enter_context(lookup.registration(read))
            await asyncio.Event().wait()

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            metrics.forget_pool(key[0], key[2])

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
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

    def _managed_nodes(self) -> Iterator[tuple[str, Object]]:
        for cluster in self._state.clusters_in(self._state.nodes):
            for node in self._state.nodes.by_index(by_cluster, cluster):
                if nodepool_of(node):
                    yield cluster, node

    def _unsynced_seconds(self) -> Iterator[MetricSample]:
        """Counts from the last scrape that found the state synced, or from the start."""
        now = self._clock.monotonic()
        if self._state.has_synced:
            self._last_synced = now
        yield "", {}, now - self._last_synced

    def _node_counts(self) -> Iterator[MetricSample]:
        for cluster in self._state.clusters_in(self._state.nodes):
            yield cluster, {}, float(len(self._state.nodes.by_index(by_cluster, cluster)))

    def _node_resources(self, read: Callable[[str, Object], Resources]) -> Iterator[MetricSample]:
        for cluster, node in self._managed_nodes():
            labels = {"node_name": node["metadata"]["name"], "nodepool": nodepool_of(node)}
            yield from _resource_samples(cluster, labels, read(cluster, node))

    def _pod_requests(self, cluster: str, node: Object) -> Resources:
        return total(map(self._state.requests_of, self._pods_on(cluster, node)))

    def _daemon_requests(self, cluster: str, node: Object) -> Resources:
        return total(self._state.requests_of(pod) for pod in self._pods_on(cluster, node) if is_node_owned(pod))

    def _pod_limits(self, cluster: str, node: Object) -> Resources:
        return total(map(pod_limits, self._pods_on(cluster, node)))

    def _daemon_limits(self, cluster: str, node: Object) -> Resources:
        return total(pod_limits(pod) for pod in self._pods_on(cluster, node) if is_node_owned(pod))

    def _pods_on(self, cluster: str, node: Object) -> Iterable[Object]:
        pods = self._state.pods_on(cluster, node["metadata"]["name"])
        return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]

    def _node_ages(self) -> Iterator[MetricSample]:
        now = self._clock.now()
        for cluster, node in self._managed_nodes():
            labels = {"node_name": node["metadata"]["name"], "nodepool": nodepool_of(node)}
            yield cluster, labels, now - (parse_time(node["metadata"].get("creationTimestamp")) or now)

    def _pool_resources(self, part: str, field: str) -> Iterator[MetricSample]:
        for cluster in self._state.clusters_in(self._state.node_pools):
            for pool in self._state.node_pools.by_index(by_cluster, cluster):
                resources = parse_amounts((pool.get(part) or {}).get(field))
                yield from _resource_samples(cluster, {"nodepool": pool["metadata"]["name"]}, resources)

    def _pool_costs(self) -> Iterator[MetricSample]:
        for cluster in self._state.clusters_in(self._state.node_pools):
            for pool in self._state.node_pools.by_index(by_cluster, cluster):
                cost = sum(price for _, price in self._claim_prices(cluster, pool))
                yield cluster, {"nodepool": pool["metadata"]["name"]}, cost

    def _node_costs(self) -> Iterator[MetricSample]:
        for cluster in self._state.clusters_in(self._state.node_pools):
            for pool in self._state.node_pools.by_index(by_cluster, cluster):
                for claim, price in self._claim_prices(cluster, pool):
                    if node := (claim.get("status") or {}).get("nodeName"):
                        yield cluster, {"node_name": node, "nodepool": pool["metadata"]["name"]}, price

    def _claim_prices(self, cluster: str, pool: Object) -> Iterator[tuple[Object, float]]:
        """NodeClaims of a pool with their hourly price."""
        name, types = pool["metadata"]["name"], self._instance_types(cluster, pool)
        for claim in self._state.node_claims.by_index(by_cluster, cluster):
            if nodepool_of(claim) == name and condition_is(claim, LAUNCHED):
                labels = claim["metadata"].get("labels") or {}
                yield claim, node_price(types.get(labels.get(INSTANCE_TYPE, "")), labels)

    def _instance_types(self, cluster: str, pool: Object) -> dict[str, InstanceType]:
        node_class = self._state.node_classes.get(
            (cluster, "", node_class_ref(nodepool_template_spec(pool)).get("name", ""))
        )
        if node_class is None:
            return {}
        try:
            types = self._provider.instance_types(cluster, node_class)
        except ProviderError:
            return {}  # prices are not known yet
        return {
            each.name: each
            for each in apply_overlays(types, self._state.node_overlays.by_index(by_cluster, cluster), pool)
        }

    def _utilization(self) -> Iterator[MetricSample]:
        allocatable_by_cluster: dict[str, Resources] = {}
        requests_by_cluster: dict[str, Resources] = {}
        for cluster, node in self._managed_nodes():
            add_to(allocatable_by_cluster.setdefault(cluster, {}), allocatable(node))
            add_to(requests_by_cluster.setdefault(cluster, {}), self._pod_requests(cluster, node))
        for cluster, resources in allocatable_by_cluster.items():
            for name, amount in resources.items():
                if amount > 0:
                    yield cluster, {"resource_type": name}, 100.0 * requests_by_cluster[cluster].get(name, 0) / amount


def _overhead(cluster: str, node: Object) -> Resources:
    return subtract(capacity(node), allocatable(node))


def _resource_samples(cluster: str, labels: Mapping[str, str], resources: Resources) -> Iterator[MetricSample]:
    for name, amount in resources.items():
        yield cluster, {**labels, "resource_type": name}, amount / 1000 if name == CPU else float(amount)
