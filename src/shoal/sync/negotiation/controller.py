"""Reconciles negotiation: imports of one API become one NegotiatedAPIResource, which the hub serves when published.

It is withdrawn when no cluster offers the API any more and no object of it is left on the hub. Until then existing
objects stay readable.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.apiextensions import served_versions
from shoal.kinds.apiresource import ENFORCED, PUBLISHED, Api, api_of, is_known, negotiated_name
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists, Conflict, NotFound, StatusError
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition, with_conditions
from shoal.sync.negotiation.agreement import Agreement, Offered, agree, by_schema, enforced
from shoal.sync.negotiation.compat import Common
from shoal.sync.negotiation.decide import (
    SCHEMA_UNKNOWN,
    Served,
    changed,
    first,
    is_manual,
    is_withdrawable,
    offered,
    tell,
)
from shoal.sync.negotiation.definition import definition, spec_of
from shoal.sync.reporting import update_status
from shoal.sync.resources import DEFINITIONS, IMPORTS, NEGOTIATED, SCHEMAS

Object = dict[str, Any]

REMEMBERED, KEPT = 512, 128
"""Cache sizes: comparisons, and schemas."""


class Negotiation:
    """Keys are APIs."""

    def __init__(self, client: Client, clock: Clock, auto_publish: bool) -> None:
        self._client, self._clock, self._auto_publish = client, clock, auto_publish
        self.loop: Loop[Api] = Loop("negotiation", clock, self.reconcile)
        self._imports = Reflector(client, IMPORTS, clock, self._import, listed=self._look_at_all, shared=True)
        self._negotiated = Reflector(client, NEGOTIATED, clock, self._resource, listed=self._look_at_all, shared=True)
        self._definitions = Reflector(client, DEFINITIONS, clock, self._definition)
        self.loop.sources += [self._imports.run, self._negotiated.run, self._definitions.run]
        self._apis: dict[str, Api] = {}
        """The API of each import and negotiated resource, to know it after deletion."""
        self._offering: dict[Api, set[Key]] = {}
        """Imports of each API."""
        self._compared = _Memory()

    def _import(self, key: Key, obj: Object | None) -> None:
        api = self._note(f"import {key[2]}", obj)
        if api is not None and obj is None:
            self._offering[api].discard(key)
        elif api is not None:
            self._offering.setdefault(api, set()).add(key)

    def _resource(self, key: Key, obj: Object | None) -> None:
        api = self._note(f"negotiated {key[2]}", obj)
        if api is not None and obj is None:
            self._look_at_versions(api.group_resource)  # versions share a CRD

    def _note(self, name: str, obj: Object | None) -> Api | None:
        api = self._apis.pop(name, None) if obj is None else self._apis.setdefault(name, api_of(obj))
        if api is not None:
            self.loop.queue.add(api)
        return api

    def _definition(self, key: Key, obj: Object | None) -> None:
        self._look_at_versions(key[2])

    def _look_at_versions(self, group_resource: str) -> None:
        for api in set(self._apis.values()):
            if api.group_resource == group_resource:
                self.loop.queue.add(api)

    def _look_at_all(self) -> None:
        for api in set(self._apis.values()):
            self.loop.queue.add(api)

    async def reconcile(self, api: Api) -> None:
        if not (self._imports.synced and self._negotiated.synced):
            return  # all are enqueued after the sync
        imports = [self._imports.objects[key] for key in sorted(self._offering.get(api, ()))]
        negotiated = self._negotiated.objects.get(("", "", negotiated_name(api)))
        if negotiated is None and not imports:
            return
        crd = await self._crd(api)
        if negotiated is not None and is_withdrawable(negotiated, imports):
            await self._withdraw(api, negotiated, crd)
            return
        offers = offered(imports, await self._schemas(imports))
        agreement = self._agreed(api, negotiated, offers, crd)
        negotiated = await self._settled(api, negotiated, agreement)
        if negotiated is None:
            await self._tell_imports(imports, {offer.name: [SCHEMA_UNKNOWN] for offer in offers})
            raise Later(SCHEMA_UNKNOWN.message)
        served = await self._serve(api, negotiated, crd)
        told = tell(negotiated, offers, agreement, served)
        await self._tell(NEGOTIATED, negotiated, list(told.negotiated))
        await self._tell_imports(imports, told.imports)
        if negotiated["spec"].get("publish") and not served.listed and not served.refused:
            raise Later("the hub does not list it yet")
        if not all(offer.known for offer in offers):
            raise Later(SCHEMA_UNKNOWN.message)
        if served.objects:
            raise Later("it is not to be served any more, but there are objects of it")

    # --- negotiation ---

    def _agreed(self, api: Api, negotiated: Object | None, offers: list[Offered], crd: Object | None) -> Agreement:
        if crd is not None and is_manual(crd):
            spec = spec_of(crd, api, (negotiated or {}).get("spec") or offers[0].spec)
            if spec is not None:
                return enforced(spec, offers, self._compared)
        freed = negotiated is None or condition_is(negotiated, ENFORCED)
        current = None if freed or negotiated is None else negotiated["spec"]
        published = negotiated is not None and not freed and condition_is(negotiated, PUBLISHED)
        return agree(current, published, offers, self._compared)

    async def _settled(self, api: Api, negotiated: Object | None, agreement: Agreement) -> Object | None:
        """Writes and returns the negotiated resource."""
        try:
            if negotiated is None:
                new = first(api, agreement, self._auto_publish)
                return await self._client.create(NEGOTIATED, new) if new is not None else None
            new = changed(negotiated, agreement)
            return await self._client.update(NEGOTIATED, new) if new is not None else negotiated
        except (AlreadyExists, Conflict):
            raise Later("it has just changed") from None

    async def _schemas(self, imports: list[Object]) -> dict[str, Object]:
        """Schemas the imports refer to."""
        found = {}
        for digest in {
            each["spec"].get("schemaDigest", "") for each in imports if "openAPIV3Schema" not in each["spec"]
        }:
            stored = self._compared.schemas.get(digest)
            if stored is None and digest:
                try:
                    stored = (await self._client.get(SCHEMAS, digest))["spec"]["openAPIV3Schema"]
                except NotFound:
                    continue
                self._compared.keep(digest, stored)
            if stored is not None:
                found[digest] = stored
        return found

    # --- serving ---

    async def _serve(self, api: Api, negotiated: Object, crd: Object | None) -> Served:
        served = Served(by_itself=is_known(api), definition=crd)
        if api.group and not served.by_itself and not is_manual(crd):
            served = await self._define(api, negotiated, served)
        try:
            resources = (await self._client.read(Kind(api.group, api.version, "").prefix)).get("resources") or ()
        except NotFound:
            resources = ()
        return replace(served, listed=any(found["name"] == api.plural for found in resources))

    async def _define(self, api: Api, negotiated: Object, served: Served) -> Served:
        """Makes the CRD serve all published versions of the kind."""
        crd = served.definition
        published = [negotiated] if negotiated["spec"].get("publish") else []
        published += await self._siblings(api, crd)
        if not negotiated["spec"].get("publish") and crd is not None and api.version in served_versions(crd):
            if not published and await self._has_objects(api, negotiated):
                return replace(served, objects=True)
            if not published:
                await self._client.delete(DEFINITIONS, crd["metadata"]["name"], uid=crd["metadata"]["uid"])
                return replace(served, definition=None)
        if not published:
            return served
        new = definition(published, crd)
        if new is None:
            return served
        try:
            write = self._client.create if crd is None else self._client.update
            return replace(served, definition=await write(DEFINITIONS, new))
        except (AlreadyExists, Conflict):
            raise Later("its definition has just changed") from None
        except StatusError as error:
            if error.status_code != 422:
                raise
            return replace(served, refused=str(error))

    async def _siblings(self, api: Api, crd: Object | None) -> list[Object]:
        """Other published versions of the kind. A served version may be too new for the informer."""
        found = {api_of(each): each for each in self._negotiated.objects.values()}
        for version in served_versions(crd) if crd is not None else ():
            other = Api(api.group, version, api.plural)
            if other not in found and other != api:
                with suppress(NotFound):
                    found[other] = await self._client.get(NEGOTIATED, negotiated_name(other))
        same = [each for one, each in found.items() if one[::2] == api[::2] and one != api]
        return [each for each in same if each["spec"].get("publish")]

    async def _crd(self, api: Api) -> Object | None:
        if not api.group:
            return None
        try:
            return await self._client.get(DEFINITIONS, api.group_resource)
        except NotFound:
            return None

    async def _has_objects(self, api: Api, negotiated: Object) -> bool:
        kind = Kind(api.group, api.version, api.plural, negotiated["spec"]["scope"] == "Namespaced")
        try:
            return bool((await self._client.call("GET", self._client.path(kind), {"limit": "1"}))["items"])
        except NotFound:
            return False  # not served: no object becomes unreadable

    async def _withdraw(self, api: Api, negotiated: Object, crd: Object | None) -> None:
        if not is_manual(crd):
            # If another version is served, the objects stay readable.
            if not await self._siblings(api, crd) and await self._has_objects(api, negotiated):
                told = tell(negotiated, [], Agreement(None), Served(listed=True, objects=True, definition=crd))
                await self._tell(NEGOTIATED, negotiated, list(told.negotiated))
                raise Later("no cluster offers it any more, but there are objects of it")
            if crd is not None:
                await self._undefine(api, crd)
        with suppress(NotFound):
            metadata = negotiated["metadata"]
            await self._client.delete(NEGOTIATED, metadata["name"], uid=metadata["uid"])

    async def _undefine(self, api: Api, crd: Object) -> None:
        published = await self._siblings(api, crd)
        new = definition(published, crd) if published else None
        if new is not None:
            await self._client.update(DEFINITIONS, new)
        elif not published:
            await self._client.delete(DEFINITIONS, crd["metadata"]["name"], uid=crd["metadata"]["uid"])

    # --- conditions ---

    async def _tell_imports(self, imports: list[Object], conditions: dict[str, list[Condition]]) -> None:
        for found in imports:
            await self._tell(IMPORTS, found, conditions[found["metadata"]["name"]])

    async def _tell(self, kind: Kind, obj: Object, conditions: list[Condition]) -> None:
        now = rfc3339(self._clock.now())

        def with_them(found: Object) -> Object:
            return with_conditions(found, conditions, now) if found["metadata"]["uid"] == uid else found

        uid = obj["metadata"]["uid"]
        if with_them(obj) is not obj:
            await update_status(self._client, kind, obj["metadata"]["name"], "", with_them)


class _Memory:
    """Caches comparisons by digest: a hundred clusters with three schemas need only a few comparisons."""

    def __init__(self) -> None:
        self.schemas: dict[str, Object] = {}
        self._found: OrderedDict[tuple[str, str], Common] = OrderedDict()

    def keep(self, digest: str, schema: Object) -> None:
        self.schemas[digest] = schema
        while len(self.schemas) > KEPT:
            del self.schemas[next(iter(self.schemas))]

    def __call__(self, existing: Object, new: Object) -> Common:
        key = existing.get("schemaDigest", ""), new.get("schemaDigest", "")
        if not all(key):
            return by_schema(existing, new)
        if key[0] == key[1]:
            return Common(existing["openAPIV3Schema"])
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = by_schema(existing, new)
            while len(self._found) > REMEMBERED:
                self._found.popitem(last=False)
        return found
