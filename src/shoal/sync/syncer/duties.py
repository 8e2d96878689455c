"""Syncs one object: reads both sides, plans, and executes the plan.

An object in a cluster that does not belong to this hub is never written. A downstream object is deleted only if the hub
object requires it, by its uid, from the hub's own store, and not too many at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.client.reflector import Reflector
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import Conflict, Forbidden, NotFound, StatusError, TooManyRequests
from shoal.runtime.loop import Later
from shoal.runtime.queue import WorkQueue
from shoal.sync.syncer.copying import Copying
from shoal.sync.syncer.decide import Plan, Target, is_ours, needing_kinds, plan, plan_needed, plan_unneeded
from shoal.sync.syncer.guard import WINDOW_SECONDS, Guard
from shoal.sync.syncer.hub import Hub, Synced, Work
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.names import Names
from shoal.sync.syncer.namespaces import Namespaces
from shoal.sync.syncer.references import Ref, References, can_be_needed
from shoal.sync.syncer.telling import Ledgers
from shoal.sync.syncer.travelling import object_named

Object = dict[str, Any]
Passing = (TooManyRequests, NotFound, Conflict)
"""Errors that a retry may not meet."""


class Duties:
    """`downstream` has the reflectors of each kind in the cluster."""

    def __init__(
        self,
        cluster: str,
        hub_id: str,
        hub: Hub,
        writes: HubWrites,
        copying: Copying,
        namespaces: Namespaces,
        names: Names,
        copies: Mapping[Synced, Reflector],
        queue: WorkQueue[Work | str],
        ledgers: Ledgers,
        clock: Clock,
    ) -> None:
        self.name, self.hub_id, self._hub, self._writes = cluster, hub_id, hub, writes
        self._copying, self._namespaces, self._names, self._copies = copying, namespaces, names, copies
        self._queue, self._say = queue, ledgers
        self.guard = Guard(clock)
        self.adopted = ""
        """Another hub whose downstream objects are taken over."""
        self.references: References[Work] = References()
        """References between downstream objects."""

    async def sync(self, work: Work) -> None:
        reflector = self._copies.get(work.synced)
        if reflector is None:
            return  # the cluster does not offer the kind, or no longer does
        namespace = await self._namespaces.name_of(work.namespace) if work.namespace else ""
        api, obj = work.synced.api, self._hub.seen(work)
        needed_by: set[str] = set()
        if can_be_needed(api.plural, api.group) and (obj is None or workload.assigned_to(obj) != self.name):
            needed_by = self._hub.references.kinds(self.name, Ref(api.plural, work.namespace, work.name))
        target = self._target(work, namespace, obj)
        copy = reflector.objects.get(("", namespace, target.name))
        if obj is None and copy is not None and needing_kinds(copy) and not needed_by:
            await self._drop_unneeded(work, target, copy)
            return
        if obj is None:
            obj = await self._fresh(work)
            target = self._target(work, namespace, obj)
            copy = reflector.objects.get(("", namespace, target.name))
        if obj is None and copy is not None and is_ours(copy, self.hub_id) and object_named(copy) != work.name:
            copy = None  # it belongs to another object that uses this one's name
        with self._names.in_hand(work, namespace, target.name):
            await self._bring(work, target, obj, copy, needed_by, reflector)

    def _target(self, work: Work, namespace: str, obj: Object | None) -> Target:
        api = work.synced.api
        return Target(
            *(self.name, self.hub_id, api.group_version, work.synced.kind, work.synced.status),
            *(api.plural, namespace, self.adopted, self._names.of(work, namespace, obj)),
        )

    async def _bring(
        self,
        work: Work,
        target: Target,
        obj: Object | None,
        copy: Object | None,
        needed_by: set[str],
        reflector: Reflector,
    ) -> None:
        concerned = obj is not None and _concerns(obj, self.name)
        if (copy is None and (concerned or (needed_by and obj is not None))) or (obj is None and copy is not None):
            copy = await self._copying.look(work, target.namespace, target.name)
        if needed_by:
            todo = plan_needed(target, obj, copy, needed_by, self._copying.settled(work))
            if obj is not None:
                await self._carry_out(work, target, obj, copy, todo)
            return
        todo = plan(target, obj, copy, self._copying.settled(work))
        if todo.apply is not None and target.name != work.name and not reflector.synced:
            raise Later("its copy may be there by another name: they are not listed yet")
        if todo.rival:
            self._names.waits(work, target.namespace, target.name)
        self._say.orphans.note(work, work.title if todo.orphan else "")
        if copy is None and not concerned:
            self._forget(work)  # nothing of it is left here: the namespace may be empty
        if obj is not None:
            await self._carry_out(work, target, obj, copy, todo)

    async def _fresh(self, work: Work) -> Object | None:
        """None: it does not exist, or this syncer may not read it; that is never a reason to delete."""
        try:
            return await self._writes.fresh(work)
        except Forbidden:
            return None

    def _forget(self, work: Work) -> None:
        for ledger in (self._say.held, self._say.problems):
            ledger.note(work, "")
        self._copying.forget(work)
        if work.namespace:
            self._queue.add(work.namespace)

    async def _carry_out(self, work: Work, target: Target, obj: Object, copy: Object | None, todo: Plan) -> None:
        if todo.hold:
            held = await self._writes.hold(work, obj, self.name)
            if held is None:
                return  # being deleted: the next reconcile sees that
            obj = held
        if todo.apply is not None:
            made = await self._apply(work, obj, todo.apply, copy["metadata"]["uid"] if copy is not None else "")
            if not needing_kinds(made):
                todo = plan(target, obj, made, self._copying.settled(work))
        if todo.delete:
            if await self._writes.is_withdrawn(work):
                await self._let_go(work, obj)
                return
            if not await self._delete(work, target, todo.delete):
                return
        if todo.delete or todo.wait:
            raise Later("the copy is going")
        if todo.release:
            await self._writes.release(work, obj, workload.finalizer_of(self.name))
            self._say.held.note(work, "")
        elif workload.assigned_to(obj) == self.name or self._may_tell(obj):
            await self._writes.tell(work, obj, todo.problem)
        self._say.problems.note(work, f"{work.title}: {todo.problem}" if todo.problem else "")
        if todo.status is not None:
            await self._writes.put_status(work, todo.status)

    def _may_tell(self, obj: Object) -> bool:
        """Whether no other cluster has reported a problem with a shared dependency: they would overwrite each other."""
        said = (obj["metadata"].get("annotations") or {}).get(workload.PROBLEM, "")
        return not workload.assigned_to(obj) and (not said or said.startswith(f"{self.name} "))

    async def _let_go(self, work: Work, obj: Object) -> None:
        """Its kind is withdrawn from the hub: the downstream object stays as an orphan."""
        await self._writes.release(work, obj, workload.finalizer_of(self.name))
        self._say.orphans.note(work, work.title)

    async def _drop_unneeded(self, work: Work, target: Target, copy: Object) -> None:
        """Deletes only if all possible referrers are known on both sides, and none references it."""
        kinds = needing_kinds(copy)
        offered = {synced.api.group_resource for synced, found in self._copies.items() if found.synced}
        ref = Ref(target.plural, work.namespace, work.name)
        if self.references.kinds(self.name, ref):
            return  # a downstream object still references it: enqueued again when that one is deleted
        if not kinds <= offered or not self._hub.is_complete(kinds):
            raise Later("not everybody who may name it is known yet")
        todo = plan_unneeded(target, copy)
        if todo.delete:
            await self._delete(work, target, todo.delete)

    async def _apply(self, work: Work, obj: Object, wanted: Object, uid: str) -> Object:
        try:
            return await self._copying.apply(work, wanted, uid)
        except StatusError as error:
            if error.status_code < 500 and not isinstance(error, Passing):
                said = f"{self.name} refused it: {error.message}"[:1000]
                self._say.problems.note(work, f"{work.title}: {error.message[:200]}")
                if workload.assigned_to(obj) == self.name or self._may_tell(obj):
                    await self._writes.tell(work, obj, said)
            raise

    async def _delete(self, work: Work, target: Target, uid: str) -> bool:
        """False: the deletion is held, and retried when it is allowed."""
        if not len(self._say.held) and not self._hub.leaving(self.name):
            self.guard.stopped = False  # the mass deletion is over
        managed = sum(len(found.objects) for found in self._copies.values())
        if not self.guard.admits(self._hub.leaving(self.name), managed):
            self._say.held.note(work, work.title)
            self._queue.add_after(work, WINDOW_SECONDS)
            return False
        if await self._writes.identity() != self.hub_id:
            raise Later("the hub's store is another one: nothing is deleted")
        self._say.held.note(work, "")
        self.guard.deleted()
        await self._copying.delete(work, target.namespace, target.name, uid)
        return True


def _concerns(obj: Object, cluster: str) -> bool:
    return workload.assigned_to(obj) == cluster or workload.finalizer_of(cluster) in workload.syncer_finalizers(obj)
