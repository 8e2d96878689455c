"""Builds the SchedulingInput of a cluster from ClusterState. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.requirements import Requirements
from shoal.fit.resources import parse_amounts
from shoal.kinds.karpenter.karpenter import (
    READY,
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_template_spec,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays
from shoal.provision.cloudprovider.types import CloudProvider, Instance, UnevaluatedNodePool
from shoal.provision.pods import is_node_owned
from shoal.provision.provisioning.existing_nodes import deleting_nodes, draining_nodes, existing_nodes, pool_usage
from shoal.provision.provisioning.volume_topology import UnusableVolumeError, volume_requirements
from shoal.provision.settings import ProvisionerSettings
from shoal.provision.simulation.model import NodePoolInput, SchedulingInput
from shoal.provision.state import ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class SchedulingInputBuilder:
    def __init__(self, state: ClusterState, provider: CloudProvider, settings: ProvisionerSettings) -> None:
        self._state, self._provider, self._settings = state, provider, settings

    def pods_to_schedule(self, cluster: str) -> list[Object]:
        """Pending pods, and pods on nodes that are being deleted."""
        pods = self._state.pending_pods(cluster)
        for node in deleting_nodes(
            self._state.nodes.by_index(by_cluster, cluster), self._state.node_claims.by_index(by_cluster, cluster)
        ):
            on_node = self._state.pods_on(cluster, node["metadata"]["name"])
            pods += [
                pod for pod in on_node if not is_node_owned(pod) and not is_deleting(pod) and not _is_terminal(pod)
            ]
        return pods

    def build(self, cluster: str, pods: Iterable[Object], nominated: Mapping[str, str]) -> SchedulingInput:
        state = self._state
        pods = list(pods)
        claims, daemons, nodes = (
            state.node_claims.by_index(by_cluster, cluster),
            self._daemon_sets(cluster),
            state.nodes.by_index(by_cluster, cluster),
        )
        expected = self._expected_instances(cluster, claims)
        volumes, errors = self._volume_requirements(cluster, pods)

        def pods_on(node: str) -> list[Object]:
            return state.pods_on(cluster, node)

        return SchedulingInput(
            pods,
            existing_nodes(nodes, claims, expected, daemons, pods_on, state.requests_of),
            self._pool_inputs(cluster, claims, expected),
            daemons,
            nominated,
            draining_nodes(deleting_nodes(nodes, claims), pods_on),
            {
                each["metadata"]["name"]: each["metadata"].get("labels") or {}
                for each in state.namespaces.by_index(by_cluster, cluster)
            },
            volumes,
            errors,
            self._settings.preference_policy,
            self._settings.min_values_policy,
        )

    def _expected_instances(self, cluster: str, claims: Iterable[Object]) -> dict[str, Instance]:
        expected = {claim["metadata"]["name"]: self._provider.expected_instance(cluster, claim) for claim in claims}
        return {name: instance for name, instance in expected.items() if instance is not None}

    def _daemon_sets(self, cluster: str) -> list[Object]:
        return [each for each in self._state.daemon_sets.by_index(by_cluster, cluster) if not is_deleting(each)]

    def _pool_inputs(self, cluster: str, claims: list[Object], expected: Mapping[str, Instance]) -> list[NodePoolInput]:
        inputs = []
        for pool in self._state.node_pools.by_index(by_cluster, cluster):
            spec = nodepool_template_spec(pool)
            if is_deleting(pool) or not condition_is(pool, READY) or not is_managed_node_class(spec):
                continue
            node_class = self._state.node_classes.get((cluster, "", node_class_ref(spec).get("name", "")))
            try:
                types = self._provider.instance_types(cluster, node_class) if node_class is not None else []
            except UnevaluatedNodePool:
                continue
            limits = parse_amounts((pool.get("spec") or {}).get("limits"))
            overlaid_types = apply_overlays(types, self._state.node_overlays.by_index(by_cluster, cluster), pool)
            inputs.append(
                NodePoolInput(pool, overlaid_types, pool_usage(claims, pool["metadata"]["name"], expected), limits)
            )
        return inputs

    def _volume_requirements(
        self, cluster: str, pods: Iterable[Object]
    ) -> tuple[dict[str, tuple[Requirements, ...]], dict[str, str]]:
        """Returns the node requirements of the pods' volumes, and volume errors, both by pod uid."""
        state = self._state
        requirements: dict[str, tuple[Requirements, ...]] = {}
        errors: dict[str, str] = {}

        def claim(name: str, namespace: str) -> Object | None:
            return state.volume_claims.get((cluster, namespace, name))

        def volume(name: str, _: str) -> Object | None:
            return state.volumes.get((cluster, "", name))

        def storage_class(name: str, _: str) -> Object | None:
            return state.storage_classes.get((cluster, "", name))

        for pod in pods:
            if not (pod.get("spec") or {}).get("volumes"):
                continue
            try:
                alternatives = volume_requirements(pod, claim, volume, storage_class)
            except UnusableVolumeError as error:
                errors[pod["metadata"]["uid"]] = str(error)
                continue
            if alternatives:
                requirements[pod["metadata"]["uid"]] = alternatives
        return requirements, errors


def _is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
