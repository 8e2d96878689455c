"""`shoal plan`: which nodes a change would buy in the clusters of the fleet, and their cost per hour.

Every cluster is read once, through the kubeconfig the hub has for it; nothing is changed. The available machines are
known for hosted clusters, from their ManagedCluster or their Cluster API Cluster on the hub.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.assemble.commands.cluster_clients import connect_cluster
from shoal.capi.informers import MACHINE_DEPLOYMENTS
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.kinds.clusterapi import capi, machine_sizes
from shoal.kinds.fleet import nodepools
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.selectors import from_label_selector
from shoal.placement.snapshot import PlacementChange
from shoal.provision.preview import Preview, PreviewSnapshot, preview
from shoal.provision.state import DAEMON_SETS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS, NODES, PODS
from shoal.sync.remote_cluster import NoKubeconfig
from shoal.sync.resources import CLUSTERS, MANAGED_CLUSTERS, NAMESPACES

__all__ = ["ClusterNodePlan", "plan_nodes"]

Object = dict[str, Any]
USER_AGENT = "shoal-plan"
MAX_CONCURRENT = 8
SEARCH_SECONDS = 2.0
"""How long a cheaper plan is searched for, per cluster."""
PLANNED_KINDS = {
    "Deployment": GroupVersionResource("apps", "v1", "deployments"),
    "StatefulSet": GroupVersionResource("apps", "v1", "statefulsets"),
}
"""Kinds whose replicas are known pods."""


@dataclass(frozen=True, slots=True)
class ClusterNodePlan:
    cluster: str
    preview: Preview | None
    error: str = ""
    """Why there is no preview."""


async def plan_nodes(
    client: Client, manifests: Sequence[Object], changes: Sequence[PlacementChange]
) -> list[ClusterNodePlan]:
    """Returns the plan of every hosted cluster, by name; other clusters are left out."""
    clusters, _ = await client.list_all(CLUSTERS)
    machines = await machine_deployments_by_owner(client)
    workloads = await _changed_workloads(client, manifests, changes)
    limit = asyncio.Semaphore(MAX_CONCURRENT)

    async def plan_cluster(cluster: Object) -> ClusterNodePlan | None:
        labels = cluster["metadata"].get("labels") or {}
        deployments = machines.get(
            labels.get(workloadcluster.MANAGED_CLUSTER_LABEL) or labels.get(workloadcluster.CAPI_CLUSTER_LABEL) or ""
        )
        if not deployments:
            return None
        name = cluster["metadata"]["name"]
        async with limit:
            try:
                snapshot = await _read_snapshot(client, cluster, deployments)
            except (StatusError, Unreachable, NoKubeconfig) as error:
                return ClusterNodePlan(name, None, str(error))
        if snapshot is None:
            return None
        added_pods, removed_uids = _pod_changes(name, snapshot, workloads, changes)
        deadline = time.monotonic() + SEARCH_SECONDS
        return ClusterNodePlan(name, preview(snapshot, added_pods, removed_uids, lambda: time.monotonic() > deadline))

    plans = await asyncio.gather(*map(plan_cluster, sorted(clusters, key=lambda each: str(each["metadata"]["name"]))))
    return [each for each in plans if each is not None]


async def machine_deployments_by_owner(client: Client) -> dict[str, list[Object]]:
    """Returns MachineDeployments by the label of the workload Clusters they are for. Those of a ManagedCluster are at
    its worker, so they are derived from its spec.
    """
    by_owner: dict[str, list[Object]] = {}
    deployments, _ = await client.list_all(MACHINE_DEPLOYMENTS)
    for each in deployments:
        owner = workloadcluster.managed_cluster_label_value(each["metadata"]["namespace"], capi.cluster_name(each))
        by_owner.setdefault(owner, []).append(each)
    managed_clusters, _ = await client.list_all(MANAGED_CLUSTERS)
    for each in managed_clusters:
        namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
        pools = nodepools.all_pools(each.get("spec") or {})
        by_owner[workloadcluster.managed_cluster_label_value(namespace, name)] = [
            _machine_deployment(namespace, name, pool) for pool in pools
        ]
    return by_owner


def _machine_deployment(namespace: str, cluster: str, pool: nodepools.ClusterNodePool) -> Object:
    labels = {machine_sizes.KARPENTER_MEMBER_LABEL: ""} if pool.is_provisioned else {}
    metadata = {"namespace": namespace, "name": f"{cluster}-{pool.name}", "labels": labels}
    return {"metadata": {**metadata, "annotations": pool.capacity_annotations}, "spec": {"clusterName": cluster}}


async def _changed_workloads(
    client: Client, manifests: Sequence[Object], changes: Sequence[PlacementChange]
) -> Mapping[tuple[str, str, str], Object]:
    """Returns the changed workloads as they would be."""
    workloads: dict[tuple[str, str, str], Object] = {}
    for change in changes:
        kind = PLANNED_KINDS.get(change.kind)
        if kind is None:
            continue
        key = (change.kind, change.namespace, change.name)
        matching = [
            each for each in manifests if _workload_key(each) == key and (each.get("spec") or {}).get("template")
        ]
        try:
            workloads[key] = matching[-1] if matching else await client.get(kind, change.name, change.namespace)
        except NotFound:
            continue
    return workloads


def _workload_key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", "default"), obj["metadata"]["name"]


async def _read_snapshot(client: Client, cluster: Object, machines: list[Object]) -> PreviewSnapshot | None:
    """Returns None if nodes are not bought for the cluster."""

    cluster_client = await connect_cluster(client, cluster, USER_AGENT)
    try:
        kinds = (NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODES, PODS, DAEMON_SETS, NAMESPACES)
        lists = await asyncio.gather(*(cluster_client.list_all(kind) for kind in kinds))
    except NotFound:
        return None
    finally:
        await cluster_client.close()
    pools, claims, classes, overlays, nodes, pods, daemons, namespaces = (items for items, _ in lists)
    return PreviewSnapshot(
        nodes,
        pods,
        claims,
        pools,
        {each["metadata"]["name"]: each for each in classes},
        overlays,
        daemons,
        {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces},
        machines,
    )


def _pod_changes(
    cluster: str,
    snapshot: PreviewSnapshot,
    workloads: Mapping[tuple[str, str, str], Object],
    changes: Sequence[PlacementChange],
) -> tuple[list[Object], set[str]]:
    """Returns the added pods and the uids of removed pods: of each workload the youngest."""
    added: list[Object] = []
    removed_uids: set[str] = set()
    for change in changes:
        owner = workloads.get((change.kind, change.namespace, change.name))
        difference = change.after.get(cluster, 0) - change.before.get(cluster, 0)
        if owner is None or not difference:
            continue
        if difference > 0:
            added += [_planned_pod(owner, change, number) for number in range(difference)]
            continue
        selector = from_label_selector(owner["spec"].get("selector") or {})
        own = [
            pod["metadata"]
            for pod in snapshot.pods
            if pod["metadata"]["namespace"] == change.namespace
            and selector.matches(pod["metadata"].get("labels") or {})
        ]
        own.sort(key=lambda each: (each.get("creationTimestamp", ""), each["name"]), reverse=True)
        removed_uids |= {each["uid"] for each in own[:-difference]}
    return added, removed_uids


def _planned_pod(owner: Object, change: PlacementChange, number: int) -> Object:
    template = owner["spec"]["template"]
    name = f"{change.name}-{number}"
    labels = (template.get("metadata") or {}).get("labels") or {}
    uid = f"{change.kind}/{change.namespace}/{name}"
    metadata = {"name": name, "namespace": change.namespace, "uid": uid, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
