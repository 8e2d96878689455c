"""The informers of Cluster API: its own kinds with their indexes, and the kinds that providers register.

The core knows no provider. A provider registers its kinds and how to find the Nodes of its Machines.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from shoal.capi.conditions import differs_only_in_text
from shoal.capi.external import ExternalObjectTracker
from shoal.capi.replicas import missing_template_reason
from shoal.capi.status_debouncer import StatusDebouncer
from shoal.capi.writer import Writer
from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.clusterapi import capi
from shoal.runtime.informer import EventHandler, Informer
from shoal.runtime.informer_store import IndexFunc, by_controller
from shoal.runtime.workqueue import WorkQueue

Object = dict[str, Any]
NamespacedName = tuple[str, str]
"""Namespace and name."""

CLUSTERS = GroupVersionResource(capi.GROUP, capi.VERSION, "clusters")
MACHINES = GroupVersionResource(capi.GROUP, capi.VERSION, "machines")
MACHINE_SETS = GroupVersionResource(capi.GROUP, capi.VERSION, "machinesets")
MACHINE_DEPLOYMENTS = GroupVersionResource(capi.GROUP, capi.VERSION, "machinedeployments")
MACHINE_HEALTH_CHECKS = GroupVersionResource(capi.GROUP, capi.VERSION, "machinehealthchecks")
SECRETS = GroupVersionResource("", "v1", "secrets")
_NON_STATUS_FIELDS = (
    *("uid", "generation", "deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences"),
)


class NodeAccessor(Protocol):
    """A provider's access to the Nodes of its Machines."""

    def node_for(self, machine: Object) -> Object | None: ...

    def add_event_handler(self, handler: EventHandler) -> None: ...

    async def patch(self, node: Object, patch: Object) -> Object: ...

    def workload_client(self, machine: Object) -> Client | None:
        """A client of the workload cluster. None: it does not exist yet."""
        ...


class CAPIInformers:
    """`client` is at the management cluster: any API server that serves the kinds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.debouncer = StatusDebouncer()
        self.writer = Writer(client, self.debouncer)
        self.clusters = Informer(client, CLUSTERS, clock, indexers=(by_reference,))
        self.machine_deployments = Informer(client, MACHINE_DEPLOYMENTS, clock, indexers=(by_cluster_name,))
        self.machine_sets = Informer(
            client, MACHINE_SETS, clock, indexers=(by_cluster_name, by_controller, by_template)
        )
        self.machines = Informer(client, MACHINES, clock, indexers=(by_cluster_name, by_controller, by_reference))
        self.health_checks = Informer(client, MACHINE_HEALTH_CHECKS, clock, indexers=(by_cluster_name,))
        self.kubeconfigs = Informer(client, SECRETS, clock, fields=f"type={capi.KUBECONFIG_SECRET_TYPE}")
        self.all_informers = [
            self.clusters, self.machine_deployments, self.machine_sets, self.machines, self.health_checks,
            self.kubeconfigs,
        ]  # fmt: skip
        """All informers that must run, and must have synced before any decision."""
        self._core_informers = {
            (capi.GROUP, capi.MACHINE_DEPLOYMENT): self.machine_deployments,
            (capi.GROUP, capi.MACHINE_SET): self.machine_sets,
            (capi.GROUP, capi.MACHINE): self.machines,
        }
        self._provider_informers: dict[tuple[str, str], Informer] = {}
        self.external = ExternalObjectTracker(client, clock)
        self._node_accessors: dict[tuple[str, str], NodeAccessor] = {}
        self._reachability_checks: dict[tuple[str, str], Callable[[Object], bool]] = {}

    def register_kind(
        self,
        gvr: GroupVersionResource,
        kind: str,
        *,
        nodes: NodeAccessor | None = None,
        is_reachable: Callable[[Object], bool] | None = None,
        indexers: Iterable[IndexFunc] = (),
    ) -> Informer:
        """Registers a provider's kind that Clusters, Machines or templates refer to. `nodes` finds the Nodes of
        Machines that refer to it. `is_reachable` reports whether the workload cluster of a Cluster that refers to it
        responds.

        Providers register before any reconciler is created.
        """
        informer = Informer(self._client, gvr, self._clock, indexers=indexers)
        self._provider_informers[gvr.group, kind] = informer
        if nodes is not None:
            self._node_accessors[gvr.group, kind] = nodes
        if is_reachable is not None:
            self._reachability_checks[gvr.group, kind] = is_reachable
        self.all_informers.append(informer)
        return informer

    async def wait_for_sync(self) -> None:
        """Waits until all informers have synced, so that no existing object looks missing."""
        for informer in self.all_informers:
            await informer.wait_for_sync()

    def enqueue_on_change(self, informer: Informer, queue: WorkQueue[NamespacedName]) -> None:
        """Enqueues the objects of a reconciler. A change of the status alone, mostly the reconciler's own write, is
        debounced.
        """

        def handle(key: Key, old: Object | None, new: Object | None) -> None:
            if has_changed(old, new, _non_status_fields):
                queue.add(key[1:])
            else:
                self.debouncer.add(queue, key[1:])

        informer.add_event_handler(handle)

    def defer_status(self, queue: WorkQueue[NamespacedName], old: Object, new: Object) -> bool:
        """Reports whether writing the new status is deferred. If so, the key is enqueued again later."""
        if differs_only_in_text(old, new):
            return not self.debouncer.is_due(queue, namespaced_name(old))
        self.debouncer.forget(queue, namespaced_name(old))
        return False

    def add_provider_handler(self, handler: EventHandler) -> None:
        """Adds a handler to the informers of all registered provider kinds."""
        for informer in self._provider_informers.values():
            informer.add_event_handler(handler)

    def add_node_handler(self, handler: EventHandler) -> None:
        for nodes in self._node_accessors.values():
            nodes.add_event_handler(handler)

    def informer_of(self, obj: Object) -> Informer:
        """The informer of the object's kind, for referring and referenced kinds."""
        key = _group_of(obj["apiVersion"]), obj["kind"]
        informer = (
            self._core_informers.get(key) or self._provider_informers.get(key) or self.external.informer_for(*key)
        )
        assert informer is not None, key
        return informer

    def informer_for(self, reference: Object) -> Informer | None:
        """The informer of the reference's kind, or None if no provider registered it."""
        return self._provider_informers.get(_group_kind(reference))

    def resolve_reference(self, namespace: str, reference: Object | None) -> Object | None:
        informer = self.informer_for(reference) if reference is not None else None
        return informer.get(("", namespace, str((reference or {}).get("name")))) if informer is not None else None

    def missing_template(self, namespace: str, reference: Object) -> str:
        """Why no Machine can be made of the infrastructure template. Empty: it exists."""
        return missing_template_reason(
            reference["kind"],
            has_template=self.resolve_reference(namespace, reference) is not None,
            has_provider=self.informer_for(reference) is not None,
        )

    def can_resolve(self, reference: Object) -> bool:
        """Reports whether a missing object of this kind really does not exist."""
        return self.informer_for(reference) is not None or self.external.can_resolve(*_group_kind(reference))

    def resolve_any_reference(self, namespace: str, reference: Object | None) -> Object | None:
        """Like `resolve_reference`, external kinds included."""
        if reference is None:
            return None
        informer = self.informer_for(reference) or self.external.informer_for(*_group_kind(reference))
        return informer.get(("", namespace, str(reference.get("name")))) if informer is not None else None

    def controlled_by(self, informer: Informer, owner: Object) -> list[Object]:
        """Objects whose controller is the owner."""
        metadata = owner["metadata"]
        return informer.by_index(by_controller, ("", metadata["namespace"], metadata["uid"]))

    def orphans(self, informer: Informer, adopter: Object) -> list[Object]:
        """Objects of the adopter's Cluster without a controller."""
        unowned = informer.by_index(by_controller, ("", adopter["metadata"]["namespace"], ""))
        return [obj for obj in unowned if capi.cluster_name(obj) == capi.cluster_name(adopter)]

    def is_reachable(self, cluster: Object) -> bool | None:
        """Whether the workload cluster responds. None: no provider can tell."""
        check = self._reachability_checks.get(_group_kind((cluster.get("spec") or {}).get("infrastructureRef") or {}))
        return check(cluster) if check is not None else None

    def node_of(self, machine: Object) -> Object | None:
        accessor = self._node_accessor_for(machine)
        return accessor.node_for(machine) if accessor is not None else None

    async def patch_node(self, machine: Object, node: Object, patch: Object) -> None:
        accessor = self._node_accessor_for(machine)
        if accessor is not None:
            await accessor.patch(node, patch)

    def workload_client(self, machine: Object) -> Client | None:
        """A client of the workload cluster of a Machine's Node."""
        accessor = self._node_accessor_for(machine)
        return accessor.workload_client(machine) if accessor is not None else None

    def _node_accessor_for(self, machine: Object) -> NodeAccessor | None:
        return self._node_accessors.get(_group_kind((machine.get("spec") or {}).get("infrastructureRef") or {}))


