"""Looks up the live object behind an owner reference, or makes sure that there is none.

An owner is absent only if a lookup of the right kind did not find it. A kind that is not served, a cluster that cannot
be entered or any other failure is unknown, and nothing is deleted because of it.
"""

from __future__ import annotations

import logging

from shoal.client.requests import Client, Kind
from shoal.controlplane.garbagecollector.decide import State, owner_state
from shoal.controlplane.garbagecollector.graph import CLUSTER, Owner
from shoal.objects.errors import NotFound

log = logging.getLogger("shoal.garbagecollector")

MOST_REMEMBERED = 10_000


class Owners:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._absent: set[Owner] = set()
        """A uid returns only if its whole cluster is restored, and then its dependents arrive as new objects: see
        `forget`.
        """

    def forget(self, owner: Owner) -> None:
        """Forgets that the owner was absent: a new object references it."""
        self._absent.discard(owner)

    async def state(self, owner: Owner) -> State:
        if owner in self._absent:
            return State.ABSENT
        kind = await self._kind(owner)
        if kind is None:
            return State.UNKNOWN
        if kind.namespaced and not owner.namespace:
            log.info("an object without a namespace refers to the namespaced %s %s: left alone", owner.kind, owner.name)
            return State.FOREIGN
        namespace = owner.namespace if kind.namespaced else ""
        try:
            state = owner_state(await self._client.at(owner.cluster).get(kind, owner.name, namespace), owner.uid)
        except NotFound as error:
            if (error.kind, error.name) != (kind.plural, owner.name):
                self._kinds.pop((owner.cluster, owner.api_version, owner.kind), None)
                return State.UNKNOWN
            state = State.ABSENT
        if state is State.ABSENT:
            return await self._absence(owner, kind, namespace)
        return state

    async def _absence(self, owner: Owner, kind: Kind, namespace: str) -> State:
        query = {"resource": f"{kind.group}/{kind.plural}", "namespace": namespace, "name": owner.name}
        found = await self._client.call("GET", "/clusters/*/metadata", query)
        for item in found["items"]:
            metadata = item["metadata"]
            if metadata["uid"] == owner.uid and metadata["annotations"][CLUSTER] != owner.cluster:
                log.info(
                    "%s %s lives in another logical cluster: its dependents in %s are left alone", *owner[3:5], owner[0]
                )
                return State.FOREIGN
        if len(self._absent) >= MOST_REMEMBERED:
            self._absent.clear()
        self._absent.add(owner)
        return State.ABSENT

    async def _kind(self, owner: Owner) -> Kind | None:
        key = (owner.cluster, owner.api_version, owner.kind)
        found = self._kinds.get(key)
        if found is not None:
            return found
        group, _, version = owner.api_version.rpartition("/")
        prefix = Kind(group, version, "").prefix
        try:
            served = await self._client.call("GET", f"/clusters/{owner.cluster}{prefix}")
        except NotFound:
            return None
        for resource in served.get("resources") or ():
            if resource["kind"] == owner.kind and "/" not in resource["name"] and "get" in resource["verbs"]:
                if len(self._kinds) >= MOST_REMEMBERED:
                    self._kinds.clear()
                self._kinds[key] = Kind(group, version, resource["name"], resource["namespaced"])
                return self._kinds[key]
        return None
