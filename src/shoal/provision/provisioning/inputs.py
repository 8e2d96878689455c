"""Builds the SchedulingInput of a cluster from ClusterState. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.attachments import Attachment, attach_limits, attachment_of
from shoal.fit.requirements import Requirements
from shoal.fit.resources import parse_amounts
from shoal.kinds.karpenter.karpenter import (
    READY,
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_template_spec,
    static_replicas,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays
from shoal.provision.cloudprovider.types import CloudProvider, Instance, UnevaluatedNodePool
from shoal.provision.evictability import PDBLimits, is_currently_reschedulable
from shoal.provision.provisioning.daemon_sets import with_running_requests
from shoal.provision.provisioning.existing_nodes import deleting_nodes, draining_nodes, existing_nodes, pool_usage
from shoal.provision.provisioning.volume_topology import UnusableVolumeError, claim_names, volume_requirements
from shoal.provision.settings import SettingsSource
from shoal.provision.simulation.model import ExistingNode, NodePoolInput, SchedulingInput
from shoal.provision.state import ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class SchedulingInputBuilder:
    def __init__(self, state: ClusterState, provider: CloudProvider, settings: SettingsSource) -> None:
        self._state, self._provider, self._settings = state, provider, settings

    def pods_to_schedule(self, cluster: str, now: float) -> list[Object]:
        """Pending pods, and pods on nodes that are being deleted, unless nothing allows their eviction: a node for
        these would stay empty.
        """
        pods, limits = self._state.pending_pods(cluster), PDBLimits(self._state.pdbs.by_index(by_cluster, cluster))
        for node in deleting_nodes(
            self._state.nodes.by_index(by_cluster, cluster), self._state.node_claims.by_index(by_cluster, cluster)
        ):
            on_node = self._state.pods_on(cluster, node["metadata"]["name"])
            pods += [pod for pod in on_node if not is_deleting(pod) and is_currently_reschedulable(pod, limits, now)]
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
        settings = self._settings.settings_of(cluster)

        def pods_on(node: str) -> list[Object]:
            return state.pods_on(cluster, node)

        existing = existing_nodes(nodes, claims, expected, daemons, pods_on, state.requests_of)
        return SchedulingInput(
            pods,
            self._with_attachments(cluster, existing),
            self._pool_inputs(cluster, claims, expected),
            daemons,
            nominated,
            draining_nodes(deleting_nodes(nodes, claims), pods_on),
            {
                each["metadata"]["name"]: each["metadata"].get("labels") or {}
                for each in state.namespaces.by_index(by_cluster, cluster)
            },
            volumes,
            {pod["metadata"]["uid"]: found for pod in pods if (found := self._attachments(cluster, pod))},
            errors,
            settings.preference_policy,
            settings.min_values_policy,
        )

    def _with_attachments(self, cluster: str, nodes: list[ExistingNode]) -> list[ExistingNode]:
        """Adds the limits of CSINodes, and what counts for them. A node that is still to come has no CSINode yet."""
        for node in nodes:
            csi_node = self._state.csi_nodes.get((cluster, "", node.name))
            node.attach_limits = attach_limits(csi_node) if csi_node is not None else {}
            if node.attach_limits:
                node.attachments = frozenset(each for pod in node.pods for each in self._attachments(cluster, pod))
        return nodes

    def _attachments(self, cluster: str, pod: Object) -> frozenset[Attachment]:
        """Empty if no CSINode of the cluster has a limit: then nothing depends on it."""
        volumes, state = (pod.get("spec") or {}).get("volumes"), self._state
        if not volumes or not state.csi_nodes.by_index(by_cluster, cluster):
            return frozenset()
        attachments = set()
        for name in claim_names(pod):
            claim = state.volume_claims.get((cluster, pod["metadata"].get("namespace", ""), name))
            if claim is None:
                continue
            spec = claim.get("spec") or {}
            volume = state.volumes.get((cluster, "", spec.get("volumeName") or ""))
            storage_class = state.storage_classes.get((cluster, "", spec.get("storageClassName") or ""))
            attachments.add(attachment_of(claim, volume, storage_class))
        return frozenset(each for each in attachments if each is not None)

    def _expected_instances(self, cluster: str, claims: Iterable[Object]) -> dict[str, Instance]:
        expected = {claim["metadata"]["name"]: self._provider.expected_instance(cluster, claim) for claim in claims}
        return {name: instance for name, instance in expected.items() if instance is not None}

    def _daemon_sets(self, cluster: str) -> list[Object]:
        state = self._state
        return [
            with_running_requests(each, state.pods_of_daemon_set(cluster, each))
            for each in state.daemon_sets.by_index(by_cluster, cluster)
            if not is_deleting(each)
        ]

    def _pool_inputs(self, cluster: str, claims: list[Object], expected: Mapping[str, Instance]) -> list[NodePoolInput]:
        inputs = []
        for pool in self._state.node_pools.by_index(by_cluster, cluster):
            spec = nodepool_template_spec(pool)
            is_static = static_replicas(pool) is not None
            if is_static or is_deleting(pool) or not condition_is(pool, READY) or not is_managed_node_class(spec):
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
