"""Mirrors pods of synced workloads from a cluster to the hub: on request, read-only.

Both sides are watched and compared at most once a second. A mirrored pod is deleted from the hub when a complete list
or the watch of the cluster shows that its pod is gone; the garbage collector deletes it with its owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.transport import Unreachable
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, BadRequest, NotFound, StatusError
from shoal.objects.selectors import from_label_selector
from shoal.runtime.informer import Informer
from shoal.sync.discovery import serves_mirrored_pods_only
from shoal.sync.resources import PODS
from shoal.sync.syncer.decide import is_from_hub
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.hub_informers import SyncKey
from shoal.sync.syncer.transform import hub_name

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

MIN_INTERVAL = 1.0
RETRY_SECONDS = 5.0
"""After a failed write."""
POLL_UNTIL_SERVED_SECONDS = 60.0
NOT_MIRRORED_MESSAGE = "pods, because this hub has Pods of its own"
PARENT_KINDS = {"ReplicaSet": "Deployment", "Job": "CronJob"}
"""Kinds of intermediate owners and of their owners, whose names are a prefix."""
SKIPPED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)


class PodMirror:
    def __init__(self, deps: SyncerDeps) -> None:
        self._cluster, self._hub_client, self._clock = deps.cluster, deps.hub_writer.client, deps.clock
        self._hub_id, self._hub, self._namespaces = deps.hub_id, deps.hub, deps.namespaces
        self._downstream, self._status = deps.downstream, deps.status
        self._wakeup = asyncio.Event()
        self._pods = Informer(
            deps.client, PODS, deps.clock, poll_until_served=POLL_UNTIL_SERVED_SECONDS, resumable=True
        )
        self._mirrored_pods = Informer(
            self._hub_client,
            PODS,
            deps.clock,
            labels=f"{workloadcluster.MIRRORED_FROM_LABEL}={deps.cluster}",
            poll_until_served=MIN_INTERVAL,
            transform=_strip_pod,
        )
        for informer in (self._pods, self._mirrored_pods):
            informer.add_event_handler(self._handle_pod)
            informer.on_sync(self.request_compare)

    async def run(self) -> None:
        await self._namespaces.informer.wait_for_sync()
        while not await self._can_mirror():
            await self._clock.sleep(RETRY_SECONDS)
        async with asyncio.TaskGroup() as group:
            for informer in (self._pods, self._mirrored_pods):
                group.create_task(informer.run())
            group.create_task(self._run_mirror())

    async def _can_mirror(self) -> bool:
        """On a hub that schedules and runs pods, a mirrored pod would be run too."""
        try:
            mirrored_only = await serves_mirrored_pods_only(self._hub_client)
        except (StatusError, Unreachable) as error:
            log.info("cannot mirror pods of workload Cluster %s: %s", self._cluster, error)
            return False
        self._status.not_mirrored.update("pods", "" if mirrored_only is not False else NOT_MIRRORED_MESSAGE)
        return bool(mirrored_only)

    def _handle_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._wakeup.set()

    def request_compare(self) -> None:
        """Owners of pods may have changed."""
        self._wakeup.set()

    async def _run_mirror(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self._pods.has_synced and self._mirrored_pods.has_synced and not await self._compare():
                await self._clock.sleep(RETRY_SECONDS)
                self._wakeup.set()
            await self._clock.sleep(MIN_INTERVAL)

    async def _compare(self) -> bool:
        """False: some write failed."""
        is_done = True
        pod_uids = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        for key, mirrored in list(self._mirrored_pods.objects.items()):
            if mirrored["version"].partition("/")[0] not in pod_uids:
                is_done &= await self._remove(key, mirrored)
        for desired in list(self._desired_pods()):
            metadata = desired["metadata"]
            current = self._mirrored_pods.get(("", metadata["namespace"], metadata["name"]))
            if current is None or _version_key(desired).items() - current.items():
                is_done &= await self._write(desired, is_new=current is None)
        return is_done

    def _desired_pods(self) -> Iterator[Object]:
        for pod in self._pods.objects.values():
            subject = self._hub_object_for(pod)
            if subject is not None:
                yield self._mirror_of(pod, *subject)

    def _hub_object_for(self, pod: Object) -> tuple[SyncKey, Object] | None:
        """The hub object a pod belongs to. None: it does not belong to a synced object, or that is not known yet."""
        metadata = pod["metadata"]
        namespace, owners = metadata["namespace"], metadata.get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        if owner is None:
            return None
        parent_kind = PARENT_KINDS.get(owner["kind"])
        for resource, informer in self._downstream.items():
            if resource.kind not in (owner["kind"], parent_kind):
                continue
            is_direct = resource.kind == owner["kind"]
            name = owner["name"] if is_direct else owner["name"].rpartition("-")[0]
            copy = informer.get(("", namespace, name))
            if copy is None or not is_from_hub(copy, self._hub_id):
                continue
            if (
                copy["metadata"]["uid"] != owner["uid"]
                if is_direct
                else not _selects(copy, metadata.get("labels") or {})
            ):
                continue
            sync_key = SyncKey(resource, self._namespaces.hub_name(namespace), hub_name(copy))
            obj = self._hub.get_full(sync_key)
            if obj is not None and workloadcluster.assigned_cluster(obj) == self._cluster:
                return sync_key, obj
        return None

    def _mirror_of(self, pod: Object, sync_key: SyncKey, obj: Object) -> Object:
        metadata = pod["metadata"]
        labels = {
            key: value for key, value in (metadata.get("labels") or {}).items() if key != workloadcluster.CLUSTER_LABEL
        }
        annotations = {
            key: value for key, value in (metadata.get("annotations") or {}).items() if key not in SKIPPED_ANNOTATIONS
        }
        owner = {
            "apiVersion": sync_key.resource.api.group_version,
            "kind": sync_key.resource.kind,
            "name": sync_key.name,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": workloadcluster.mirrored_pod_name(metadata["name"], self._cluster),
                "namespace": sync_key.namespace,
                "labels": labels | {workloadcluster.MIRRORED_FROM_LABEL: self._cluster},
                "annotations": annotations
                | {
                    workloadcluster.MIRRORED_POD_ANNOTATION: f"{metadata['namespace']}/{metadata['name']}",
                    workloadcluster.MIRRORED_VERSION_ANNOTATION: f"{metadata['uid']}/{metadata['resourceVersion']}",
                },
                "ownerReferences": [owner | {"uid": obj["metadata"]["uid"], "controller": True}],
            },
            **{part: pod[part] for part in ("spec", "status") if part in pod},
        }

    async def _write(self, desired: Object, is_new: bool) -> bool:
        metadata = desired["metadata"]
        try:
            if is_new:
                with suppress(AlreadyExists):  # the watch reports it
                    await self._hub_client.create(PODS, desired, metadata["namespace"], metadata_only=True)
            else:
                with suppress(NotFound):
                    await self._hub_client.update(PODS, desired, metadata_only=True)
        except (StatusError, Unreachable) as error:
            log.info("cannot mirror a pod of workload Cluster %s: %s", self._cluster, error)
            return False
        return True

    async def _remove(self, key: Key, mirrored: Object) -> bool:
        try:
            with suppress(NotFound):
                await self._hub_client.delete(PODS, key[2], key[1], uid=mirrored["uid"], metadata_only=True)
        except (StatusError, Unreachable) as error:
            log.info("cannot delete a mirrored pod of workload Cluster %s: %s", self._cluster, error)
            return False
        return True


def _selects(copy: Object, labels: dict[str, str]) -> bool:
    """For a kind without a selector the name is enough."""
    selector = (copy.get("spec") or {}).get("selector")
    try:
        return selector is None or from_label_selector(selector).matches(labels)
    except BadRequest:
        return False


def _version_key(pod: Object) -> Object:
    """Identifies the version of the pod that is mirrored."""
    metadata = pod["metadata"]
    return {
        "version": (metadata.get("annotations") or {}).get(workloadcluster.MIRRORED_VERSION_ANNOTATION, ""),
        "owners": tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
    }


def _strip_pod(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {**_version_key(pod), "uid": metadata["uid"]}
