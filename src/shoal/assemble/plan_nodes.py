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

from shoal.capi.resources import MACHINE_DEPLOYMENTS
from shoal.client.kubeconfig import client_to, endpoint_of
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.kinds import capi, nodepools, sizes, workload
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.selectors import from_label_selector
from shoal.placement.fleet import Change
from shoal.provision.preview import Preview, Snapshot, preview
from shoal.provision.view import CLAIMS, CLASSES, DAEMON_SETS, NODES, OVERLAYS, PODS, POOLS
from shoal.sync.connecting import NoKubeconfig, kubeconfig_of
from shoal.sync.resources import CLUSTERS, MANAGED_CLUSTERS, NAMESPACES

__all__ = ["ClusterNodes", "plan_nodes"]

Object = dict[str, Any]
AGENT = "shoal-plan"
AT_ONCE = 8
SECONDS = 2.0
"""How long a cheaper plan is searched for, per cluster."""
PLANNED = {
    "Deployment": Kind("apps", "v1", "deployments"),
    "StatefulSet": Kind("apps", "v1", "statefulsets"),
}
"""Kinds whose replicas are known pods."""


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    cluster: str
    found: Preview | None
    problem: str = ""
    """Why there is no preview."""


async def plan_nodes(client: Client, given: Sequence[Object], changes: Sequence[Change]) -> list[ClusterNodes]:
    """Returns the plan of every hosted cluster, by name; other clusters are left out."""
    clusters, _ = await client.list_all(CLUSTERS)
    machines = await machines_by_owner(client)
    roots = await _roots(client, given, changes)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(cluster: Object) -> ClusterNodes | None:
        labels = cluster["metadata"].get("labels") or {}
        known = machines.get(labels.get(workload.MANAGED) or labels.get(workload.CLUSTER_API) or "")
        if not known:
            return None
        name = cluster["metadata"]["name"]
        async with room:
            try:
                seen = await _look(client, cluster, known)
            except (StatusError, Unreachable, NoKubeconfig) as error:
                return ClusterNodes(name, None, str(error))
        if seen is None:
            return None
        more, gone = _pods(name, seen, roots, changes)
        end = time.monotonic() + SECONDS
        return ClusterNodes(name, preview(seen, more, gone, lambda: time.monotonic() > end))

    found = await asyncio.gather(*map(one, sorted(clusters, key=lambda each: str(each["metadata"]["name"]))))
    return [each for each in found if each is not None]


async def machines_by_owner(client: Client) -> dict[str, list[Object]]:
    """Returns MachineDeployments by the label of the workload Clusters they are for. Those of a ManagedCluster are at
    its worker, so they are derived from its spec.
    """
    found: dict[str, list[Object]] = {}
    deployments, _ = await client.list_all(MACHINE_DEPLOYMENTS)
    for each in deployments:
        owner = workload.managed_value(each["metadata"]["namespace"], capi.cluster_name(each))
        found.setdefault(owner, []).append(each)
    managed, _ = await client.list_all(MANAGED_CLUSTERS)
    for each in managed:
        namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
        pools = nodepools.all_of(each.get("spec") or {})
        found[workload.managed_value(namespace, name)] = [_sold(namespace, name, pool) for pool in pools]
    return found


def _sold(namespace: str, cluster: str, pool: nodepools.Pool) -> Object:
    labels = {sizes.MEMBER: ""} if pool.bought else {}
    metadata = {"namespace": namespace, "name": f"{cluster}-{pool.name}", "labels": labels}
    return {"metadata": {**metadata, "annotations": pool.announcement}, "spec": {"clusterName": cluster}}


async def _roots(
    client: Client, given: Sequence[Object], changes: Sequence[Change]
) -> Mapping[tuple[str, str, str], Object]:
    """Returns the changed workloads as they would be."""
    found: dict[tuple[str, str, str], Object] = {}
    for change in changes:
        kind = PLANNED.get(change.kind)
        if kind is None:
            continue
        key = (change.kind, change.namespace, change.name)
        same = [each for each in given if _key(each) == key and (each.get("spec") or {}).get("template")]
        try:
            found[key] = same[-1] if same else await client.get(kind, change.name, change.namespace)
        except NotFound:
            continue
    return found


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", "default"), obj["metadata"]["name"]


async def _look(client: Client, cluster: Object, machines: list[Object]) -> Snapshot | None:
    """Returns None if nodes are not bought for the cluster."""

    def connect(kubeconfig: Object) -> Client:
        return client_to(endpoint_of(kubeconfig, where="the kubeconfig"), AGENT)

    inside = (await kubeconfig_of(client, cluster)).client(connect)
    try:
        kinds = (POOLS, CLAIMS, CLASSES, OVERLAYS, NODES, PODS, DAEMON_SETS, NAMESPACES)
        lists = await asyncio.gather(*(inside.list_all(kind) for kind in kinds))
    except NotFound:
        return None
    finally:
        await inside.close()
    pools, claims, classes, overlays, nodes, pods, daemons, namespaces = (items for items, _ in lists)
    return Snapshot(
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


def _pods(
    cluster: str, seen: Snapshot, roots: Mapping[tuple[str, str, str], Object], changes: Sequence[Change]
) -> tuple[list[Object], set[str]]:
    """Returns the added pods and the uids of removed pods: of each workload the youngest."""
    more: list[Object] = []
    gone: set[str] = set()
    for change in changes:
        root = roots.get((change.kind, change.namespace, change.name))
        by = change.after.get(cluster, 0) - change.before.get(cluster, 0)
        if root is None or not by:
            continue
        if by > 0:
            more += [_pod(root, change, number) for number in range(by)]
            continue
        selector = from_label_selector(root["spec"].get("selector") or {})
        own = [
            pod["metadata"]
            for pod in seen.pods
            if pod["metadata"]["namespace"] == change.namespace
            and selector.matches(pod["metadata"].get("labels") or {})
        ]
        own.sort(key=lambda each: (each.get("creationTimestamp", ""), each["name"]), reverse=True)
        gone |= {each["uid"] for each in own[:-by]}
    return more, gone


def _pod(root: Object, change: Change, number: int) -> Object:
    template = root["spec"]["template"]
    name = f"{change.name}-{number}"
    labels = (template.get("metadata") or {}).get("labels") or {}
    uid = f"{change.kind}/{change.namespace}/{name}"
    metadata = {"name": name, "namespace": change.namespace, "uid": uid, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
