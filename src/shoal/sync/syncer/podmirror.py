"""Mirrors pods of synced workloads from a cluster to the hub: on request, read-only.

Both sides are watched and compared at most once a second. A mirrored pod is deleted from the hub when a complete list
or the watch of the cluster shows that its pod is gone; the garbage collector deletes it with its owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, BadRequest, NotFound, StatusError
from shoal.objects.selectors import from_label_selector
from shoal.sync.discovery import shows_pods
from shoal.sync.resources import PODS
from shoal.sync.syncer.decide import is_ours
from shoal.sync.syncer.hub import Hub, Synced, Work, unmanaged
from shoal.sync.syncer.namespaces import Namespaces
from shoal.sync.syncer.travelling import object_named

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

PACE_SECONDS = 1.0
AGAIN_SECONDS = 5.0
"""After a failed write."""
UNSERVED_SECONDS = 60.0
NOT_SHOWN = "pods, for this hub has Pods of its own"
MAKERS = {"ReplicaSet": "Deployment", "Job": "CronJob"}
"""Kinds of intermediate owners and of their owners, whose names are a prefix."""
STAYING = ("kubectl.kubernetes.io/last-applied-configuration",)


class PodMirror:
    """`hub_client` writes to the hub, `client` watches the cluster. `report` is called with the reason why pods are not
    mirrored, or "".
    """

    def __init__(
        self,
        cluster: str,
        client: Client,
        hub_client: Client,
        clock: Clock,
        hub_id: str,
        hub: Hub,
        namespaces: Namespaces,
        copies: Mapping[Synced, Reflector],
        tell: Callable[[str], None],
    ) -> None:
        self._cluster, self._hub_client, self._clock, self._hub_id = cluster, hub_client, clock, hub_id
        self._hub, self._namespaces, self._copies, self._tell = hub, namespaces, copies, tell
        self._pods = Reflector(
            client, PODS, clock, self._changed, unserved=UNSERVED_SECONDS, listed=self.look, keep=unmanaged
        )
        self._shown = Reflector(
            *(hub_client, PODS, clock, self._changed),
            labels=f"{workload.MIRRORED}={cluster}",
            unserved=PACE_SECONDS,
            listed=self.look,
            keep=_what_matters,
        )
        self._news = asyncio.Event()

    async def run(self) -> None:
        await self._namespaces.listed.wait()
        while not await self._is_asked_of_a_hub():
            await self._clock.sleep(AGAIN_SECONDS)
        async with asyncio.TaskGroup() as group:
            for reflector in (self._pods, self._shown):
                group.create_task(reflector.run())
            group.create_task(self._show())

    async def _is_asked_of_a_hub(self) -> bool:
        """On a hub that schedules and runs pods, a mirrored pod would be run too."""
        try:
            shown = await shows_pods(self._hub_client)
        except (StatusError, Unreachable) as error:
            log.info("the pods of %s are not shown yet: %s", self._cluster, error)
            return False
        self._tell("" if shown is not False else NOT_SHOWN)
        return bool(shown)

    def _changed(self, key: Key, obj: Object | None) -> None:
        self._news.set()

    def look(self) -> None:
        """Owners of pods may have changed."""
        self._news.set()

    async def _show(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._pods.synced and self._shown.synced and not await self._compare():
                await self._clock.sleep(AGAIN_SECONDS)
                self._news.set()
            await self._clock.sleep(PACE_SECONDS)

    async def _compare(self) -> bool:
        """False: some write failed."""
        done = True
        there = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        for key, shown in list(self._shown.objects.items()):
            if shown["version"].partition("/")[0] not in there:
                done &= await self._remove(key, shown)
        for wanted in list(self._wanted()):
            metadata = wanted["metadata"]
            shown_now = self._shown.objects.get(("", metadata["namespace"], metadata["name"]))
            if shown_now is None or _essence(wanted).items() - shown_now.items():
                done &= await self._write(wanted, is_new=shown_now is None)
        return done

    def _wanted(self) -> Iterator[Object]:
        for pod in self._pods.objects.values():
            found = self._subject(pod)
            if found is not None:
                yield self._made(pod, *found)

    def _subject(self, pod: Object) -> tuple[Work, Object] | None:
        """The hub object a pod belongs to. None: it does not belong to a synced object, or that is not known yet."""
        metadata = pod["metadata"]
        namespace, owners = metadata["namespace"], metadata.get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        if owner is None:
            return None
        maker = MAKERS.get(owner["kind"])
        for synced, reflector in self._copies.items():
            if synced.kind not in (owner["kind"], maker):
                continue
            direct = synced.kind == owner["kind"]
            name = owner["name"] if direct else owner["name"].rpartition("-")[0]
            copy = reflector.objects.get(("", namespace, name))
            if copy is None or not is_ours(copy, self._hub_id):
                continue
            if copy["metadata"]["uid"] != owner["uid"] if direct else not _selects(copy, metadata.get("labels") or {}):
                continue
            work = Work(synced, self._namespaces.hub_name(namespace), object_named(copy))
            obj = self._hub.seen(work)
            if obj is not None and workload.assigned_to(obj) == self._cluster:
                return work, obj
        return None

    def _made(self, pod: Object, work: Work, obj: Object) -> Object:
        metadata = pod["metadata"]
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != workload.ASSIGNED}
        said = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in STAYING}
        owner = {"apiVersion": work.synced.api.group_version, "kind": work.synced.kind, "name": work.name}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": workload.mirror_name(metadata["name"], self._cluster),
                "namespace": work.namespace,
                "labels": labels | {workload.MIRRORED: self._cluster},
                "annotations": said
                | {
                    workload.MIRRORED_POD: f"{metadata['namespace']}/{metadata['name']}",
                    workload.MIRRORED_VERSION: f"{metadata['uid']}/{metadata['resourceVersion']}",
                },
                "ownerReferences": [owner | {"uid": obj["metadata"]["uid"], "controller": True}],
            },
            **{part: pod[part] for part in ("spec", "status") if part in pod},
        }

    async def _write(self, wanted: Object, is_new: bool) -> bool:
        metadata = wanted["metadata"]
        try:
            if is_new:
                with suppress(AlreadyExists):  # the watch reports it
                    await self._hub_client.create(PODS, wanted, metadata["namespace"], brief=True)
            else:
                with suppress(NotFound):
                    await self._hub_client.update(PODS, wanted, brief=True)
        except (StatusError, Unreachable) as error:
            log.info("a pod of %s is not shown: %s", self._cluster, error)
            return False
        return True

    async def _remove(self, key: Key, shown: Object) -> bool:
        try:
            with suppress(NotFound):
                await self._hub_client.delete(PODS, key[2], key[1], uid=shown["uid"], brief=True)
        except (StatusError, Unreachable) as error:
            log.info("a pod of %s is still shown: %s", self._cluster, error)
            return False
        return True


def _selects(copy: Object, labels: dict[str, str]) -> bool:
    """For a kind without a selector the name is enough."""
    selector = (copy.get("spec") or {}).get("selector")
    try:
        return selector is None or from_label_selector(selector).matches(labels)
    except BadRequest:
        return False


def _essence(pod: Object) -> Object:
    """Identifies the version of the pod that is mirrored."""
    metadata = pod["metadata"]
    return {
        "version": (metadata.get("annotations") or {}).get(workload.MIRRORED_VERSION, ""),
        "owners": tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
    }


def _what_matters(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {**_essence(pod), "uid": metadata["uid"]}
