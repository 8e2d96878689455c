"""Syncs one object: reads both sides, plans, and executes the plan.

An object in a cluster that does not belong to this hub is never written. A downstream object is deleted only if the hub
object requires it, by its uid, from the hub's own store, and not too many at once.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import Conflict, Forbidden, NotFound, NotImplementedHere, StatusError, TooManyRequests
from shoal.runtime.controller import RequeueError
from shoal.sync.syncer.autoscalers import is_autoscaled
from shoal.sync.syncer.decide import (
    SyncPlan,
    SyncTarget,
    is_from_hub,
    is_leaving,
    needed_by_kinds,
    plan_dependency,
    plan_sync,
    plan_unneeded_dependency,
)
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.downstream import DownstreamClient
from shoal.sync.syncer.hub_informers import SyncKey
from shoal.sync.syncer.references import DependencyRef, ReferenceIndex, is_dependency_kind
from shoal.sync.syncer.transform import hub_name

WINDOW_SECONDS = 60.0
FREE_DELETIONS = 20
"""Number of deletions that are always allowed."""
MAX_SHARE = 0.5
"""Maximum share of all downstream objects; more deletions at once are held."""


class DeletionGuard:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deletion_times: deque[float] = deque()
        self.is_confirmed = False
        """A person has confirmed the deletions."""
        self.is_stopped = False
        """Until confirmation nothing more is deleted, however few."""

    def allow(self, leaving: int, managed: int) -> bool:
        """Whether one more deletion is allowed: `leaving` objects must be deleted now, of `managed` existing ones."""
        if self.is_confirmed:
            self.is_stopped = False
            return True
        recent = self._recent()
        pending, total = recent + max(leaving, 1), recent + managed
        self.is_stopped = self.is_stopped or not (pending <= FREE_DELETIONS or pending <= MAX_SHARE * total)
        return not self.is_stopped

    def record_deletion(self) -> None:
        self._deletion_times.append(self._clock.monotonic())

    def _recent(self) -> int:
        until = self._clock.monotonic() - WINDOW_SECONDS
        while self._deletion_times and self._deletion_times[0] < until:
            self._deletion_times.popleft()
        return len(self._deletion_times)


Object = dict[str, Any]
TRANSIENT_ERRORS = (TooManyRequests, NotFound, Conflict)
"""Errors that a retry may not meet."""


class ObjectSyncer:
    def __init__(self, deps: SyncerDeps) -> None:
        self.cluster_name, self.hub_id, self._hub, self._hub_writer = (
            deps.cluster,
            deps.hub_id,
            deps.hub,
            deps.hub_writer,
        )
        self._namespaces, self._names, self._downstream = deps.namespaces, deps.names, deps.downstream
        self._downstream_client = DownstreamClient(deps.client, deps.namespaces)
        self._queue, self._status = deps.queue, deps.status
        self.guard = DeletionGuard(deps.clock)
        self.adopted_hub = ""
        """Another hub whose downstream objects are taken over."""
        self.references: ReferenceIndex[SyncKey] = ReferenceIndex()
        """References between downstream objects."""
        self.are_resources_complete = False
        """All kinds that the cluster takes are known."""

    async def sync(self, sync_key: SyncKey) -> None:
        informer = self._downstream.get(sync_key.resource)
        if informer is None:
            await self._finish_removal(sync_key)
            return
        namespace = await self._namespaces.name_of(sync_key.namespace) if sync_key.namespace else ""
        api, obj = sync_key.resource.api, self._hub.get_full(sync_key)
        needed_by: set[str] = set()
        if is_dependency_kind(api.plural, api.group) and (
            obj is None or workloadcluster.assigned_cluster(obj) != self.cluster_name
        ):
            needed_by = self._hub.references.referrer_kinds(
                self.cluster_name, DependencyRef(api.plural, sync_key.namespace, sync_key.name)
            )
        are_copies_listed = informer.has_synced  # as it was when the downstream name was looked up
        target = self._target(sync_key, namespace, obj)
        copy = informer.get(("", namespace, target.name))
        if obj is None and copy is not None and needed_by_kinds(copy) and not needed_by:
            await self._delete_unneeded(sync_key, target, copy)
            return
        if obj is None:
            obj = await self._get_live(sync_key)
            are_copies_listed = informer.has_synced
            target = self._target(sync_key, namespace, obj)
            copy = informer.get(("", namespace, target.name))
        if obj is None and copy is not None and is_from_hub(copy, self.hub_id) and hub_name(copy) != sync_key.name:
            copy = None  # it belongs to another object that uses this one's name
        with self._names.reserve(sync_key, namespace, target.name):
            await self._sync_pair(sync_key, target, obj, copy, needed_by, are_copies_listed)

    async def _finish_removal(self, sync_key: SyncKey) -> None:
        """The cluster does not take the kind, or no longer does. What leaves it is not held by that."""
        obj = self._hub.get_full(sync_key) if self.are_resources_complete else None
        if obj is None or not is_leaving(obj, self.cluster_name):
            return
        namespace = await self._namespaces.name_of(sync_key.namespace) if sync_key.namespace else ""
        target = self._target(sync_key, namespace, obj)
        copy = await self._downstream_client.get(sync_key, namespace, target.name)
        await self._execute(sync_key, target, obj, copy, plan_sync(target, obj, copy))
        self._forget(sync_key)

    def _target(self, sync_key: SyncKey, namespace: str, obj: Object | None) -> SyncTarget:
        api, kind = sync_key.resource.api, sync_key.resource.kind
        name = self._names.name_for(sync_key, namespace, obj)
        return SyncTarget(
            cluster=self.cluster_name,
            hub=self.hub_id,
            api_version=api.group_version,
            kind=kind,
            has_status=sync_key.resource.has_status,
            plural=api.plural,
            namespace=namespace,
            adopted_hub=self.adopted_hub,
            name=name,
            is_autoscaled=obj is not None
            and "replicas" in (obj.get("spec") or {})
            and is_autoscaled(self._downstream, namespace, kind, name),
        )

    async def _sync_pair(
        self,
        sync_key: SyncKey,
        target: SyncTarget,
        obj: Object | None,
        copy: Object | None,
        needed_by: set[str],
        are_copies_listed: bool,
    ) -> None:
        is_for_cluster = obj is not None and _is_for_cluster(obj, self.cluster_name)
        if (copy is None and (is_for_cluster or (needed_by and obj is not None))) or (obj is None and copy is not None):
            copy = await self._downstream_client.get(sync_key, target.namespace, target.name)
        if needed_by:
            sync_plan = plan_dependency(
                target, obj, copy, needed_by, self._downstream_client.settled_fingerprint(sync_key)
            )
            if obj is not None:
                await self._execute(sync_key, target, obj, copy, sync_plan)
            return
        sync_plan = plan_sync(target, obj, copy, self._downstream_client.settled_fingerprint(sync_key))
        if sync_plan.apply is not None and target.name != sync_key.name and not are_copies_listed:
            raise RequeueError("the copy may have another name: the informer of copies has not synced yet")
        if sync_plan.name_conflict:
            self._names.wait_for_name(sync_key, target.namespace, target.name)
        self._status.orphans.update(sync_key, sync_key.title if sync_plan.orphan else "")
        if copy is None and not is_for_cluster:
            self._forget(sync_key)  # nothing of it is left here: the namespace may be empty
        if obj is not None:
            await self._execute(sync_key, target, obj, copy, sync_plan)

    async def _get_live(self, sync_key: SyncKey) -> Object | None:
        """None: it does not exist, or this syncer may not read it; that is never a reason to delete."""
        try:
            return await self._hub_writer.get_live(sync_key)
        except Forbidden:
            return None

    def _forget(self, sync_key: SyncKey) -> None:
        for object_set in (self._status.held_deletions, self._status.problems):
            object_set.update(sync_key, "")
        self._downstream_client.forget(sync_key)
        if sync_key.namespace:
            self._queue.add(sync_key.namespace)

    async def _execute(
        self, sync_key: SyncKey, target: SyncTarget, obj: Object, copy: Object | None, sync_plan: SyncPlan
    ) -> None:
        if sync_plan.add_finalizer:
            updated = await self._hub_writer.add_finalizer(sync_key, obj, self.cluster_name)
            if updated is None:
                return  # being deleted: the next reconcile sees that
            obj = updated
        if sync_plan.apply is not None:
            applied = await self._apply(
                sync_key, obj, sync_plan.apply, copy["metadata"]["uid"] if copy is not None else ""
            )
            if not needed_by_kinds(applied):
                sync_plan = plan_sync(target, obj, applied, self._downstream_client.settled_fingerprint(sync_key))
        if sync_plan.delete:
            if await self._hub_writer.is_crd_deleting(sync_key):
                await self._release_orphan(sync_key, obj)
                return
            if not await self._delete(sync_key, target, sync_plan.delete):
                return
        if sync_plan.delete or sync_plan.wait:
            raise RequeueError("waiting for the copy to be deleted")
        if sync_plan.remove_finalizer:
            await self._hub_writer.remove_finalizer(sync_key, obj, workloadcluster.syncer_finalizer(self.cluster_name))
            self._status.held_deletions.update(sync_key, "")
        elif workloadcluster.assigned_cluster(obj) == self.cluster_name or self._may_write_problem(obj):
            await self._hub_writer.write_problem(sync_key, obj, sync_plan.problem)
        self._status.problems.update(sync_key, f"{sync_key.title}: {sync_plan.problem}" if sync_plan.problem else "")
        if sync_plan.dependency_status is not None:
            await self._hub_writer.write_dependency_status(sync_key, self.cluster_name, sync_plan.dependency_status)
        if sync_plan.status is not None:
            await self._hub_writer.put_status(sync_key, sync_plan.status)

    def _may_write_problem(self, obj: Object) -> bool:
        """Whether no other cluster has reported a problem with a shared dependency: they would overwrite each other."""
        problem = (obj["metadata"].get("annotations") or {}).get(workloadcluster.PROBLEM_ANNOTATION, "")
        return not workloadcluster.assigned_cluster(obj) and (
            not problem or problem.startswith(f"{self.cluster_name} ")
        )

    async def _release_orphan(self, sync_key: SyncKey, obj: Object) -> None:
        """Its kind is withdrawn from the hub: the downstream object stays as an orphan."""
        await self._hub_writer.remove_finalizer(sync_key, obj, workloadcluster.syncer_finalizer(self.cluster_name))
        self._status.orphans.update(sync_key, sync_key.title)

    async def _delete_unneeded(self, sync_key: SyncKey, target: SyncTarget, copy: Object) -> None:
        """Deletes only if all possible referrers are known on both sides, and none references it."""
        kinds = needed_by_kinds(copy)
        synced_kinds = {
            resource.api.group_resource for resource, informer in self._downstream.items() if informer.has_synced
        }
        ref = DependencyRef(target.plural, sync_key.namespace, sync_key.name)
        if self.references.referrer_kinds(self.cluster_name, ref):
            return  # a downstream object still references it: enqueued again when that one is deleted
        if not kinds <= synced_kinds or not self._hub.has_synced(kinds):
            raise RequeueError("informers of the objects that may reference it have not synced yet")
        sync_plan = plan_unneeded_dependency(target, copy)
        if sync_plan.delete:
            await self._delete(sync_key, target, sync_plan.delete)

    async def _apply(self, sync_key: SyncKey, obj: Object, desired: Object, uid: str) -> Object:
        try:
            return await self._downstream_client.apply(sync_key, desired, uid)
        except StatusError as error:
            is_final = error.status_code < 500 or isinstance(error, NotImplementedHere)
            if is_final and not isinstance(error, TRANSIENT_ERRORS):
                problem = f"{self.cluster_name} rejected it: {error.message}"[:1000]
                self._status.problems.update(sync_key, f"{sync_key.title}: {error.message[:200]}")
                if workloadcluster.assigned_cluster(obj) == self.cluster_name or self._may_write_problem(obj):
                    await self._hub_writer.write_problem(sync_key, obj, problem)
            raise

    async def _delete(self, sync_key: SyncKey, target: SyncTarget, uid: str) -> bool:
        """False: the deletion is held, and retried when it is allowed."""
        if not len(self._status.held_deletions) and not self._hub.leaving_count(self.cluster_name):
            self.guard.is_stopped = False  # the mass deletion is over
        managed = sum(len(informer.objects) for informer in self._downstream.values())
        if not self.guard.allow(self._hub.leaving_count(self.cluster_name), managed):
            self._status.held_deletions.update(sync_key, sync_key.title)
            self._queue.add_after(sync_key, WINDOW_SECONDS)
            return False
        if await self._hub_writer.hub_uid() != self.hub_id:
            raise RequeueError("the hub has another store than before: nothing is deleted")
        self._status.held_deletions.update(sync_key, "")
        self.guard.record_deletion()
        await self._downstream_client.delete(sync_key, target.namespace, target.name, uid)
        return True


def _is_for_cluster(obj: Object, cluster: str) -> bool:
    return workloadcluster.assigned_cluster(obj) == cluster or workloadcluster.syncer_finalizer(
        cluster
    ) in workloadcluster.syncer_finalizers(obj)
