"""Creates pods from a template, deletes, adopts and releases them for an owner, and tracks expectations about these
writes.

A controller checks `satisfied` before it decides: with a slow watch it waits and never creates too many pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.podcontrol.batches import run_all, slow_start
from shoal.controlplane.podcontrol.template import pod_from_template
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.ownership import (
    OwnershipClaims,
    adoption_patch,
    controller_name,
    controller_reference,
    release_patch,
)
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer

Object = dict[str, Any]

PODS = GroupVersionResource("", "v1", "pods")
NAMESPACE_TERMINATING = "NamespaceTerminating"


class PodEventSink(Protocol):
    """Receives the outcome of an attempt to `create` or `delete` the pod of that name for its owner."""

    def __call__(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None: ...


class PodControl:
    """Serves one kind of owner. Keys are those of owners."""

    def __init__(
        self,
        client: Client,
        pods: Informer,
        owner_gvr: GroupVersionResource,
        api_version: str,
        owner_kind: str,
        event_sink: PodEventSink | None = None,
        *,
        finalizer: str = "",
    ) -> None:
        """`finalizer` is added to adopted pods and removed from released ones."""
        self._client, self._pods, self._owner_gvr = client, pods, owner_gvr
        self._api_version, self._owner_kind, self._finalizer = api_version, owner_kind, finalizer
        self._record_event = event_sink or _discard_event
        self._expectations: WriteExpectations[Key] = WriteExpectations(pods)
        self._deleted_uids: dict[Key, set[str]] = {}
        """Uids of pods whose deletion the server accepted and the informer does not show yet."""

    def owners(self, key: Key, old: Object | None, new: Object | None) -> Iterator[Key]:
        """Yields the current and the previous controller of the pod."""
        group = self._api_version.rpartition("/")[0]
        for name in {controller_name(old, group, self._owner_kind), controller_name(new, group, self._owner_kind)} - {
            ""
        }:
            yield key[0], key[1], name

    def satisfied(self, key: Key) -> bool:
        return self._expectations.satisfied(key)

    def forget(self, key: Key) -> None:
        self._expectations.forget(key)
        self._deleted_uids.pop(key, None)

    def unobserved_deletions(self, key: Key, pods: Iterable[Object]) -> set[str]:
        """Returns the uids of pods that are already deleted although the informer does not show it."""
        uids = self._deleted_uids.get(key)
        if not uids:
            return set()
        uids &= {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        if not uids:
            del self._deleted_uids[key]
        return uids

    def with_pending_deletions(self, key: Key, pods: list[Object], now_rfc3339: str) -> list[Object]:
        """Returns the pods with a deletionTimestamp on those that are already deleted. `now_rfc3339` is the time."""
        deleted_uids = self.unobserved_deletions(key, pods)
        if not deleted_uids:
            return pods
        return [
            {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": now_rfc3339}}
            if pod["metadata"]["uid"] in deleted_uids
            else pod
            for pod in pods
        ]

    async def create(self, key: Key, owner: Object, count: int) -> Exception | None:
        """Creates that many pods from the owner's template."""
        pod = pod_from_template(owner, controller_reference(owner, self._api_version, self._owner_kind))
        return await self.create_pods(key, owner, [pod] * count)

    async def create_pods(self, key: Key, owner: Object, pods: list[Object]) -> Exception | None:
        """Returns the first failure, if any; the remaining pods were not tried. In a terminating namespace a failure is
        ignored.
        """
        client, remaining = self._client.in_cluster(key[0]), iter(pods)

        async def create_next() -> None:
            pod = next(remaining)
            try:
                created = await client.create(PODS, pod, key[1], metadata_only=True)
            except StatusError as error:
                if not _is_namespace_terminating(error):
                    self._record_event(key[0], owner, "create", pod["metadata"].get("name", ""), error)
                raise
            self._expectations.expect(key, created)
            self._record_event(key[0], owner, "create", created["metadata"]["name"], None)

        failure = await slow_start(len(pods), create_next)
        return None if failure is not None and _is_namespace_terminating(failure) else failure

    async def patch(self, key: Key, pod: Object, patch: Object) -> None:
        """Applies a merge patch."""
        self._expectations.expect(
            key, await self._client.in_cluster(key[0]).merge_patch(PODS, pod["metadata"]["name"], patch, key[1])
        )

    async def delete(self, key: Key, owner: Object, pods: Iterable[Object]) -> Exception | None:
        client = self._client.in_cluster(key[0])
        deleted_uids = self._deleted_uids.setdefault(key, set())

        async def delete_pod(pod: Object) -> None:
            metadata = pod["metadata"]
            deleted_uids.add(metadata["uid"])
            try:
                await client.delete(PODS, metadata["name"], key[1], uid=metadata["uid"], metadata_only=True)
            except NotFound:
                return
            except Exception as error:
                deleted_uids.discard(metadata["uid"])
                self._record_event(key[0], owner, "delete", metadata["name"], error)
                raise
            self._record_event(key[0], owner, "delete", metadata["name"], None)

        return await run_all([partial(delete_pod, pod) for pod in pods])

    async def adopt_and_release(self, key: Key, owner: Object, claims: OwnershipClaims) -> bool:
        """Adopts orphans and releases pods that are no longer selected. Returns whether there was anything to do."""
        if not claims.adopt and not claims.release:
            return False
        client = self._client.in_cluster(key[0])
        patches = [(pod, self._with_finalizer(pod, release_patch(pod, owner), False)) for pod in claims.release]
        if claims.adopt and await can_adopt(client, self._owner_gvr, owner):
            reference = controller_reference(owner, self._api_version, self._owner_kind)
            patches += [(pod, self._with_finalizer(pod, adoption_patch(pod, reference), True)) for pod in claims.adopt]

        async def patch_pod(pod: Object, patch: Object) -> None:
            try:
                self._expectations.expect(key, await client.merge_patch(PODS, pod["metadata"]["name"], patch, key[1]))
            except NotFound:
                return

        failure = await run_all([partial(patch_pod, pod, patch) for pod, patch in patches])
        if failure is not None:
            raise failure
        return True

    def _with_finalizer(self, pod: Object, patch: Object, add: bool) -> Object:
        if self._finalizer:
            others = [one for one in pod["metadata"].get("finalizers") or () if one != self._finalizer]
            patch["metadata"]["finalizers"] = [*others, self._finalizer] if add else others or None
        return patch


async def can_adopt(client: Client, gvr: GroupVersionResource, owner: Object) -> bool:
    """Reads the owner from the server, not from the informer: an owner that is being deleted must not adopt."""
    metadata = owner["metadata"]
    try:
        live = (await client.get(gvr, metadata["name"], metadata["namespace"]))["metadata"]
    except NotFound:
        return False
    return live["uid"] == metadata["uid"] and "deletionTimestamp" not in live


def _discard_event(cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
    return


def _is_namespace_terminating(error: Exception) -> bool:
    return isinstance(error, StatusError) and any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes)
