"""The informers of Cluster API: its own kinds with their indexes, and the kinds that providers register.

The core knows no provider. A provider registers its kinds and how to find the Nodes of its Machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from shoal.capi.conditions import differ_in_words
from shoal.capi.foreign import Foreign
from shoal.capi.quiet import Quiet
from shoal.capi.views import Index, Told, View
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds import capi
from shoal.runtime.queue import WorkQueue

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

CLUSTERS = Kind(capi.GROUP, capi.VERSION, "clusters")
MACHINES = Kind(capi.GROUP, capi.VERSION, "machines")
MACHINE_SETS = Kind(capi.GROUP, capi.VERSION, "machinesets")
MACHINE_DEPLOYMENTS = Kind(capi.GROUP, capi.VERSION, "machinedeployments")
MACHINE_HEALTH_CHECKS = Kind(capi.GROUP, capi.VERSION, "machinehealthchecks")
SECRETS = Kind("", "v1", "secrets")
_BESIDE_STATUS = (
    *("uid", "generation", "deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences"),
)


class Nodes(Protocol):
    """A provider's access to the Nodes of its Machines."""

    def of(self, machine: Object) -> Object | None: ...

    def listen(self, told: Told) -> None: ...

    async def patch(self, node: Object, patch: Object) -> Object: ...

    def client(self, machine: Object) -> Client | None:
        """A client of the workload cluster. None: it does not exist yet."""
        ...


class Resources:
    """`client` is at the management cluster: any API server that serves the kinds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.quiet = Quiet()
        of_cluster = {"cluster": _cluster}
        owned = {**of_cluster, "owner": _controller}
        self.clusters = View(client, CLUSTERS, clock, indexes={"reference": _references}, quiet=self.quiet)
        self.deployments = View(client, MACHINE_DEPLOYMENTS, clock, indexes=of_cluster, quiet=self.quiet)
        self.sets = View(client, MACHINE_SETS, clock, indexes={**owned, "template": _template}, quiet=self.quiet)
        self.machines = View(client, MACHINES, clock, indexes={**owned, "reference": _references}, quiet=self.quiet)
        self.health_checks = View(client, MACHINE_HEALTH_CHECKS, clock, indexes=of_cluster)
        self.kubeconfigs = View(client, SECRETS, clock, fields=f"type={capi.KUBECONFIG_TYPE}")
        self.views = [
            self.clusters, self.deployments, self.sets, self.machines, self.health_checks, self.kubeconfigs,
        ]  # fmt: skip
        """All informers that must run, and must have synced before any decision."""
        self._own = {
            (capi.GROUP, capi.MACHINE_DEPLOYMENT): self.deployments,
            (capi.GROUP, capi.MACHINE_SET): self.sets,
            (capi.GROUP, capi.MACHINE): self.machines,
        }
        self._provided: dict[tuple[str, str], View] = {}
        self.foreign = Foreign(client, clock)
        self._nodes: dict[tuple[str, str], Nodes] = {}
        self._reached: dict[tuple[str, str], Callable[[Object], bool]] = {}
        self._complete = False

    def provide(
        self,
        kind: Kind,
        name: str,
        *,
        nodes: Nodes | None = None,
        reached: Callable[[Object], bool] | None = None,
        **indexes: Index,
    ) -> View:
        """Registers a provider's kind that Clusters, Machines or templates refer to. `nodes` finds the Nodes of
        Machines that refer to it. `is_reachable` reports whether the workload cluster of a Cluster that refers to it
        responds.

        Providers register before any reconciler is created.
        """
        view = View(self._client, kind, self._clock, indexes=indexes, quiet=self.quiet)
        self._provided[kind.group, name] = view
        if nodes is not None:
            self._nodes[kind.group, name] = nodes
        if reached is not None:
            self._reached[kind.group, name] = reached
        self.views.append(view)
        return view

    async def listed(self) -> None:
        """Waits until all informers have synced, so that no existing object looks missing."""
        if not self._complete:
            await asyncio.gather(*(view.listed() for view in self.views))
            self._complete = True

    def follow(self, view: View, queue: WorkQueue[Name]) -> None:
        """Enqueues the objects of a reconciler. A change of the status alone, mostly the reconciler's own write, is
        debounced.
        """
        changes = Changes(_but_for_status)

        def told(obj: Object) -> None:
            if changes.matter(obj):
                queue.add(name_of(obj))
            else:
                self.quiet.add(queue, name_of(obj))

        view.listen(told)

    def can_wait(self, queue: WorkQueue[Name], old: Object, new: Object) -> bool:
        """Reports whether writing the new status is deferred. If so, the key is enqueued again later."""
        if differ_in_words(old, new):
            return not self.quiet.is_due(queue, name_of(old))
        self.quiet.forget(queue, name_of(old))
        return False

    def listen_to_provided(self, told: Told) -> None:
        """Adds a handler to the informers of all registered provider kinds."""
        for view in self._provided.values():
            view.listen(told)

    def listen_to_nodes(self, told: Told) -> None:
        for nodes in self._nodes.values():
            nodes.listen(told)

    def of(self, obj: Object) -> View:
        """The informer of the object's kind, for referring and referenced kinds."""
        key = _group(obj["apiVersion"]), obj["kind"]
        view = self._own.get(key) or self._provided.get(key) or self.foreign.view(*key)
        assert view is not None, key
        return view

    def referring(self, reference: Object) -> View | None:
        """The informer of the reference's kind, or None if no provider registered it."""
        return self._provided.get(_target(reference))

    def referenced(self, namespace: str, reference: Object | None) -> Object | None:
        view = self.referring(reference) if reference is not None else None
        return view.get(namespace, str((reference or {}).get("name"))) if view is not None else None

    def knows(self, reference: Object) -> bool:
        """Reports whether a missing object of this kind really does not exist."""
        return self.referring(reference) is not None or self.foreign.knows(*_target(reference))

    def referenced_anywhere(self, namespace: str, reference: Object | None) -> Object | None:
        """Like `resolve_reference`, external kinds included."""
        if reference is None:
            return None
        view = self.referring(reference) or self.foreign.view(*_target(reference))
        return view.get(namespace, str(reference.get("name"))) if view is not None else None

    def orphans(self, view: View, adopter: Object) -> list[Object]:
        """Objects of the adopter's Cluster without a controller."""
        place = adopter["metadata"]["namespace"], capi.cluster_name(adopter)
        found = view.by("owner", "")
        return [obj for obj in found if (obj["metadata"]["namespace"], capi.cluster_name(obj)) == place]

    def is_reached(self, cluster: Object) -> bool | None:
        """Whether the workload cluster responds. None: no provider can tell."""
        reached = self._reached.get(_target((cluster.get("spec") or {}).get("infrastructureRef") or {}))
        return reached(cluster) if reached is not None else None

    def node_of(self, machine: Object) -> Object | None:
        nodes = self._nodes_of(machine)
        return nodes.of(machine) if nodes is not None else None

    async def patch_node(self, machine: Object, node: Object, patch: Object) -> None:
        nodes = self._nodes_of(machine)
        if nodes is not None:
            await nodes.patch(node, patch)

    def workload(self, machine: Object) -> Client | None:
        """A client of the workload cluster of a Machine's Node."""
        nodes = self._nodes_of(machine)
        return nodes.client(machine) if nodes is not None else None

    def _nodes_of(self, machine: Object) -> Nodes | None:
        return self._nodes.get(_target((machine.get("spec") or {}).get("infrastructureRef") or {}))


