"""Reads and writes single hub objects for syncers: finalizers, status, and why an object is not synced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import orjson

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import Conflict, NotFound, StatusError
from shoal.runtime.event_recorder import WARNING, EventRecorder, EventSource
from shoal.sync.resources import CRDS, NAMESPACES
from shoal.sync.syncer.hub_informers import SyncKey

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

MAX_ATTEMPTS = 3
COMPONENT = "shoal-syncer"


class HubWriter:
    def __init__(self, client: Client, recorder: EventRecorder, instance: str = "") -> None:
        """`instance` names, in events, a syncer that does not run in the hub's process."""
        self.client, self._recorder, self._instance = client, recorder, instance

    async def hub_uid(self) -> str:
        """Uid of the hub's current store: another store is another hub."""
        return str((await self.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])

    async def is_crd_deleting(self, sync_key: SyncKey) -> bool:
        """Whether the CRD of the kind is being deleted: its objects are then deleted with it, not by request of a
        user.
        """
        api = sync_key.resource.api
        if not api.group:
            return False
        try:
            crd = await self.client.get(CRDS, api.group_resource)
        except NotFound:
            return False  # a kind without a CRD, or the CRD is gone with all its objects
        return "deletionTimestamp" in crd["metadata"]

    async def get_live(self, sync_key: SyncKey) -> Object | None:
        """None only if the hub returned NotFound for this very object."""
        try:
            return await self.client.get(sync_key.resource.gvr, sync_key.name, sync_key.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (sync_key.resource.api.plural, sync_key.name):
                return None
            raise

    async def add_finalizer(self, sync_key: SyncKey, obj: Object, cluster: str) -> Object | None:
        """The object with the finalizer; None if it was deleted, or is being deleted."""
        finalizer = workloadcluster.syncer_finalizer(cluster)

        def mutate(finalizers: list[str]) -> list[str]:
            return [*finalizers, finalizer]

        return await self._update_finalizers(sync_key, obj, mutate)

    async def remove_finalizer(self, sync_key: SyncKey, obj: Object, finalizer: str) -> None:
        def mutate(finalizers: list[str]) -> list[str]:
            return [name for name in finalizers if name != finalizer]

        await self._update_finalizers(sync_key, obj, mutate, allow_deleting=True)

    async def _update_finalizers(
        self, sync_key: SyncKey, obj: Object, mutate: Callable[[list[str]], list[str]], allow_deleting: bool = False
    ) -> Object | None:
        current: Object | None = obj
        for attempt in range(MAX_ATTEMPTS):
            if current is None or ("deletionTimestamp" in current["metadata"] and not allow_deleting):
                return None
            metadata = current["metadata"]
            finalizers = list(metadata.get("finalizers") or ())
            desired = list(dict.fromkeys(mutate(finalizers)))
            if desired == finalizers:
                return current
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": desired or None}}
            try:
                return await self.client.merge_patch(sync_key.resource.gvr, sync_key.name, patch, sync_key.namespace)
            except NotFound:
                return None
            except Conflict:
                if attempt == MAX_ATTEMPTS - 1:
                    raise
                current = await self.get_live(sync_key)
        return None

    async def write_problem(self, sync_key: SyncKey, obj: Object, problem: str) -> None:
        """Writes why the object is not in its cluster; empty: it is."""
        if (obj["metadata"].get("annotations") or {}).get(workloadcluster.PROBLEM_ANNOTATION, "") != problem:
            patch = {"metadata": {"annotations": {workloadcluster.PROBLEM_ANNOTATION: problem or None}}}
            await self.client.merge_patch(sync_key.resource.gvr, sync_key.name, patch, sync_key.namespace)
            if problem:
                source = EventSource(
                    COMPONENT, sync_key.resource.api.group_version, sync_key.resource.kind, self._instance
                )
                self._recorder.record(source, "", obj, WARNING, "NotSynced", problem)

    async def write_unschedulable_count(self, sync_key: SyncKey, cached: Object | None, pods: int) -> bool:
        """Writes how many of its pods are unschedulable. False: the write failed."""
        count_text = str(pods) if pods else None
        if (
            cached is None
            or (cached["metadata"].get("annotations") or {}).get(workloadcluster.UNSCHEDULABLE_ANNOTATION) == count_text
        ):
            return True
        patch = {"metadata": {"annotations": {workloadcluster.UNSCHEDULABLE_ANNOTATION: count_text}}}
        try:
            with suppress(NotFound):
                await self.client.merge_patch(sync_key.resource.gvr, sync_key.name, patch, sync_key.namespace)
        except (StatusError, Unreachable) as error:
            log.info("cannot write the number of unschedulable pods of %s: %s", sync_key.title, error)
            return False
        return True

    async def write_dependency_status(self, sync_key: SyncKey, cluster: str, status: Object) -> None:
        """Writes the status that an object has in one of the clusters where others refer to it."""
        annotations = {workloadcluster.dependency_status_annotation(cluster): orjson.dumps(status).decode()}
        await self.client.merge_patch(
            sync_key.resource.gvr, sync_key.name, {"metadata": {"annotations": annotations}}, sync_key.namespace
        )

    async def put_status(self, sync_key: SyncKey, status: Object) -> None:
        """Replaces the whole status without a precondition: it has one writer."""
        path = self.client.resource_path(sync_key.resource.gvr, sync_key.name, sync_key.namespace, "status")
        patch = cast(Object, [{"op": "add", "path": "/status", "value": status}])
        await self.client.request(
            "PATCH", path, body=patch, content_type="application/json-patch+json", metadata_only=True
        )
