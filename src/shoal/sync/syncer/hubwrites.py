"""Reads and writes single hub objects for syncers: finalizers, status, and why an object is not synced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.kinds import workload
from shoal.objects.errors import Conflict, NotFound, StatusError
from shoal.runtime.recorder import WARNING, Recorder, Source
from shoal.sync.resources import DEFINITIONS, NAMESPACES
from shoal.sync.syncer.hub import Work

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

TRIES = 3
COMPONENT = "shoal-syncer"


class HubWrites:
    def __init__(self, client: Client, recorder: Recorder, instance: str = "") -> None:
        """`instance` names, in events, a syncer that does not run in the hub's process."""
        self.client, self._recorder, self._instance = client, recorder, instance

    async def identity(self) -> str:
        """Uid of the hub's current store: another store is another hub."""
        return str((await self.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])

    async def is_withdrawn(self, work: Work) -> bool:
        """Whether the CRD of the kind is being deleted: its objects are then deleted with it, not by request of a
        user.
        """
        api = work.synced.api
        if not api.group:
            return False
        try:
            definition = await self.client.get(DEFINITIONS, api.group_resource)
        except NotFound:
            return False  # a kind without a CRD, or the CRD is gone with all its objects
        return "deletionTimestamp" in definition["metadata"]

    async def fresh(self, work: Work) -> Object | None:
        """None only if the hub returned NotFound for this very object."""
        try:
            return await self.client.get(work.synced.resource, work.name, work.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (work.synced.api.plural, work.name):
                return None
            raise

    async def hold(self, work: Work, obj: Object, cluster: str) -> Object | None:
        """The object with the finalizer; None if it was deleted, or is being deleted."""
        finalizer = workload.finalizer_of(cluster)

        def changed(found: list[str]) -> list[str]:
            return [*found, finalizer]

        return await self._refinalize(work, obj, changed)

    async def release(self, work: Work, obj: Object, finalizer: str) -> None:
        def changed(found: list[str]) -> list[str]:
            return [name for name in found if name != finalizer]

        await self._refinalize(work, obj, changed, going=True)

    async def _refinalize(
        self, work: Work, obj: Object, changed: Callable[[list[str]], list[str]], going: bool = False
    ) -> Object | None:
        current: Object | None = obj
        for attempt in range(TRIES):
            if current is None or ("deletionTimestamp" in current["metadata"] and not going):
                return None
            metadata = current["metadata"]
            finalizers = list(metadata.get("finalizers") or ())
            wanted = list(dict.fromkeys(changed(finalizers)))
            if wanted == finalizers:
                return current
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted or None}}
            try:
                return await self.client.merge(work.synced.resource, work.name, patch, work.namespace)
            except NotFound:
                return None
            except Conflict:
                if attempt == TRIES - 1:
                    raise
                current = await self.fresh(work)
        return None

    async def tell(self, work: Work, obj: Object, problem: str) -> None:
        """Writes why the object is not in its cluster; empty: it is."""
        if (obj["metadata"].get("annotations") or {}).get(workload.PROBLEM, "") != problem:
            patch = {"metadata": {"annotations": {workload.PROBLEM: problem or None}}}
            await self.client.merge(work.synced.resource, work.name, patch, work.namespace)
            if problem:
                source = Source(COMPONENT, work.synced.api.group_version, work.synced.kind, self._instance)
                self._recorder.record(source, "", obj, WARNING, "NotSynced", problem)

    async def count(self, work: Work, seen: Object | None, pods: int) -> None:
        """Writes how many of its pods are unschedulable."""
        said = str(pods) if pods else None
        if seen is None or (seen["metadata"].get("annotations") or {}).get(workload.UNSCHEDULABLE) == said:
            return
        patch = {"metadata": {"annotations": {workload.UNSCHEDULABLE: said}}}
        try:
            await self.client.merge(work.synced.resource, work.name, patch, work.namespace)
        except (StatusError, Unreachable) as error:
            log.info("%s: its pods are not counted: %s", work.title, error)

    async def put_status(self, work: Work, status: Object) -> None:
        """Replaces the whole status without a precondition: it has one writer."""
        path = self.client.path(work.synced.resource, work.name, work.namespace, "status")
        patch = cast(Object, [{"op": "add", "path": "/status", "value": status}])
        await self.client.call("PATCH", path, body=patch, content="application/json-patch+json", brief=True)