class Changes:
    """Filters out changes of an object that do not concern a reconciler. Compares the fields that `fields_of`
    returns.
    """

    def __init__(self, what: Callable[[Object], Hashable]) -> None:
        self._what = what
        self._last: dict[Name, Hashable] = {}

    def matter(self, obj: Object) -> bool:
        name, now = name_of(obj), self._what(obj)
        if self._last.get(name) == now:
            return False
        self._last[name] = now
        return True


def _but_for_status(obj: Object) -> Hashable:
    metadata = obj["metadata"]
    return tuple(metadata.get(field) for field in _BESIDE_STATUS)


def standing(cluster: Object) -> Hashable:
    """The fields of a Cluster that its Machines and their owners depend on."""
    return (
        cluster["metadata"]["uid"],
        capi.is_deleting(cluster),
        capi.is_paused(cluster, cluster),
        capi.initialization(cluster, "infrastructureProvisioned"),
        capi.initialization(cluster, "controlPlaneInitialized"),
    )


def name_of(obj: Object) -> Name:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _target(reference: Object) -> tuple[str, str]:
    return str(reference.get("apiGroup")), str(reference.get("kind"))


def _cluster(obj: Object) -> Iterable[Name]:
    return [(obj["metadata"]["namespace"], capi.cluster_name(obj))]


def _controller(obj: Object) -> Iterable[str]:
    return [capi.controller_uid(obj)]


def _references(obj: Object) -> Iterable[tuple[str, str, str]]:
    spec = obj.get("spec") or {}
    found = [spec[field] for field in ("infrastructureRef", "controlPlaneRef") if spec.get(field)]
    return {(str(each["kind"]), obj["metadata"]["namespace"], str(each["name"])) for each in found}


def _template(obj: Object) -> Iterable[tuple[str, str, str]]:
    reference = obj["spec"]["template"]["spec"]["infrastructureRef"]
    return [(str(reference["kind"]), obj["metadata"]["namespace"], str(reference["name"]))]
