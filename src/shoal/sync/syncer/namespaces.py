"""Maps hub namespaces to namespaces of a workload Cluster, creates them on demand and removes them when empty.

A namespace keeps its name, unless another hub uses it there: then it gets a suffix. Created namespaces carry a locator
that names their hub namespace. A namespace that existed before is used as it is and stays.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import Any

import orjson

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, Forbidden, MethodNotSupported, NotFound
from shoal.runtime.loop import Later
from shoal.sync.resources import NAMESPACES

Object = dict[str, Any]

GIVEN = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
"""Objects that every namespace has."""
PASSING = {"events"}
LONGEST_NAME = 63


def locator(hub: str, namespace: str) -> str:
    return orjson.dumps({"hub": hub, "namespace": namespace}).decode()


def located(obj: Object) -> tuple[str, str]:
    """Hub and hub namespace of a namespace; both empty: it has no locator."""
    said = (obj["metadata"].get("annotations") or {}).get(workload.LOCATOR)
    try:
        found = orjson.loads(said) if said else {}
    except ValueError:
        return "?", ""  # another component's, not ours
    if not isinstance(found, dict):
        return "?", ""
    return str(found.get("hub", "?" if said else "")), str(found.get("namespace", ""))


def suffixed(hub: str, namespace: str) -> str:
    """An alternative name that no other hub would use."""
    tail = hashlib.sha256(locator(hub, namespace).encode()).hexdigest()[:8]
    return f"{namespace[: LONGEST_NAME - 9].rstrip('-')}-{tail}"


class Namespaces:
    def __init__(self, client: Client, clock: Clock, cluster: str, hub: str) -> None:
        self._client, self._cluster, self._hub = client, cluster, hub
        self._known: dict[str, str] = {}
        """Downstream names of hub namespaces."""
        self._stand_for: dict[str, str] = {}
        """The reverse, for those with our locator."""
        self.listed = asyncio.Event()
        """Set once the namespaces with a locator are known."""
        self.reflector = Reflector(
            client, NAMESPACES, clock, self._changed, labels=workload.ASSIGNED, listed=self.listed.set
        )

    def _changed(self, key: Key, obj: Object | None) -> None:
        hub, namespace = located(obj) if obj is not None else ("", "")
        if hub == self._hub:
            self._stand_for[key[2]] = namespace
            self._known[namespace] = key[2]
        else:
            self._stand_for.pop(key[2], None)
            for stale in [mine for mine, name in self._known.items() if name == key[2]]:
                del self._known[stale]

    def hub_name(self, name: str) -> str:
        """The hub namespace of a downstream namespace."""
        return self._stand_for.get(name, name)

    async def name_of(self, namespace: str) -> str:
        """The downstream name of a hub namespace. It need not exist yet."""
        known = self._known.get(namespace)
        if known is not None:
            return known
        for name in (namespace, suffixed(self._hub, namespace)):
            try:
                found = await self._client.get(NAMESPACES, name)
            except NotFound as error:
                if (error.kind, error.name) != (NAMESPACES.plural, name):
                    raise
                return name
            if located(found) in (("", ""), (self._hub, namespace)):
                self._known[namespace] = name
                return name
        raise Later(f"the namespaces {namespace} and {suffixed(self._hub, namespace)} are another hub's there")

    def forget(self, namespace: str) -> None:
        self._known.pop(namespace, None)

    async def create(self, namespace: str, name: str) -> None:
        """Creates the downstream namespace of `namespace`."""
        metadata = {
            "name": name,
            "labels": {workload.ASSIGNED: self._cluster},
            "annotations": {workload.LOCATOR: locator(self._hub, namespace)},
        }
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def remove_empty(self, namespace: str) -> None:
        """Deletes the downstream namespace of a hub namespace if this hub created it and it is empty."""
        name = self._known.get(namespace, namespace)
        try:
            found = await self._client.get(NAMESPACES, name)
        except NotFound:
            return
        metadata = found["metadata"]
        ours = located(found) == (self._hub, namespace)
        if not ours or "deletionTimestamp" in metadata or await self._holds_something(name):
            return
        with suppress(NotFound):
            await self._client.delete(NAMESPACES, name, uid=metadata["uid"])
        self.forget(namespace)

    async def _holds_something(self, name: str) -> bool:
        """Whether it has objects of others; objects with owners are deleted with them. A kind that may not be listed
        counts as present.
        """
        for kind, verbs in await self._client.discover():
            if not kind.namespaced or "list" not in verbs or kind.plural in PASSING:
                continue
            try:
                found, _ = await self._client.list_all(kind, name)
            except (NotFound, MethodNotSupported):
                continue
            except Forbidden:
                return True
            for obj in found:
                metadata = obj["metadata"]
                given = (kind.plural, metadata["name"]) in GIVEN
                if not given and not metadata.get("ownerReferences") and "deletionTimestamp" not in metadata:
                    return True
        return False