def has_changed(old: Object | None, new: Object | None, fields_of: Callable[[Object], Hashable]) -> bool:
    """Whether an event concerns a reconciler that depends on the fields that `fields_of` returns."""
    return old is None or new is None or fields_of(old) != fields_of(new)


def versions(old: Object | None, new: Object | None) -> list[Object]:
    """The known versions of a changed object. They may name different owners."""
    return [obj for obj in (old, new) if obj is not None]


def _non_status_fields(obj: Object) -> Hashable:
    metadata = obj["metadata"]
    return tuple(metadata.get(field) for field in _NON_STATUS_FIELDS)


def cluster_state_for_machines(cluster: Object) -> Hashable:
    """The fields of a Cluster that its Machines and their owners depend on."""
    return (
        cluster["metadata"]["uid"],
        capi.is_deleting(cluster),
        capi.is_paused(cluster, cluster),
        capi.initialization_flag(cluster, "infrastructureProvisioned"),
        capi.initialization_flag(cluster, "controlPlaneInitialized"),
    )


def namespaced_name(obj: Object) -> NamespacedName:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _group_kind(reference: Object) -> tuple[str, str]:
    return str(reference.get("apiGroup")), str(reference.get("kind"))


def by_cluster_name(key: Key, obj: Object) -> Iterable[NamespacedName]:
    """Index by the Cluster that an object belongs to."""
    return ((key[1], capi.cluster_name(obj)),)


def by_reference(key: Key, obj: Object) -> Iterable[tuple[str, str, str]]:
    """Index by the provider objects that an object refers to: kind, namespace, name."""
    spec = obj.get("spec") or {}
    references = [spec[field] for field in ("infrastructureRef", "controlPlaneRef") if spec.get(field)]
    return {(str(reference["kind"]), key[1], str(reference["name"])) for reference in references}


def by_template(key: Key, obj: Object) -> Iterable[tuple[str, str, str]]:
    """Index by infrastructure template: kind, namespace, name."""
    reference = obj["spec"]["template"]["spec"]["infrastructureRef"]
    return ((str(reference["kind"]), key[1], str(reference["name"])),)
