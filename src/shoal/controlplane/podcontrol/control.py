"""Creates pods from a template, deletes, adopts and releases them for an owner, and tracks expectations about these
writes.

A controller checks `satisfied` before it decides: with a slow watch it waits and never creates too many pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.controlplane.podcontrol.batches import each, slow_start
from shoal.controlplane.podcontrol.template import from_template
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.ownership import Claims, adoption, controller_named, controller_reference, release
from shoal.runtime.dependents import Dependents
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")
NAMESPACE_ENDS = "NamespaceTerminating"


class Teller(Protocol):
    """Receives the outcome of an attempt to `create` or `delete` the pod of that name for its owner."""

    def __call__(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None: ...


class PodControl:
    """Serves one kind of owner. Keys are those of owners."""

    def __init__(
        self,
        client: Client,
        pods: Dependents,
        kind: Kind,
        api_version: str,
        named: str,
        tell: Teller | None = None,
        *,
        finalizer: str = "",
    ) -> None:
        """`finalizer` is added to adopted pods and removed from released ones."""
        self._client, self._pods, self._kind = client, pods, kind
        self._api_version, self._named, self._finalizer = api_version, named, finalizer
        self._tell = tell or _untold
        self._writes: OwnWrites[Key] = OwnWrites(pods)
        self._deleted: dict[Key, set[str]] = {}
        """Uids of pods whose deletion the server accepted and the informer does not show yet."""

    def owners(self, key: Key, before: Object | None, now: Object | None) -> Iterator[Key]:
        """Yields the current and the previous controller of the pod."""
        group = self._api_version.rpartition("/")[0]
        for name in {controller_named(before, group, self._named), controller_named(now, group, self._named)} - {""}:
            yield key[0], key[1], name

    def in_sight(self, key: Key) -> bool:
        return self._writes.in_sight(key)

    def forget(self, key: Key) -> None:
        self._writes.forget(key)
        self._deleted.pop(key, None)

    def deleted(self, key: Key, pods: Iterable[Object]) -> set[str]:
        """Returns the uids of pods that are already deleted although the informer does not show it."""
        found = self._deleted.get(key)
        if not found:
            return set()
        found &= {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        if not found:
            del self._deleted[key]
        return found

    def as_deleted(self, key: Key, pods: list[Object], stamp: str) -> list[Object]:
        """Returns the pods with a deletionTimestamp on those that are already deleted. `now_rfc3339` is the time."""
        deleted = self.deleted(key, pods)
        if not deleted:
            return pods
        return [
            {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": stamp}}
            if pod["metadata"]["uid"] in deleted
            else pod
            for pod in pods
        ]

    async def create(self, key: Key, owner: Object, count: int) -> Exception | None:
        """Creates that many pods from the owner's template."""
        pod = from_template(owner, controller_reference(owner, self._api_version, self._named))
        return await self.create_pods(key, owner, [pod] * count)

    async def create_pods(self, key: Key, owner: Object, pods: list[Object]) -> Exception | None:
        """Returns the first failure, if any; the remaining pods were not tried. In a terminating namespace a failure is
        ignored.
        """
        client, left = self._client.at(key[0]), iter(pods)

        async def one() -> None:
            pod = next(left)
            try:
                made = await client.create(PODS, pod, key[1], brief=True)
            except StatusError as error:
                if not _is_namespace_ending(error):
                    self._tell(key[0], owner, "create", pod["metadata"].get("name", ""), error)
                raise
            self._writes.wrote(key, made)
            self._tell(key[0], owner, "create", made["metadata"]["name"], None)

        failure = await slow_start(len(pods), one)
        return None if failure is not None and _is_namespace_ending(failure) else failure

    async def patch(self, key: Key, pod: Object, patch: Object) -> None:
        """Applies a merge patch."""
        self._writes.wrote(key, await self._client.at(key[0]).merge(PODS, pod["metadata"]["name"], patch, key[1]))

    async def delete(self, key: Key, owner: Object, pods: Iterable[Object]) -> Exception | None:
        client = self._client.at(key[0])
        gone = self._deleted.setdefault(key, set())

        async def one(pod: Object) -> None:
            metadata = pod["metadata"]
            gone.add(metadata["uid"])
            try:
                await client.delete(PODS, metadata["name"], key[1], uid=metadata["uid"], brief=True)
            except NotFound:
                return
            except Exception as error:
                gone.discard(metadata["uid"])
                self._tell(key[0], owner, "delete", metadata["name"], error)
                raise
            self._tell(key[0], owner, "delete", metadata["name"], None)

        return await each([partial(one, pod) for pod in pods])

    async def settle(self, key: Key, owner: Object, claims: Claims) -> bool:
        """Adopts orphans and releases pods that are no longer selected. Returns whether there was anything to do."""
        if not claims.adopt and not claims.release:
            return False
        client = self._client.at(key[0])
        patches = [(pod, self._holding(pod, release(pod, owner), False)) for pod in claims.release]
        if claims.adopt and await is_alive(client, self._kind, owner):
            reference = controller_reference(owner, self._api_version, self._named)
            patches += [(pod, self._holding(pod, adoption(pod, reference), True)) for pod in claims.adopt]

        async def one(pod: Object, patch: Object) -> None:
            try:
                self._writes.wrote(key, await client.merge(PODS, pod["metadata"]["name"], patch, key[1]))
            except NotFound:
                return

        failure = await each([partial(one, pod, patch) for pod, patch in patches])
        if failure is not None:
            raise failure
        return True

    def _holding(self, pod: Object, patch: Object, holds: bool) -> Object:
        if self._finalizer:
            others = [one for one in pod["metadata"].get("finalizers") or () if one != self._finalizer]
            patch["metadata"]["finalizers"] = [*others, self._finalizer] if holds else others or None
        return patch


async def is_alive(client: Client, kind: Kind, owner: Object) -> bool:
    """Reads the owner from the server, not from the informer: an owner that is being deleted must not adopt."""
    metadata = owner["metadata"]
    try:
        fresh = (await client.get(kind, metadata["name"], metadata["namespace"]))["metadata"]
    except NotFound:
        return False
    return fresh["uid"] == metadata["uid"] and "deletionTimestamp" not in fresh


def _untold(cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
    return


def _is_namespace_ending(error: Exception) -> bool:
    return isinstance(error, StatusError) and any(cause.reason == NAMESPACE_ENDS for cause in error.causes)
