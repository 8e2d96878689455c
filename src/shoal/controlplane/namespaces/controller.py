"""Deletes the content of terminating namespaces in every logical cluster, then finalizes them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.namespaces.decide import (
    NamespaceContent,
    conditions,
    is_empty,
    is_terminating,
    without_finalizer,
)
from shoal.objects.conditions import set_condition
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]

NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
REQUIRED_VERBS = {"list", "deletecollection"}
PODS = GroupVersionResource("", "v1", "pods")
RETRY_SECONDS = 2.0
"""Requeue delay while finalizers of others are pending: their removal is no event of the namespace."""


def new_namespace_controller(client: Client, clock: Clock) -> Controller[Key]:
    reconciler = NamespaceReconciler(client, clock)
    namespaces = Informer(client.in_cluster("*"), NAMESPACES, clock)
    return new_kind_controller("namespaces", namespaces, clock, is_terminating, reconciler.reconcile)


class NamespaceReconciler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def reconcile(self, key: Key, cached: Object) -> float | None:
        cluster, _, name = key
        client = self._client.in_cluster(cluster)
        try:
            namespace = await client.get(NAMESPACES, name)
        except NotFound:
            return None
        if not is_terminating(namespace):
            return None
        content = await self._delete_all_content(client, name)
        if is_empty(content):
            await client.update(NAMESPACES, without_finalizer(namespace), "finalize")
            return None
        await self._update_conditions(client, namespace, content)
        return RETRY_SECONDS

    async def _delete_all_content(self, client: Client, namespace: str) -> NamespaceContent:
        """Deletes pods first and the rest once they are gone: the secrets and policies they need outlive them."""
        content = NamespaceContent()
        kinds = [
            kind for kind, verbs in await client.preferred_resources() if kind.namespaced and verbs >= REQUIRED_VERBS
        ]
        for kind in sorted(kinds, key=lambda kind: kind != PODS):
            if kind != PODS and content.remaining.get(PODS.resource):
                break
            content = content | await self._delete_content_of(client, namespace, kind)
        return content

    async def _delete_content_of(self, client: Client, namespace: str, gvr: GroupVersionResource) -> NamespaceContent:
        resource_name = f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource
        try:
            objects, _ = await client.list_all(gvr, namespace)
            if objects:
                await client.delete_all(gvr, namespace)
                objects, _ = await client.list_all(gvr, namespace)
        except (NotFound, MethodNotSupported):
            return NamespaceContent()  # the kind was removed meanwhile, with its objects
        except StatusError as error:
            return NamespaceContent(failures=(f"{resource_name}: {error}",))
        finalizers = (finalizer for obj in objects for finalizer in obj["metadata"].get("finalizers") or ())
        return NamespaceContent({resource_name: len(objects)}, Counter(finalizers))

    async def _update_conditions(self, client: Client, namespace: Object, content: NamespaceContent) -> None:
        now = rfc3339(self._clock.now())
        updated = namespace
        for kind, true, reason, message in conditions(content):
            status = "True" if true else "False"
            updated = set_condition(updated, kind, status, reason=reason, message=message, now=now)
        if updated is not namespace:
            await client.update(NAMESPACES, updated, "status")
