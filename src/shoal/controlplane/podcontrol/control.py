"""Pods made from a template, deleted, adopted and released on behalf of an owner, and what of that is still to be seen.

The owner's loop asks `in_sight` before it decides anything: a slow watch makes it wait, never create too many.
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
    """Is told what became of an attempt to `create` or `delete` the pod of that name for its owner."""

    def __call__(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None: ...


class PodControl:
    """Of one kind of owners. Keys are those of owners."""

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
        """`finalizer`: what pods that are taken over are held by from then on, until they are let go."""
        self._client, self._pods, self._kind = client, pods, kind
        self._api_version, self._named, self._finalizer = api_version, named, finalizer
        self._tell = tell or _untold
        self._writes: OwnWrites[Key] = OwnWrites(pods)
        self._deleted: dict[Key, set[str]] = {}
        """Uids of pods whose deletion the server has accepted and the view does not show yet."""

    def owners(self, key: Key, before: Object | None, now: Object | None) -> Iterator[Key]:
        """Who controls the pod of that key, and who did."""
        group = self._api_version.rpartition("/")[0]
        for name in {controller_named(before, group, self._named), controller_named(now, group, self._named)} - {""}:
            yield key[0], key[1], name

    def in_sight(self, key: Key) -> bool:
        return self._writes.in_sight(key)

    def forget(self, key: Key) -> None:
        self._writes.forget(key)
        self._deleted.pop(key, None)

    def deleted(self, key: Key, pods: Iterable[Object]) -> set[str]:
        """Uids of those of the pods that are deleted already, though they do not look it."""
        found = self._deleted.get(key)
        if not found:
            return set()
        found &= {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        if not found:
            del self._deleted[key]
        return found

    def as_deleted(self, key: Key, pods: list[Object], stamp: str) -> list[Object]:
        """The pods as they will look: those that are deleted already say so. `stamp` is the time."""
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
        """Pods of the owner's template, as many as asked for."""
        pod = from_template(owner, controller_reference(owner, self._api_version, self._named))
        return await self.create_pods(key, owner, [pod] * count)

    async def create_pods(self, key: Key, owner: Object, pods: list[Object]) -> Exception | None:
        """The first failure, if any: the rest was not tried. In a namespace that ends nothing is missing."""
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
        """A merge patch."""
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
        """Takes over orphans and lets go what is not selected any more; tells whether there was anything to do."""
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
    """By the server, not by a view: who is being deleted must take over nothing."""
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
