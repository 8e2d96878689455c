"""Deletes the logs of ManagedClusters that no longer exist: their Secrets are in another namespace, so no owner can.

All logs are looked through when it starts, so a hub that was stopped after the deletion of a ManagedCluster leaves
nothing. A Secret is deleted only when a read of the ManagedCluster shows that it, or the one of that uid, is gone.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.kinds.fleet import cluster_log
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

SECOND_LOOK_SECONDS = 10.0
"""A write of the worker that was admitted just before the ManagedCluster was deleted is stored by then."""


class LogOwner(NamedTuple):
    """The ManagedCluster of a log."""

    namespace: str
    name: str
    uid: str


EVERY_LOG = LogOwner("", "", "")
"""The key for which all logs are looked through."""


def owner_of(secret: Object) -> LogOwner | None:
    """Returns the ManagedCluster that the Secret, of which only the metadata is known, is a log of."""
    metadata = secret["metadata"]
    segment = cluster_log.parse_segment(metadata["namespace"], metadata["name"])
    if segment is None or not segment.log.uid:
        return None
    owner = LogOwner(segment.log.namespace, segment.log.cluster, segment.log.uid)
    return owner if (metadata.get("labels") or {}).get(cluster_log.SECRET_TYPE) == owner.uid else None


class LogGarbageCollector:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._metadata = client, client.for_metadata()
        self.controller: Controller[LogOwner] = Controller("fleet-log-gc", clock, self.reconcile, workers=1)
        self._managed = Informer(client, MANAGED_CLUSTERS, clock)
        self._managed.on_sync(lambda: self.controller.queue.add(EVERY_LOG))
        self.controller.watch(self._managed, self._on_managed_cluster)

    def _on_managed_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or (new is not None and new["metadata"]["uid"] == old["metadata"]["uid"]):
            return
        owner = LogOwner(key[1], key[2], old["metadata"]["uid"])
        self.controller.queue.add(owner)
        self.controller.queue.add_after(owner, SECOND_LOOK_SECONDS)

    async def reconcile(self, owner: LogOwner) -> None:
        if owner == EVERY_LOG:
            for each in {found for secret in await self._secrets() if (found := owner_of(secret)) is not None}:
                self.controller.queue.add(each)
        elif await self._is_gone(owner):
            await self._delete(owner)

    async def _is_gone(self, owner: LogOwner) -> bool:
        try:
            managed = await self._client.get(MANAGED_CLUSTERS, owner.name, owner.namespace)
        except NotFound:
            return True
        return bool(managed["metadata"]["uid"] != owner.uid)

    async def _delete(self, owner: LogOwner) -> None:
        secrets = [each for each in await self._secrets(owner.uid) if owner_of(each) == owner]
        for secret in secrets:
            metadata = secret["metadata"]
            with suppress(NotFound):
                await self._client.delete(
                    SECRETS, metadata["name"], cluster_log.NAMESPACE, uid=metadata["uid"], metadata_only=True
                )
        if secrets:
            log.info("%s/%s: deleted the %d Secrets of its log", owner.namespace, owner.name, len(secrets))

    async def _secrets(self, uid: str = "") -> list[Object]:
        labels = f"{cluster_log.SECRET_TYPE}={uid}" if uid else cluster_log.SECRET_TYPE
        return (await self._metadata.list_all(SECRETS, cluster_log.NAMESPACE, labels=labels))[0]
