"""The negotiation loop: imports of one API become one NegotiatedAPIResource; published, the hub serves it.

It is withdrawn when no cluster offers the API any more and no object of it is left on the hub: until then, what
people wrote stays readable.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.apiresource import Api, api_of, is_known, negotiated_name
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition, with_conditions
from shoal.sync.negotiation.decide import Served, decide, first, is_manual, is_withdrawable
from shoal.sync.reporting import update_status
from shoal.sync.resources import DEFINITIONS, IMPORTS, NEGOTIATED

Object = dict[str, Any]


class Negotiation:
    """Keys are APIs."""

    def __init__(self, client: Client, clock: Clock, auto_publish: bool) -> None:
        self._client, self._clock, self._auto_publish = client, clock, auto_publish
        self.loop: Loop[Api] = Loop("negotiation", clock, self.reconcile)
        self._imports = Reflector(client, IMPORTS, clock, self._import, listed=self._look_at_all)
        self._negotiated = Reflector(client, NEGOTIATED, clock, self._resource, listed=self._look_at_all)
        self._definitions = Reflector(client, DEFINITIONS, clock, self._definition)
        self.loop.sources += [self._imports.run, self._negotiated.run, self._definitions.run]
        self._apis: dict[str, Api] = {}
        """What each import and each negotiated resource was about, to know it when it is gone."""

    def _import(self, key: Key, obj: Object | None) -> None:
        self._note(f"import {key[2]}", obj)

    def _resource(self, key: Key, obj: Object | None) -> None:
        self._note(f"negotiated {key[2]}", obj)

    def _note(self, name: str, obj: Object | None) -> None:
        api = self._apis.pop(name, None) if obj is None else self._apis.setdefault(name, api_of(obj))
        if api is not None:
            self.loop.queue.add(api)

    def _definition(self, key: Key, obj: Object | None) -> None:
        for api in set(self._apis.values()):
            if api.group_resource == key[2]:
                self.loop.queue.add(api)

    def _look_at_all(self) -> None:
        for api in set(self._apis.values()):
            self.loop.queue.add(api)

    async def reconcile(self, api: Api) -> None:
        if not (self._imports.synced and self._negotiated.synced):
            return  # all are looked at once they are
        imports = [found for found in self._imports.objects.values() if api_of(found) == api]
        negotiated = self._negotiated.objects.get(("", "", negotiated_name(api)))
        if negotiated is None:
            new = first(api, imports, self._auto_publish)
            if new is None:
                return
            try:
                negotiated = await self._client.create(NEGOTIATED, new)
            except AlreadyExists:
                raise Later("it has just come") from None
        if is_withdrawable(negotiated, imports):
            await self._withdraw(api, negotiated)
            return
        served = await self._served(api)
        decision = decide(negotiated, imports, served)
        if decision.definition is not None:
            await self._define(decision.definition, served)
            served = await self._served(api)
            decision = decide(negotiated, imports, served)
        await self._tell(NEGOTIATED, negotiated, list(decision.negotiated))
        for found in imports:
            await self._tell(IMPORTS, found, decision.imports[found["metadata"]["name"]])
        if negotiated["spec"].get("publish") and not served.listed:
            raise Later("the hub does not list it yet")

    async def _served(self, api: Api) -> Served:
        by_itself = is_known(api)
        definition = None
        if api.group:
            with suppress(NotFound):
                definition = await self._client.get(DEFINITIONS, api.group_resource)
        try:
            resources = (await self._client.read(Kind(api.group, api.version, "").prefix)).get("resources") or ()
        except NotFound:
            resources = ()
        return Served(by_itself, any(found["name"] == api.plural for found in resources), definition)

    async def _define(self, definition: Object, served: Served) -> None:
        if served.definition is None:
            await self._client.create(DEFINITIONS, definition)
        else:
            await self._client.update(DEFINITIONS, definition)

    async def _withdraw(self, api: Api, negotiated: Object) -> None:
        kind = Kind(api.group, api.version, api.plural, negotiated["spec"]["scope"] == "Namespaced")
        try:
            left = (await self._client.call("GET", self._client.path(kind), {"limit": "1"}))["items"]
        except NotFound:
            left = []  # it is not served: nothing becomes unreadable by this
        if left:
            raise Later("no cluster offers it any more, but there are objects of it")
        served = await self._served(api)
        if served.definition is not None and not is_manual(served.definition):
            metadata = served.definition["metadata"]
            await self._client.delete(DEFINITIONS, metadata["name"], uid=metadata["uid"])
        with suppress(NotFound):
            metadata = negotiated["metadata"]
            await self._client.delete(NEGOTIATED, metadata["name"], uid=metadata["uid"])

    async def _tell(self, kind: Kind, obj: Object, conditions: list[Condition]) -> None:
        now = rfc3339(self._clock.now())

        def changed(found: Object) -> Object:
            return with_conditions(found, conditions, now) if found["metadata"]["uid"] == uid else found

        uid = obj["metadata"]["uid"]
        if changed(obj) is not obj:
            await update_status(self._client, kind, obj["metadata"]["name"], "", changed)
