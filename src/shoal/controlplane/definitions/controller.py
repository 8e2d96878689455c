"""Deletes a CustomResourceDefinition's instances before it is removed, and retries names that were not accepted."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.definitions.decide import (
    is_unfinished,
    needs_another_look,
    waits_for_cleanup,
    without_finalizer,
)
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]

DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
AGAIN_SECONDS = 1.0


def definition_controller(client: Client, clock: Clock) -> Controller:
    loop = DefinitionLoop(client)
    return Controller("definitions", client.at("*"), DEFINITIONS, clock, is_unfinished, loop.reconcile)


class DefinitionLoop:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key, seen: Object) -> float | None:
        cluster, _, name = key
        client = self._client.at(cluster)
        try:
            crd = await client.get(DEFINITIONS, name)
        except NotFound:
            return None
        if waits_for_cleanup(crd):
            if await self._instances(client, crd):
                return AGAIN_SECONDS
            await client.update(DEFINITIONS, without_finalizer(crd))
            return None
        if needs_another_look(crd):
            # Any write makes the server check the names again; it accepts them as soon as they are free.
            await client.update(DEFINITIONS, crd, "status")
            return AGAIN_SECONDS
        return None

    async def _instances(self, client: Client, crd: Object) -> bool:
        """Deletes all instances. Returns whether some remain because of their finalizers."""
        spec = crd["spec"]
        served = [version["name"] for version in spec["versions"] if version.get("served")]
        if not served:
            return False
        kind = Kind(spec["group"], served[0], spec["names"]["plural"], spec["scope"] == "Namespaced")
        try:
            found, _ = await client.list_all(kind)
            if not found:
                return False
            for namespace in {obj["metadata"].get("namespace", "") for obj in found}:
                await client.delete_all(kind, namespace)
            found, _ = await client.list_all(kind)
        except NotFound:
            return False
        return bool(found)
