"""Keeps the revisions of Deployments, StatefulSets and DaemonSets of a hub.

The clusters that run a workload have revisions of their leaf. Those on the hub are of the object that a person edits:
`kubectl rollout undo` restores an earlier template there, and the leaves follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.apps.deployment import REVISION
from shoal.kinds.fleet import logicalcluster
from shoal.kinds.workload import apiresource
from shoal.kinds.workload.rollout_history import HISTORY_LABEL
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.objects.ownership import controller_name, is_controlled_by
from shoal.placement.revisions.decide import RevisionChanges, deployment_changes, set_changes
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]
WorkloadKey = tuple[str, Key]
"""A kind such as `Deployment`, and an object of it."""
ChangesFunc = Callable[[Object, list[Object], int], RevisionChanges]

NEGOTIATED = GroupVersionResource(
    apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False
)
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
CONTROLLER_REVISIONS = GroupVersionResource("apps", "v1", "controllerrevisions")
UNSERVED_SECONDS = 0.05
"""Between checks of a kind that was published, until the hub serves it."""


class VersionedKind(NamedTuple):
    name: str
    resource: GroupVersionResource
    revisions: GroupVersionResource
    changes: ChangesFunc


KINDS = tuple(
    VersionedKind(name, GroupVersionResource("apps", "v1", f"{name.lower()}s"), revisions, changes)
    for name, revisions, changes in (
        ("Deployment", REPLICA_SETS, deployment_changes),
        ("StatefulSet", CONTROLLER_REVISIONS, set_changes),
        ("DaemonSet", CONTROLLER_REVISIONS, set_changes),
    )
)


def new_revision_controllers(
    client: Client, clock: Clock, logical_cluster: str = "root"
) -> list[Controller[WorkloadKey]]:
    """`logical_cluster` is the one whose objects are placed. Where workloads run directly, their controllers keep
    revisions.
    """
    return [RevisionReconciler(client, clock, logical_cluster).controller]


class _Workloads:
    """One kind on the hub, with its revisions."""

    def __init__(
        self, client: Client, clock: Clock, kind: VersionedKind, enqueue: Callable[[WorkloadKey], None]
    ) -> None:
        self.kind = kind
        self.objects = Informer(client, kind.resource, clock, poll_until_served=UNSERVED_SECONDS)
        self.revisions = Informer(
            client,
            kind.revisions,
            clock,
            labels=HISTORY_LABEL,
            indexers=(by_controller,),
            poll_until_served=UNSERVED_SECONDS,
        )
        self.expectations: WriteExpectations[Key] = WriteExpectations(self.revisions)
        self.collisions: dict[Key, int] = {}
        """How often the name of a new revision was taken."""
        self._enqueue = enqueue
        self.objects.add_event_handler(self._on_object)
        self.revisions.add_event_handler(self._on_revision)
        for informer in (self.objects, self.revisions):
            informer.on_sync(self._enqueue_all)

    def _on_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._enqueue((self.kind.name, key))

    def _on_revision(self, key: Key, old: Object | None, new: Object | None) -> None:
        for name in {controller_name(obj, "apps", self.kind.name) for obj in (old, new)} - {""}:
            self._enqueue((self.kind.name, (key[0], key[1], name)))

    def _enqueue_all(self) -> None:
        """Before the sync their keys were dropped."""
        for key in self.objects.objects:
            self._enqueue((self.kind.name, key))


class RevisionReconciler:
    def __init__(self, client: Client, clock: Clock, logical_cluster: str) -> None:
        self._client, self._clock, self._logical_cluster = client.in_cluster(logical_cluster), clock, logical_cluster
        self.controller: Controller[WorkloadKey] = Controller("revisions", clock, self.reconcile)
        self._workloads: dict[str, _Workloads] = {}
        self._announced: set[str] = set()
        """Plurals that the hub serves, or is about to."""
        self._kinds_changed = asyncio.Event()
        self.controller.watch(Informer(self._client, NEGOTIATED, clock), self._on_negotiated)
        self.controller.sources.append(self._run_kinds)

    def _on_negotiated(self, key: Key, old: Object | None, new: Object | None) -> None:
        group_version = ((new or {}).get("spec") or {}).get("groupVersion") or {}
        if new is not None and group_version.get("group") == "apps" and new["spec"].get("publish"):
            self._announced.add(str(new["spec"].get("plural")))
            self._kinds_changed.set()

    async def _run_kinds(self) -> None:
        """Runs the informers of every kind once it is published: earlier requests would only fail."""
        running: set[str] = set()
        self._kinds_changed.set()
        async with asyncio.TaskGroup() as group:
            while True:
                await self._kinds_changed.wait()
                self._kinds_changed.clear()
                if not self._announced or not await self._is_hub():
                    continue
                for kind in KINDS:
                    if kind.resource.resource in self._announced and kind.name not in running:
                        running.add(kind.name)
                        workloads = self._workloads.setdefault(
                            kind.name, _Workloads(self._client, self._clock, kind, self.controller.queue.add)
                        )
                        group.create_task(workloads.objects.run())
                        group.create_task(workloads.revisions.run())

    async def _is_hub(self) -> bool:
        cluster = await self._client.in_cluster("root").get(LOGICAL_CLUSTERS, self._logical_cluster)
        return bool((cluster.get("spec") or {}).get("profile", "hub") == "hub")

    async def reconcile(self, workload_key: WorkloadKey) -> None:
        name, key = workload_key
        workloads = self._workloads[name]
        if not workloads.objects.has_synced or not workloads.revisions.has_synced:
            return  # All are enqueued after the sync.
        cached = workloads.objects.get(key)
        if cached is None:
            workloads.expectations.forget(key)
            workloads.collisions.pop(key, None)
            return
        if controller_name(cached, "apps", name) or "deletionTimestamp" in cached["metadata"]:
            return  # The history of a leaf is that of its root.
        if not workloads.expectations.satisfied(key):
            return
        owner = {**cached, "apiVersion": "apps/v1", "kind": name}
        revisions = workloads.revisions.by_index(by_controller, (key[0], key[1], owner["metadata"]["uid"]))
        await self._apply_changes(
            workloads, key, owner, workloads.kind.changes(owner, revisions, workloads.collisions.get(key, 0))
        )

    async def _apply_changes(self, workloads: _Workloads, key: Key, owner: Object, changes: RevisionChanges) -> None:
        resource = workloads.kind.revisions
        if changes.create is not None:
            await self._create(workloads, key, owner, changes.create)
        for revision in changes.update:
            workloads.expectations.expect(key, await self._client.update(resource, revision))
        for revision in changes.delete:
            metadata = revision["metadata"]
            try:
                await self._client.delete(resource, metadata["name"], key[1], uid=metadata["uid"])
            except NotFound:
                continue
        if changes.annotation:
            patch = {"metadata": {"uid": owner["metadata"]["uid"], "annotations": {REVISION: changes.annotation}}}
            # As upstream, with the status: the generation stays.
            await self._client.merge_patch(workloads.kind.resource, key[2], patch, key[1], "status")

    async def _create(self, workloads: _Workloads, key: Key, owner: Object, revision: Object) -> None:
        resource = workloads.kind.revisions
        try:
            workloads.expectations.expect(key, await self._client.create(resource, revision, key[1]))
        except AlreadyExists:
            existing = await self._client.get(resource, revision["metadata"]["name"], key[1])
            if not is_controlled_by(existing, owner):
                workloads.collisions[key] = workloads.collisions.get(key, 0) + 1
            raise RequeueError(f"{resource.resource} {revision['metadata']['name']} already exists") from None
