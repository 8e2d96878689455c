"""`shoal tree`: the owners of an object and what it owns, on the hub and in the clusters that have copies of it.

Besides owner references it follows the relations of Shoal: the Worker that hosts a ManagedCluster, the workload Cluster
that represents it, and the copy of an object in the cluster it is assigned to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.assemble.commands.cluster_clients import connect_cluster
from shoal.assemble.commands.tree_model import ObjectNode, TreeNode, TypedObject, build_tree, by_owner, tree_node
from shoal.client.rest import Client
from shoal.client.restmapper import APIResource, preferred_versions, resource_for, server_resources
from shoal.client.transport import Unreachable
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.clusterapi import capi
from shoal.kinds.fleet import infrav1
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.rollout_history import is_history
from shoal.objects.errors import Forbidden, MethodNotSupported, NotFound, StatusError
from shoal.sync.remote_cluster import NoKubeconfig
from shoal.sync.resources import CLUSTERS, NAMESPACES
from shoal.sync.syncer.namespaces import parse_locator
from shoal.sync.syncer.transform import SYNCED_FROM, hub_name

__all__ = ["NoKubeconfig", "Tree", "TreeNode", "cluster_tree", "hub_tree"]

Object = dict[str, Any]
USER_AGENT = "shoal-tree"
MAX_CONCURRENT = 8
MAX_OWNER_DEPTH = 16
"""The most levels of owners."""
SKIPPED_RESOURCES = {("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")}
"""Numerous, and never owned."""


@dataclass(slots=True)
class Tree:
    top: TreeNode
    notes: list[str] = field(default_factory=list)
    """What could not be read."""


async def hub_tree(client: Client, kind_word: str, namespace: str, name: str) -> Tree:
    """Raises NotFound if the object does not exist, UnknownKind if the kind is not served."""
    kinds = preferred_versions(await server_resources(client))
    kind = resource_for(kinds, kind_word)
    if (kind.gvr.group, kind.gvr.resource) == (WORKERS.group, WORKERS.resource):
        namespace = infrav1.NAMESPACE
    obj = await client.get(kind.gvr, name, namespace if kind.gvr.namespaced else "")
    root = TypedObject(kind.kind, obj)
    lister = _ObjectLister(client, kinds)
    owned = by_owner(await lister.list_all(obj["metadata"].get("namespace", "")))
    node, object_nodes = build_tree(root, owned)
    node.asked = True
    await _add_fleet_relations(client, object_nodes, lister.notes)
    await _add_copies(client, object_nodes, lister.notes)
    return Tree((await _add_owners(client, kinds, root, node))[1], lister.notes)


async def cluster_tree(client: Client, cluster: str, kind_word: str, namespace: str, name: str) -> Tree:
    """The tree of an object in a workload Cluster, below the hub object it is a copy of."""
    cluster_client = await _cluster_client(client, cluster)
    try:
        kinds = preferred_versions(await server_resources(cluster_client))
        kind = resource_for(kinds, kind_word)
        obj = await cluster_client.get(kind.gvr, name, namespace if kind.gvr.namespaced else "")
        lister = _ObjectLister(cluster_client, kinds, f" in {cluster}")
        owned = by_owner(await lister.list_all(obj["metadata"].get("namespace", "")))
        node, _ = build_tree(TypedObject(kind.kind, obj), owned, cluster)
        node.asked = True
        top_owner, node = await _add_owners(cluster_client, kinds, TypedObject(kind.kind, obj), node, cluster)
        top_namespace = top_owner.obj["metadata"].get("namespace", "")
        hub_namespace = parse_locator(await cluster_client.get(NAMESPACES, top_namespace))[1] if top_namespace else ""
    finally:
        await cluster_client.close()
    hub_kinds = preferred_versions(await server_resources(client))
    origin = await _hub_original(client, hub_kinds, top_owner, hub_namespace or top_namespace)
    if origin is not None:
        node.how = "copy"
        above = tree_node(origin)
        above.children = [node]
        node = (await _add_owners(client, hub_kinds, origin, above))[1]
    return Tree(node, lister.notes)


async def _hub_original(
    client: Client, kinds: list[APIResource], copy: TypedObject, namespace: str
) -> TypedObject | None:
    """Returns the hub object of a copy; None if it is not a copy, or of another hub."""
    uid = (copy.obj["metadata"].get("annotations") or {}).get(SYNCED_FROM, "").rpartition("/")[2]
    kind = next((one for one in kinds if one.kind == copy.kind), None)
    if not uid or kind is None:
        return None
    try:
        original = await client.get(kind.gvr, hub_name(copy.obj), namespace)
    except (NotFound, Forbidden):
        return None
    return TypedObject(kind.kind, original) if original["metadata"].get("uid") == uid else None


class _ObjectLister:
    """Lists all objects of a cluster, or of one namespace of it."""

    def __init__(self, client: Client, kinds: Iterable[APIResource], where: str = "") -> None:
        self._client, self._kinds, self._where = client, list(kinds), where
        self._limit = asyncio.Semaphore(MAX_CONCURRENT)
        self.notes: list[str] = []

    async def list_all(self, namespace: str) -> list[TypedObject]:
        """Without a namespace it lists everything: a cluster-scoped object may own anything."""
        listable = [
            kind
            for kind in self._kinds
            if "list" in kind.verbs
            and (kind.gvr.namespaced or not namespace)
            and (kind.gvr.group, kind.gvr.resource) not in SKIPPED_RESOURCES
        ]
        lists = await asyncio.gather(*(self._list(kind, namespace) for kind in listable))
        return [one for some in lists for one in some]

    async def _list(self, kind: APIResource, namespace: str) -> list[TypedObject]:
        async with self._limit:
            try:
                items, _ = await self._client.list_all(kind.gvr, namespace)
            except Forbidden:
                self.notes.append(f"permission denied to list {kind.gvr.resource}{self._where}")
                return []
            except (NotFound, MethodNotSupported):
                return []  # deleted since discovery, or not listable
        return [TypedObject(kind.kind, item) for item in items if not is_history(item)]


async def _add_owners(
    client: Client, kinds: list[APIResource], root: TypedObject, node: TreeNode, cluster: str = ""
) -> tuple[TypedObject, TreeNode]:
    """Adds the owners above the node, each with the one path down to it. Returns the topmost owner and its node."""
    current = root
    for _ in range(MAX_OWNER_DEPTH):
        above = await _owner_of(client, kinds, current)
        if above is None:
            break
        current, relation = above
        node.how = relation
        owner_node = tree_node(current, cluster)
        owner_node.children = [node]
        node = owner_node
    return current, node


async def _owner_of(client: Client, kinds: list[APIResource], child: TypedObject) -> tuple[TypedObject, str] | None:
    metadata = child.obj["metadata"]
    references = metadata.get("ownerReferences") or ()
    for reference in sorted(references, key=lambda one: not one.get("controller")):
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        kind = next((one for one in kinds if one.kind == reference.get("kind") and one.gvr.group == group), None)
        if kind is None:
            continue
        try:
            namespace = metadata.get("namespace", "") if kind.gvr.namespaced else ""
            owner = await client.get(kind.gvr, reference["name"], namespace)
        except (NotFound, Forbidden):
            continue
        if owner["metadata"].get("uid") == reference.get("uid"):
            return TypedObject(kind.kind, owner), ""
    if child.kind == infrav1.MANAGED_CLUSTER and (worker := infrav1.assigned_worker(child.obj)):
        try:
            return TypedObject(infrav1.WORKER, await client.get(WORKERS, worker, infrav1.NAMESPACE)), "hosted"
        except (NotFound, Forbidden):
            return None
    return await _managed_cluster_of(client, child)


async def _managed_cluster_of(client: Client, child: TypedObject) -> tuple[TypedObject, str] | None:
    """Returns the ManagedCluster that a workload Cluster represents."""
    metadata = child.obj["metadata"]
    label = (metadata.get("labels") or {}).get(workloadcluster.MANAGED_CLUSTER_LABEL)
    if child.kind != workloadcluster.KIND or not label:
        return None
    for namespace, name in workloadcluster.candidate_managed_clusters(metadata["name"]):
        if workloadcluster.managed_cluster_label_value(namespace, name) == label:
            try:
                return TypedObject(
                    infrav1.MANAGED_CLUSTER, await client.get(MANAGED_CLUSTERS, name, namespace)
                ), "registered"
            except (NotFound, Forbidden):
                return None
    return None


async def _add_fleet_relations(client: Client, object_nodes: list[ObjectNode], notes: list[str]) -> None:
    """Adds relations without owner references: hosted ManagedClusters, and the workload Clusters that represent
    them.
    """
    workers = [one for one in object_nodes if one.typed.kind == infrav1.WORKER]
    try:
        if workers:
            managed_clusters, _ = await client.list_all(MANAGED_CLUSTERS)
            for one in workers:
                for obj in managed_clusters:
                    if infrav1.assigned_worker(obj) == one.typed.obj["metadata"]["name"]:
                        hosted = TypedObject(infrav1.MANAGED_CLUSTER, obj)
                        one.node.children.append(tree_node(hosted, how="hosted"))
                        object_nodes.append(ObjectNode(hosted, one.node.children[-1]))
        owners = [one for one in object_nodes if one.typed.kind in (infrav1.MANAGED_CLUSTER, capi.CLUSTER)]
        if not owners:
            return
        clusters, _ = await client.list_all(CLUSTERS)
    except (Forbidden, NotFound) as error:
        notes.append(str(error))
        return
    for one in owners:
        metadata = one.typed.obj["metadata"]
        label = (
            workloadcluster.MANAGED_CLUSTER_LABEL
            if one.typed.kind == infrav1.MANAGED_CLUSTER
            else workloadcluster.CAPI_CLUSTER_LABEL
        )
        value = workloadcluster.managed_cluster_label_value(metadata.get("namespace", ""), metadata["name"])
        existing = {(child.kind, child.name) for child in one.node.children}
        for obj in clusters:
            name = obj["metadata"]["name"]
            if (obj["metadata"].get("labels") or {}).get(label) == value and (
                workloadcluster.KIND,
                name,
            ) not in existing:
                one.node.children.append(tree_node(TypedObject(workloadcluster.KIND, obj), how="registered"))


async def _add_copies(client: Client, object_nodes: list[ObjectNode], notes: list[str]) -> None:
    """Adds the copy of each object that is assigned to a cluster, with what the copy owns."""
    by_cluster: dict[str, list[ObjectNode]] = {}
    for one in object_nodes:
        if cluster := workloadcluster.assigned_cluster(one.typed.obj):
            by_cluster.setdefault(cluster, []).append(one)
    limit = asyncio.Semaphore(MAX_CONCURRENT)

    async def add_copies_of_cluster(cluster: str, leaves: list[ObjectNode]) -> None:
        async with limit:
            try:
                await _add_copies_in_cluster(client, cluster, leaves, notes)
            except (StatusError, Unreachable, NoKubeconfig) as error:
                notes.append(f"cannot read cluster {cluster}: {error}")

    await asyncio.gather(*(add_copies_of_cluster(cluster, leaves) for cluster, leaves in by_cluster.items()))


async def _cluster_client(client: Client, cluster: str) -> Client:
    return await connect_cluster(client, await client.get(CLUSTERS, cluster), USER_AGENT)


async def _add_copies_in_cluster(client: Client, cluster: str, leaves: list[ObjectNode], notes: list[str]) -> None:
    cluster_client = await _cluster_client(client, cluster)
    try:
        kinds = preferred_versions(await server_resources(cluster_client))
        namespaces, _ = await cluster_client.list_all(NAMESPACES, labels=workloadcluster.CLUSTER_LABEL)
        namespace_names = {parse_locator(one)[1]: one["metadata"]["name"] for one in namespaces}
        lister = _ObjectLister(cluster_client, kinds, f" in {cluster}")
        objects_by_namespace: dict[str, list[TypedObject]] = {}
        for namespace in {leaf.node.namespace for leaf in leaves}:
            objects_by_namespace[namespace] = await lister.list_all(namespace_names.get(namespace, namespace))
        notes += lister.notes
    finally:
        await cluster_client.close()
    for leaf in leaves:
        objects = objects_by_namespace[leaf.node.namespace]
        for one in objects:
            synced_from = (one.obj["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")
            if one.kind == leaf.typed.kind and synced_from.rpartition("/")[2] == leaf.typed.uid:
                leaf.node.children.append(build_tree(one, by_owner(objects), cluster, "copy")[0])
