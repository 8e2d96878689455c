"""Deletes the content of terminating namespaces in every logical cluster, then finalizes them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.namespaces.decide import Content, conditions, finalized, is_empty, is_terminating
from shoal.objects.conditions import set_condition
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError
from shoal.runtime.controller import Controller

Object = dict[str, Any]

NAMESPACES = Kind("", "v1", "namespaces", namespaced=False)
NEEDED = {"list", "deletecollection"}
PODS = Kind("", "v1", "pods")
AGAIN_SECONDS = 2.0
"""Requeue delay while finalizers of others are pending: their removal is no event of the namespace."""


def namespace_controller(client: Client, clock: Clock) -> Controller:
    loop = NamespaceLoop(client, clock)
    return Controller("namespaces", client.at("*"), NAMESPACES, clock, is_terminating, loop.reconcile)


class NamespaceLoop:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def reconcile(self, key: Key, seen: Object) -> float | None:
        cluster, _, name = key
        client = self._client.at(cluster)
        try:
            namespace = await client.get(NAMESPACES, name)
        except NotFound:
            return None
        if not is_terminating(namespace):
            return None
        content = await self._empty(client, name)
        if is_empty(content):
            await client.update(NAMESPACES, finalized(namespace), "finalize")
            return None
        await self._report(client, namespace, content)
        return AGAIN_SECONDS

    async def _empty(self, client: Client, namespace: str) -> Content:
        """Deletes pods first and the rest once they are gone: the secrets and policies they need outlive them."""
        found = Content()
        kinds = [kind for kind, verbs in await client.discover() if kind.namespaced and verbs >= NEEDED]
        for kind in sorted(kinds, key=lambda kind: kind != PODS):
            if kind != PODS and found.remaining.get(PODS.plural):
                break
            found = found | await self._empty_of(client, namespace, kind)
        return found

    async def _empty_of(self, client: Client, namespace: str, kind: Kind) -> Content:
        title = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        try:
            found, _ = await client.list_all(kind, namespace)
            if found:
                await client.delete_all(kind, namespace)
                found, _ = await client.list_all(kind, namespace)
        except (NotFound, MethodNotSupported):
            return Content()  # the kind was removed meanwhile, with its objects
        except StatusError as error:
            return Content(failures=(f"{title}: {error}",))
        waited_for = (finalizer for obj in found for finalizer in obj["metadata"].get("finalizers") or ())
        return Content({title: len(found)}, Counter(waited_for))

    async def _report(self, client: Client, namespace: Object, content: Content) -> None:
        now = rfc3339(self._clock.now())
        updated = namespace
        for kind, true, reason, message in conditions(content):
            status = "True" if true else "False"
            updated = set_condition(updated, kind, status, reason=reason, message=message, now=now)
        if updated is not namespace:
            await client.update(NAMESPACES, updated, "status")
