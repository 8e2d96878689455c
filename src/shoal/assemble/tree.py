"""`shoal tree`: the owners of an object and what it owns, on the hub and in the clusters that have copies of it.

Besides owner references it follows the relations of Shoal: the Worker that hosts a ManagedCluster, the workload Cluster
that represents it, and the copy of an object in the cluster it is assigned to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.assemble.branches import Branch, Found, Grown, branch, by_owner, grow
from shoal.client.kubeconfig import client_to, endpoint_of
from shoal.client.naming import Served, named, preferred, served
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds import capi, fleet, workload
from shoal.objects.errors import Forbidden, MethodNotSupported, NotFound, StatusError
from shoal.sync.connecting import NoKubeconfig, kubeconfig_of
from shoal.sync.resources import CLUSTERS, NAMESPACES
from shoal.sync.syncer.namespaces import located
from shoal.sync.syncer.travelling import SYNCED_FROM, object_named

__all__ = ["Branch", "NoKubeconfig", "Tree", "tree_in", "tree_of"]

Object = dict[str, Any]
AGENT = "shoal-tree"
AT_ONCE = 8
OWNERS = 16
"""The most levels of owners."""
PASSED_OVER = {("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")}
"""Numerous, and never owned."""


@dataclass(slots=True)
class Tree:
    top: Branch
    notes: list[str] = field(default_factory=list)
    """What could not be read."""


async def tree_of(client: Client, word: str, namespace: str, name: str) -> Tree:
    """Raises NotFound if the object does not exist, UnknownKind if the kind is not served."""
    kinds = preferred(await served(client))
    kind = named(kinds, word)
    if (kind.kind.group, kind.kind.plural) == (WORKERS.group, WORKERS.plural):
        namespace = fleet.NAMESPACE
    obj = await client.get(kind.kind, name, namespace if kind.kind.namespaced else "")
    root = Found(kind.name, obj)
    looked = _Look(client, kinds)
    owned = by_owner(await looked.all(obj["metadata"].get("namespace", "")))
    made, grown = grow(root, owned)
    made.asked = True
    await _relatives(client, grown, looked.notes)
    await _copies(client, grown, looked.notes)
    return Tree((await _upwards(client, kinds, root, made))[1], looked.notes)


async def tree_in(client: Client, cluster: str, word: str, namespace: str, name: str) -> Tree:
    """The tree of an object in a workload Cluster, below the hub object it is a copy of."""
    inside = await _reach(client, cluster)
    try:
        kinds = preferred(await served(inside))
        kind = named(kinds, word)
        obj = await inside.get(kind.kind, name, namespace if kind.kind.namespaced else "")
        looked = _Look(inside, kinds, f" in {cluster}")
        owned = by_owner(await looked.all(obj["metadata"].get("namespace", "")))
        made, _ = grow(Found(kind.name, obj), owned, cluster)
        made.asked = True
        highest, made = await _upwards(inside, kinds, Found(kind.name, obj), made, cluster)
        space = highest.obj["metadata"].get("namespace", "")
        stands_for = located(await inside.get(NAMESPACES, space))[1] if space else ""
    finally:
        await inside.close()
    on_hub = preferred(await served(client))
    origin = await _origin(client, on_hub, highest, stands_for or space)
    if origin is not None:
        made.how = "copy"
        above = branch(origin)
        above.children = [made]
        made = (await _upwards(client, on_hub, origin, above))[1]
    return Tree(made, looked.notes)


async def _origin(client: Client, kinds: list[Served], copy: Found, namespace: str) -> Found | None:
    """Returns the hub object of a copy; None if it is not a copy, or of another hub."""
    uid = (copy.obj["metadata"].get("annotations") or {}).get(SYNCED_FROM, "").rpartition("/")[2]
    kind = next((one for one in kinds if one.name == copy.kind), None)
    if not uid or kind is None:
        return None
    try:
        found = await client.get(kind.kind, object_named(copy.obj), namespace)
    except (NotFound, Forbidden):
        return None
    return Found(kind.name, found) if found["metadata"].get("uid") == uid else None


class _Look:
    """Lists all objects of a cluster, or of one namespace of it."""

    def __init__(self, client: Client, kinds: Iterable[Served], where: str = "") -> None:
        self._client, self._kinds, self._where = client, list(kinds), where
        self._room = asyncio.Semaphore(AT_ONCE)
        self.notes: list[str] = []

    async def all(self, namespace: str) -> list[Found]:
        """Without a namespace it lists everything: a cluster-scoped object may own anything."""
        wanted = [
            kind
            for kind in self._kinds
            if "list" in kind.verbs
            and (kind.kind.namespaced or not namespace)
            and (kind.kind.group, kind.kind.plural) not in PASSED_OVER
        ]
        found = await asyncio.gather(*(self._list(kind, namespace) for kind in wanted))
        return [one for some in found for one in some]

    async def _list(self, kind: Served, namespace: str) -> list[Found]:
        async with self._room:
            try:
                items, _ = await self._client.list_all(kind.kind, namespace)
            except Forbidden:
                self.notes.append(f"{kind.kind.plural} may not be read{self._where}")
                return []
            except (NotFound, MethodNotSupported):
                return []  # deleted since discovery, or not listable
        return [Found(kind.name, item) for item in items]


async def _upwards(
    client: Client, kinds: list[Served], root: Found, made: Branch, cluster: str = ""
) -> tuple[Found, Branch]:
    """Adds the owners above the node, each with the one path down to it. Returns the topmost owner and its node."""
    found = root
    for _ in range(OWNERS):
        above = await _owner(client, kinds, found)
        if above is None:
            break
        found, how = above
        made.how = how
        higher = branch(found, cluster)
        higher.children = [made]
        made = higher
    return found, made


async def _owner(client: Client, kinds: list[Served], found: Found) -> tuple[Found, str] | None:
    metadata = found.obj["metadata"]
    references = metadata.get("ownerReferences") or ()
    for reference in sorted(references, key=lambda one: not one.get("controller")):
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        kind = next((one for one in kinds if one.name == reference.get("kind") and one.kind.group == group), None)
        if kind is None:
            continue
        try:
            namespace = metadata.get("namespace", "") if kind.kind.namespaced else ""
            owner = await client.get(kind.kind, reference["name"], namespace)
        except (NotFound, Forbidden):
            continue
        if owner["metadata"].get("uid") == reference.get("uid"):
            return Found(kind.name, owner), ""
    if found.kind == fleet.MANAGED_CLUSTER and (worker := fleet.assigned_worker(found.obj)):
        try:
            return Found(fleet.WORKER, await client.get(WORKERS, worker, fleet.NAMESPACE)), "hosted"
        except (NotFound, Forbidden):
            return None
    return await _registered(client, found)


async def _registered(client: Client, found: Found) -> tuple[Found, str] | None:
    """Returns the ManagedCluster that a workload Cluster represents."""
    metadata = found.obj["metadata"]
    label = (metadata.get("labels") or {}).get(workload.MANAGED)
    if found.kind != workload.KIND or not label:
        return None
    for namespace, name in workload.managed_by_name(metadata["name"]):
        if workload.managed_value(namespace, name) == label:
            try:
                return Found(fleet.MANAGED_CLUSTER, await client.get(MANAGED_CLUSTERS, name, namespace)), "registered"
            except (NotFound, Forbidden):
                return None
    return None


async def _relatives(client: Client, grown: list[Grown], notes: list[str]) -> None:
    """Adds relations without owner references: hosted ManagedClusters, and the workload Clusters that represent
    them.
    """
    workers = [one for one in grown if one.found.kind == fleet.WORKER]
    try:
        if workers:
            managed, _ = await client.list_all(MANAGED_CLUSTERS)
            for one in workers:
                for obj in managed:
                    if fleet.assigned_worker(obj) == one.found.obj["metadata"]["name"]:
                        found = Found(fleet.MANAGED_CLUSTER, obj)
                        one.branch.children.append(branch(found, how="hosted"))
                        grown.append(Grown(found, one.branch.children[-1]))
        owners = [one for one in grown if one.found.kind in (fleet.MANAGED_CLUSTER, capi.CLUSTER)]
        if not owners:
            return
        clusters, _ = await client.list_all(CLUSTERS)
    except (Forbidden, NotFound) as error:
        notes.append(str(error))
        return
    for one in owners:
        metadata = one.found.obj["metadata"]
        label = workload.MANAGED if one.found.kind == fleet.MANAGED_CLUSTER else workload.CLUSTER_API
        value = workload.managed_value(metadata.get("namespace", ""), metadata["name"])
        there = {(child.kind, child.name) for child in one.branch.children}
        for obj in clusters:
            name = obj["metadata"]["name"]
            if (obj["metadata"].get("labels") or {}).get(label) == value and (workload.KIND, name) not in there:
                one.branch.children.append(branch(Found(workload.KIND, obj), how="registered"))


async def _copies(client: Client, grown: list[Grown], notes: list[str]) -> None:
    """Adds the copy of each object that is assigned to a cluster, with what the copy owns."""
    by_cluster: dict[str, list[Grown]] = {}
    for one in grown:
        if cluster := workload.assigned_to(one.found.obj):
            by_cluster.setdefault(cluster, []).append(one)
    room = asyncio.Semaphore(AT_ONCE)

    async def look(cluster: str, leaves: list[Grown]) -> None:
        async with room:
            try:
                await _copies_in(client, cluster, leaves, notes)
            except (StatusError, Unreachable, NoKubeconfig) as error:
                notes.append(f"{cluster} was not looked into: {error}")

    await asyncio.gather(*(look(cluster, leaves) for cluster, leaves in by_cluster.items()))


async def _reach(client: Client, cluster: str) -> Client:
    kubeconfig = await kubeconfig_of(client, await client.get(CLUSTERS, cluster))
    return kubeconfig.client(lambda config: client_to(endpoint_of(config, where="the kubeconfig"), AGENT))


async def _copies_in(client: Client, cluster: str, leaves: list[Grown], notes: list[str]) -> None:
    inside = await _reach(client, cluster)
    try:
        kinds = preferred(await served(inside))
        made, _ = await inside.list_all(NAMESPACES, labels=workload.ASSIGNED)
        called = {located(one)[1]: one["metadata"]["name"] for one in made}
        looked = _Look(inside, kinds, f" in {cluster}")
        here: dict[str, list[Found]] = {}
        for namespace in {leaf.branch.namespace for leaf in leaves}:
            here[namespace] = await looked.all(called.get(namespace, namespace))
        notes += looked.notes
    finally:
        await inside.close()
    for leaf in leaves:
        objects = here[leaf.branch.namespace]
        for one in objects:
            said = (one.obj["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")
            if one.kind == leaf.found.kind and said.rpartition("/")[2] == leaf.found.uid:
                leaf.branch.children.append(grow(one, by_owner(objects), cluster, "copy")[0])
