"""Maps hub namespaces to namespaces of a workload Cluster, creates them on demand and removes them when empty.

A namespace keeps its name, unless another hub uses it there: then it gets a suffix. Created namespaces carry a locator
that names their hub namespace. A namespace that existed before is used as it is and stays.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import orjson

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, Forbidden, MethodNotSupported, NotFound
from shoal.runtime.controller import RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.resources import NAMESPACES

Object = dict[str, Any]

DEFAULT_OBJECTS = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
"""Objects that every namespace has."""
IGNORED_RESOURCES = {"events"}
MAX_NAME_LENGTH = 63


def locator(hub: str, namespace: str) -> str:
    return orjson.dumps({"hub": hub, "namespace": namespace}).decode()


def parse_locator(obj: Object) -> tuple[str, str]:
    """Hub and hub namespace of a namespace; both empty: it has no locator."""
    annotation = (obj["metadata"].get("annotations") or {}).get(workloadcluster.NAMESPACE_LOCATOR_ANNOTATION)
    try:
        parsed = orjson.loads(annotation) if annotation else {}
    except ValueError:
        return "?", ""  # another component's, not ours
    if not isinstance(parsed, dict):
        return "?", ""
    return str(parsed.get("hub", "?" if annotation else "")), str(parsed.get("namespace", ""))


def name_with_suffix(hub: str, namespace: str) -> str:
    """An alternative name that no other hub would use."""
    tail = hashlib.sha256(locator(hub, namespace).encode()).hexdigest()[:8]
    return f"{namespace[: MAX_NAME_LENGTH - 9].rstrip('-')}-{tail}"


class NamespaceMapper:
    def __init__(self, client: Client, clock: Clock, cluster: str, hub: str) -> None:
        self._client, self._cluster, self._hub = client, cluster, hub
        self._downstream_names: dict[str, str] = {}
        """Downstream names of hub namespaces."""
        self._hub_names: dict[str, str] = {}
        """The reverse, for those with our locator."""
        self.informer = Informer(client, NAMESPACES, clock, labels=workloadcluster.CLUSTER_LABEL, resumable=True)
        """The namespaces with a locator."""
        self.informer.add_event_handler(self._handle_namespace)

    def _handle_namespace(self, key: Key, old: Object | None, new: Object | None) -> None:
        hub, namespace = parse_locator(new) if new is not None else ("", "")
        if hub == self._hub:
            self._hub_names[key[2]] = namespace
            self._downstream_names[namespace] = key[2]
        else:
            self._hub_names.pop(key[2], None)
            for stale in [hub_namespace for hub_namespace, name in self._downstream_names.items() if name == key[2]]:
                del self._downstream_names[stale]

    def hub_name(self, name: str) -> str:
        """The hub namespace of a downstream namespace."""
        return self._hub_names.get(name, name)

    async def name_of(self, namespace: str) -> str:
        """The downstream name of a hub namespace. It need not exist yet."""
        cached = self._downstream_names.get(namespace)
        if cached is not None:
            return cached
        for name in (namespace, name_with_suffix(self._hub, namespace)):
            try:
                existing = await self._client.get(NAMESPACES, name)
            except NotFound as error:
                if (error.kind, error.name) != (NAMESPACES.resource, name):
                    raise
                return name
            if parse_locator(existing) in (("", ""), (self._hub, namespace)):
                self._downstream_names[namespace] = name
                return name
        raise RequeueError(
            f"the namespaces {namespace} and {name_with_suffix(self._hub, namespace)} belong to another hub"
        )

    def forget(self, namespace: str) -> None:
        self._downstream_names.pop(namespace, None)

    async def create(self, namespace: str, name: str) -> None:
        """Creates the downstream namespace of `namespace`."""
        metadata = {
            "name": name,
            "labels": {workloadcluster.CLUSTER_LABEL: self._cluster},
            "annotations": {workloadcluster.NAMESPACE_LOCATOR_ANNOTATION: locator(self._hub, namespace)},
        }
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def remove_empty(self, namespace: str) -> None:
        """Deletes the downstream namespace of a hub namespace if this hub created it and it is empty."""
        name = self._downstream_names.get(namespace, namespace)
        try:
            existing = await self._client.get(NAMESPACES, name)
        except NotFound:
            return
        metadata = existing["metadata"]
        is_ours = parse_locator(existing) == (self._hub, namespace)
        if not is_ours or "deletionTimestamp" in metadata or await self._has_objects(name):
            return
        with suppress(NotFound):
            await self._client.delete(NAMESPACES, name, uid=metadata["uid"])
        self.forget(namespace)

    async def _has_objects(self, name: str) -> bool:
        """Whether it has objects of others; objects with owners are deleted with them. A kind that may not be listed
        counts as present.
        """
        for gvr, verbs in await self._client.preferred_resources():
            if not gvr.namespaced or "list" not in verbs or gvr.resource in IGNORED_RESOURCES:
                continue
            try:
                objects, _ = await self._client.list_all(gvr, name)
            except (NotFound, MethodNotSupported):
                continue
            except Forbidden:
                return True
            for obj in objects:
                metadata = obj["metadata"]
                is_default = (gvr.resource, metadata["name"]) in DEFAULT_OBJECTS
                if not is_default and not metadata.get("ownerReferences") and "deletionTimestamp" not in metadata:
                    return True
        return False
