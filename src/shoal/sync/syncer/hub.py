"""The hub side of syncers: one watch per kind, whose objects are dispatched to the clusters they are assigned to.

Objects are indexed by the finalizers they have or should have (`workload.finalizer_of`), so that a downstream object in
a formerly assigned cluster is not forgotten. They are also indexed by the objects that reference them, so that
dependencies of pods are synced too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import Api
from shoal.objects.errors import StatusError
from shoal.sync.syncer.references import Ref, References, can_be_needed, refs_of

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

AGAIN_SECONDS = 1.0


class Synced(NamedTuple):
    """A kind whose objects are synced."""

    api: Api
    kind: str
    status: bool
    namespaced: bool = True

    @property
    def resource(self) -> Kind:
        return Kind(*self.api, self.namespaced)


class Work(NamedTuple):
    """Identifies an object on the hub, and its downstream object in any cluster."""

    synced: Synced
    namespace: str
    name: str

    @property
    def title(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.synced.api.group_resource} {where}"


Told = Callable[[Work], None]


class Hub:
    def __init__(self, client: Client, clock: Clock, only: str = "") -> None:
        """`only`: the single cluster whose objects are visible and watched."""
        self._client, self._clock, self._only = client, clock, only
        self._reflectors: dict[Synced, list[Reflector]] = {}
        self._tasks: dict[Synced, asyncio.Task[None]] = {}
        self._needed: dict[str, Synced] = {}
        """Kinds of objects that others reference, by plural."""
        self._targets: dict[Work, frozenset[str]] = {}
        self._works: dict[str, dict[Work, None]] = {}
        """The same, by finalizer."""
        self._leaving: dict[str, set[Work]] = {}
        self._told: dict[str, Told] = {}
        self.references: References[Work] = References()
        self.unheard: Callable[[Work, str], None] = lambda work, finalizer: None
        """Called for objects with the finalizer of a cluster that no syncer here handles."""
        self.named: Callable[[Ref], None] = lambda ref: None
        """Called when an object gains or loses a reference, or a referenced object changes."""
        self.listed: Callable[[], None] = lambda: None
        """Called after each complete list."""

    # --- handlers ---

    def attach(self, cluster: str, told: Told) -> None:
        """From now on `handler` receives the objects that are or were assigned to the cluster, or are dependencies
        there; first all existing ones.
        """
        finalizer = workload.finalizer_of(cluster)
        self._told[finalizer] = told
        for work in [*self._meant_for(finalizer), *self._needed_in(cluster)]:
            told(work)

    def detach(self, cluster: str) -> None:
        self._told.pop(workload.finalizer_of(cluster), None)

    def meant_for(self, cluster: str, synced: Synced) -> list[Work]:
        found = [*self._meant_for(workload.finalizer_of(cluster)), *self._needed_in(cluster)]
        return [work for work in found if work.synced == synced]

    def all_meant_for(self, cluster: str) -> list[Work]:
        return self._meant_for(workload.finalizer_of(cluster))

    def leaving(self, cluster: str) -> int:
        """Number of objects whose downstream object must be deleted there."""
        return len(self._leaving.get(workload.finalizer_of(cluster), ()))

    def has_any(self, cluster: str, namespace: str) -> bool:
        """Whether any known object in that namespace is or was assigned to the cluster."""
        return any(work.namespace == namespace for work in self._works.get(workload.finalizer_of(cluster), ()))

    def is_complete(self, kinds: set[str] | None = None) -> bool:
        """Whether all objects of the kinds (all by default) are known; False for a kind that is not served."""
        known = {synced.api.group_resource: found for synced, found in self._reflectors.items()}
        if kinds is not None and not kinds <= known.keys():
            return False
        return all(each.synced for name, found in known.items() if kinds is None or name in kinds for each in found)

    def unlisted(self, kinds: set[Synced]) -> list[str]:
        """Kinds whose objects on the hub are not known yet."""
        found = (kind for kind in kinds if not all(each.synced for each in self._reflectors.get(kind, ())))
        return sorted(kind.api.group_resource for kind in found)

    def _meant_for(self, finalizer: str) -> list[Work]:
        return list(self._works.get(finalizer, ()))

    def _needed_in(self, cluster: str) -> list[Work]:
        found = (self.work_of(ref) for ref in self.references.of_cluster(cluster))
        return [work for work in found if work is not None]

    def work_of(self, ref: Ref) -> Work | None:
        """None: objects of that kind are not synced."""
        synced = self._needed.get(ref.plural)
        return Work(synced, ref.namespace, ref.name) if synced is not None else None

    # --- watches ---

    def add(self, synced: Synced) -> None:
        if synced in self._reflectors:
            return
        needed = can_be_needed(synced.api.plural, synced.api.group)
        if needed:
            self._needed[synced.api.plural] = synced

        def changed(key: Key, obj: Object | None) -> None:
            self._changed(Work(synced, key[1], key[2]), obj)

        def reflect(labels: str, tell: Callable[[Key, Object | None], None], **more: Any) -> Reflector:
            return Reflector(
                self._client, synced.resource, self._clock, tell, labels=labels, listed=lambda: self.listed(), **more
            )

        if not self._only:
            labels = "" if needed else workload.ASSIGNED
            self._reflectors[synced] = [reflect(labels, changed, keep=_what_matters if needed else unmanaged)]
        else:
            self._reflectors[synced] = [reflect(f"{workload.ASSIGNED}={self._only}", changed, keep=unmanaged)]
            if needed:
                labels = f"{workload.dependency_label(self._only)},{workload.ASSIGNED}!={self._only}"
                self._reflectors[synced].append(reflect(labels, changed, keep=unmanaged))
        self._tasks[synced] = asyncio.create_task(self._watch(synced), name=f"hub {synced.api.group_resource}")

    def remove(self, synced: Synced) -> None:
        self._reflectors.pop(synced, None)
        if self._needed.get(synced.api.plural) == synced:
            del self._needed[synced.api.plural]
        task = self._tasks.pop(synced, None)
        if task is not None:
            task.cancel()
        for work in [work for work in self._targets if work.synced == synced]:
            self._aim(work, frozenset(), leaving=False)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _watch(self, synced: Synced) -> None:
        reflectors = self._reflectors[synced]
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    if not self._only and not can_be_needed(synced.api.plural, synced.api.group):
                        group.create_task(self._find_unlabelled(synced))
                    for reflector in reflectors:
                        group.create_task(reflector.run())
            except* Exception:
                log.exception("the hub's watch of %s failed", synced.api.group_resource)
            await self._clock.sleep(AGAIN_SECONDS)

    async def _find_unlabelled(self, synced: Synced) -> None:
        """Finds objects whose label was removed while no process watched; the labelled watch does not show them."""
        while True:
            try:
                found, _ = await self._client.list_all(synced.resource, labels=f"!{workload.ASSIGNED}")
            except (StatusError, Unreachable) as error:
                log.info("the hub: %s; again in %.0f s", error, AGAIN_SECONDS)
                await self._clock.sleep(AGAIN_SECONDS)
                continue
            for obj in found:
                if workload.syncer_finalizers(obj):
                    self._changed(Work(synced, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj)
            return

    def _changed(self, work: Work, obj: Object | None) -> None:
        now: frozenset[str] = frozenset()
        assigned, going = "", False
        if obj is not None:
            now = frozenset(workload.syncer_finalizers(obj))
            assigned, going = workload.assigned_to(obj), "deletionTimestamp" in obj["metadata"]
            if assigned:
                now |= {workload.finalizer_of(assigned)}
        before = self._aim(work, now, going, workload.finalizer_of(assigned) if assigned else "")
        self._note_references(work, obj, assigned)
        for finalizer in before | now:
            told = self._told.get(finalizer)
            if told is not None:
                told(work)
            elif obj is None or finalizer in (obj["metadata"].get("finalizers") or ()):
                self.unheard(work, finalizer)
        if work.synced.api.plural in self._needed and can_be_needed(work.synced.api.plural, work.synced.api.group):
            self._needed_changed(work, obj)

    def _aim(self, work: Work, targets: frozenset[str], leaving: bool, assigned: str = "") -> frozenset[str]:
        """Returns the previous finalizers."""
        before = self._targets.pop(work, frozenset())
        for finalizer in before - targets:
            del self._works[finalizer][work]
            self._leaving.get(finalizer, set()).discard(work)
            if not self._works[finalizer]:
                del self._works[finalizer]
                self._leaving.pop(finalizer, None)
        for finalizer in targets:
            self._works.setdefault(finalizer, {})[work] = None
            if leaving or finalizer != assigned:
                self._leaving.setdefault(finalizer, set()).add(work)
            else:
                self._leaving.get(finalizer, set()).discard(work)
        if targets:
            self._targets[work] = targets
        return before

    # --- references ---

    def _note_references(self, work: Work, obj: Object | None, assigned: str) -> None:
        api = work.synced.api
        refs = refs_of(obj, api.plural, api.group) if obj is not None and assigned else frozenset()
        for cluster in {assigned, *self.references.named_from(work)} - {""}:
            wanted = refs if cluster == assigned else frozenset()
            for ref in self.references.put(cluster, work, api.group_resource, wanted):
                self._tell_needed(ref, cluster)

    def _needed_changed(self, work: Work, obj: Object | None) -> None:
        """A referenced object has changed. A referenced ServiceAccount references others in turn."""
        ref = Ref(work.synced.api.plural, work.namespace, work.name)
        for cluster in list(self.references.clusters(ref)):
            self._pass_on(ref, work, obj, cluster)
            self._tell_needed(ref, cluster)
        if obj is not None and any(key.startswith(workload.DEPENDENCY) for key in obj["metadata"].get("labels") or ()):
            self.named(ref)

    def _pass_on(self, ref: Ref, work: Work, obj: Object | None, cluster: str) -> None:
        if obj is not None and workload.assigned_to(obj) == cluster:
            return  # it is assigned to the cluster itself
        api = work.synced.api
        needed = obj is not None and self.references.kinds(cluster, ref)
        refs = refs_of(obj, api.plural, api.group) if needed and obj is not None else frozenset()
        for other in self.references.put(cluster, work, api.group_resource, refs):
            self._tell_needed(other, cluster)

    def _tell_needed(self, ref: Ref, cluster: str) -> None:
        work = self.work_of(ref)
        if work is not None:
            if ref.plural == "serviceaccounts":
                self._pass_on(ref, work, self.cached(work), cluster)
            told = self._told.get(workload.finalizer_of(cluster))
            if told is not None:
                told(work)
        self.named(ref)

    def cached(self, work: Work) -> Object | None:
        for reflector in self._reflectors.get(work.synced, ()):
            found = reflector.objects.get(("", work.namespace, work.name))
            if found is not None:
                return found
        return None

    def seen(self, work: Work) -> Object | None:
        """The whole object if it is cached; None means nothing."""
        found = self.cached(work)
        return None if found is None or SLIM in found else found


SLIM = "shoal.dev/slim"


def unmanaged(obj: Object) -> Object:
    """managedFields only matter to the server and make up half of the object."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _what_matters(obj: Object) -> Object:
    """Reduces objects that are watched only because others may reference them."""
    metadata = obj["metadata"]
    if workload.assigned_to(obj) or workload.syncer_finalizers(obj):
        return unmanaged(obj)
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "labels", "resourceVersion") if key in metadata}
    slim: Object = {SLIM: True, "metadata": kept}
    if obj.get("imagePullSecrets"):
        slim["imagePullSecrets"] = obj["imagePullSecrets"]
    return slim
