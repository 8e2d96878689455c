"""Pods made from a template, deleted, adopted and released on behalf of an owner, and what of that is still to be seen.

The owner's loop asks `in_sight` before it decides anything: a slow watch makes it wait, never create too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.controlplane.podcontrol.batches import each, slow_start
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.ownership import Claims, adoption, controller_reference, release
from shoal.runtime.dependents import Dependents
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")
NAMESPACE_ENDS = "NamespaceTerminating"


class PodControl:
    """Of one kind of owners. Keys are those of owners."""

    def __init__(self, client: Client, pods: Dependents, kind: Kind, api_version: str, named: str) -> None:
        self._client, self._pods, self._kind = client, pods, kind
        self._api_version, self._named = api_version, named
        self._writes: OwnWrites[Key] = OwnWrites(pods)
        self._deleted: dict[Key, set[str]] = {}
        """Uids of pods whose deletion the server has accepted and the view does not show yet."""

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

    async def create(self, key: Key, owner: Object, count: int) -> Exception | None:
        """The first failure, if any: the rest was not tried. In a namespace that ends nothing is missing."""
        pod = from_template(owner, controller_reference(owner, self._api_version, self._named))
        client = self._client.at(key[0])

        async def one() -> None:
            self._writes.wrote(key, await client.create(PODS, pod, key[1]))

        failure = await slow_start(count, one)
        if isinstance(failure, StatusError) and any(cause.reason == NAMESPACE_ENDS for cause in failure.causes):
            return None
        return failure

    async def delete(self, key: Key, pods: Iterable[Object]) -> Exception | None:
        client = self._client.at(key[0])
        gone = self._deleted.setdefault(key, set())

        async def one(pod: Object) -> None:
            metadata = pod["metadata"]
            gone.add(metadata["uid"])
            try:
                await client.delete(PODS, metadata["name"], key[1], uid=metadata["uid"])
            except NotFound:
                pass
            except Exception:
                gone.discard(metadata["uid"])
                raise

        return await each([partial(one, pod) for pod in pods])

    async def settle(self, key: Key, owner: Object, claims: Claims) -> bool:
        """Takes over orphans and lets go what is not selected any more; tells whether there was anything to do."""
        if not claims.adopt and not claims.release:
            return False
        client = self._client.at(key[0])
        patches = [(pod, release(pod, owner)) for pod in claims.release]
        if claims.adopt and await self._is_alive(client, owner):
            reference = controller_reference(owner, self._api_version, self._named)
            patches += [(pod, adoption(pod, reference)) for pod in claims.adopt]

        async def one(pod: Object, patch: Object) -> None:
            try:
                self._writes.wrote(key, await client.merge(PODS, pod["metadata"]["name"], patch, key[1]))
            except NotFound:
                return

        failure = await each([partial(one, pod, patch) for pod, patch in patches])
        if failure is not None:
            raise failure
        return True

    async def _is_alive(self, client: Client, owner: Object) -> bool:
        """By the server, not by the view: who is being deleted must take over nothing."""
        metadata = owner["metadata"]
        try:
            fresh = (await client.get(self._kind, metadata["name"], metadata["namespace"]))["metadata"]
        except NotFound:
            return False
        return fresh["uid"] == metadata["uid"] and "deletionTimestamp" not in fresh


def from_template(owner: Object, reference: Object) -> Object:
    template = owner["spec"]["template"]
    given = template.get("metadata") or {}
    metadata = {field: given[field] for field in ("labels", "annotations", "finalizers") if given.get(field)}
    metadata |= {"generateName": f"{owner['metadata']['name']}-", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
