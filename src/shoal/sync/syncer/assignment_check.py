"""Reports objects that users assigned to a cluster that does not exist, or that does not take their kind.

No syncer handles such an object, so its annotation and Event are written here. Leaves are left out: placement assigns
them. The syncer of the cluster clears the annotation once it handles the object; this module clears it on objects that
are not assigned any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.leaf import OWNER_LABEL
from shoal.kinds.workload.served_apis import NEGOTIATING, served_apis
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.resources import CLUSTERS, IMPORTS
from shoal.sync.syncer.hub_informers import HubInformers, SyncKey
from shoal.sync.syncer.hub_writer import HubWriter

Object = dict[str, Any]

PROBLEM_PREFIX = "workload Cluster "
"""How the problems begin that are reported here. Those of syncers begin with the name of the cluster."""


def by_location(key: Key, import_: Object) -> tuple[str]:
    """Index by workload Cluster."""
    return (str((import_.get("spec") or {}).get("location", "")),)


class AssignmentCheck:
    def __init__(self, client: Client, clock: Clock, hub: HubInformers, hub_writer: HubWriter) -> None:
        self._client, self._hub, self._hub_writer = client, hub, hub_writer
        self._clusters = Informer(client, CLUSTERS, clock)
        self._imports = Informer(client, IMPORTS, clock, indexers=(by_location,))
        self._reported: set[SyncKey] = set()
        """Objects with a problem that was reported here. One that is not assigned any more is not
        watched, or without its annotations."""
        self.controller: Controller[SyncKey] = Controller("syncer-assignments", clock, self._reconcile)
        self.controller.watch(self._clusters, self._on_cluster)
        self.controller.watch(self._imports, self._on_import)
        for informer in (self._clusters, self._imports):
            informer.on_sync(self._check_all)
        hub.on_assigned = self._on_assigned

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _synced_resources(old) != _synced_resources(new):
            self._check(self._hub.all_keys_for(key[2]))

    def _on_import(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._check(self._hub.all_keys_for(by_location(key, new or old or {})[0]))

    def _check_all(self) -> None:
        self._check(self._hub.known_keys())

    def _check(self, sync_keys: Iterable[SyncKey]) -> None:
        for sync_key in sync_keys:
            self._on_assigned(sync_key, self._hub.get_cached(sync_key))

    def _on_assigned(self, sync_key: SyncKey, obj: Object | None) -> None:
        reported = _reported_problem(obj) if obj is not None else ""
        if reported:
            self._reported.add(sync_key)
        problem = self._problem(sync_key.resource.api, obj) if obj is not None else ""
        if problem != reported or (sync_key in self._reported and not problem):
            self.controller.queue.add(sync_key)

    def _problem(self, api: GVR, obj: Object) -> str:
        """Empty: there is none, or it is not known yet."""
        cluster = workloadcluster.assigned_cluster(obj)
        if not cluster or OWNER_LABEL in obj["metadata"]["labels"] or not self._has_synced():
            return ""
        workload_cluster = self._clusters.get(("", "", cluster))
        if workload_cluster is None:
            return f"{PROBLEM_PREFIX}{cluster} does not exist"
        refusal = served_apis(workload_cluster, self._imports.by_index(by_location, cluster)).refusal_of(api)
        return f"{PROBLEM_PREFIX}{cluster} {refusal.message}" if refusal and refusal.reason != NEGOTIATING else ""

    def _has_synced(self) -> bool:
        return self._clusters.has_synced and self._imports.has_synced

    async def _reconcile(self, sync_key: SyncKey) -> None:
        if not self._has_synced():
            return  # all are checked after the sync
        obj = await self._hub_writer.get_live(sync_key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            self._reported.discard(sync_key)
            return
        problem, cluster = self._problem(sync_key.resource.api, obj), workloadcluster.assigned_cluster(obj)
        if problem == _reported_problem(obj):
            if not problem:
                self._reported.discard(sync_key)
            return
        if problem and self._clusters.get(("", "", cluster)) is None and await self._exists(cluster):
            raise RequeueError("informer of workload Clusters has not caught up yet")
        await self._hub_writer.write_problem(sync_key, obj, problem)
        (self._reported.add if problem else self._reported.discard)(sync_key)

    async def _exists(self, cluster: str) -> bool:
        try:
            await self._client.get(CLUSTERS, cluster)
        except NotFound as error:
            return error.name != cluster
        return True


def _reported_problem(obj: Object) -> str:
    """Returns the problem that was reported here."""
    problem = str((obj["metadata"].get("annotations") or {}).get(workloadcluster.PROBLEM_ANNOTATION, ""))
    return problem if problem.startswith(PROBLEM_PREFIX) else ""


def _synced_resources(cluster: Object) -> object:
    return (cluster.get("status") or {}).get("syncedResources")
