"""Reconciles negotiation: imports of one API become one NegotiatedAPIResource, which the hub serves when published.

It is withdrawn when no cluster offers the API any more and no object of it is left on the hub. Until then existing
objects stay readable.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.apiextensions.customresourcedefinition import served_versions
from shoal.kinds.workload.apiresource import ENFORCED, GVR, PUBLISHED, gvr_of, is_builtin, negotiated_name
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists, Conflict, NotFound, StatusError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import update_status
from shoal.sync.conditions import SyncCondition, with_conditions
from shoal.sync.negotiation.crd import desired_crd, import_spec_from_crd
from shoal.sync.negotiation.decide import (
    SCHEMA_UNKNOWN,
    ServedState,
    is_manual,
    is_withdrawable,
    negotiation_conditions,
    new_negotiated_resource,
    offered_schemas,
    updated_negotiated_resource,
)
from shoal.sync.negotiation.lcd import NegotiatedSpec, OfferedSchema, check_against, compare_schemas, negotiate
from shoal.sync.negotiation.schemacompat import LCDSchema
from shoal.sync.resources import CRDS, IMPORTS, NEGOTIATED, SCHEMAS

Object = dict[str, Any]

MAX_COMPARISONS, MAX_SCHEMAS = 512, 128
"""Cache sizes: comparisons, and schemas."""


def by_api(key: Key, obj: Object) -> tuple[GVR]:
    """Index of imports and negotiated resources by API."""
    return (gvr_of(obj),)


def by_group_resource(key: Key, obj: Object) -> tuple[str]:
    """Index of imports and negotiated resources by the name of the CRD that all versions share."""
    return (gvr_of(obj).group_resource,)


class NegotiationReconciler:
    """Keys are APIs."""

    def __init__(self, client: Client, clock: Clock, auto_publish: bool) -> None:
        self._client, self._clock, self._auto_publish = client, clock, auto_publish
        self.controller: Controller[GVR] = Controller("negotiation", clock, self.reconcile)
        self._imports = Informer(client, IMPORTS, clock, indexers=(by_api, by_group_resource))
        self._negotiated = Informer(client, NEGOTIATED, clock, indexers=(by_group_resource,))
        for informer in (self._imports, self._negotiated):
            self.controller.watch(informer, self._on_api)
            informer.on_sync(self._enqueue_all)
        self._negotiated.add_event_handler(self._on_negotiated)
        self.controller.watch(Informer(client, CRDS, clock), self._on_crd)
        self._comparisons = _ComparisonCache()

    def _on_api(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self.controller.queue.add(gvr_of(obj))

    def _on_negotiated(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._enqueue_versions(gvr_of(old).group_resource)  # versions share a CRD

    def _on_crd(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._enqueue_versions(key[2])

    def _enqueue_versions(self, group_resource: str) -> None:
        for informer in (self._imports, self._negotiated):
            for obj in informer.by_index(by_group_resource, group_resource):
                self.controller.queue.add(gvr_of(obj))

    def _enqueue_all(self) -> None:
        for obj in (*self._imports.objects.values(), *self._negotiated.objects.values()):
            self.controller.queue.add(gvr_of(obj))

    async def reconcile(self, api: GVR) -> None:
        if not (self._imports.has_synced and self._negotiated.has_synced):
            return  # all are enqueued after the sync
        imports = self._imports.by_index(by_api, api)
        negotiated = self._negotiated.get(("", "", negotiated_name(api)))
        if negotiated is None and not imports:
            return
        crd = await self._get_crd(api)
        if negotiated is not None and is_withdrawable(negotiated, imports):
            await self._withdraw(api, negotiated, crd)
            return
        offers = offered_schemas(imports, await self._schemas(imports))
        agreement = self._negotiate(api, negotiated, offers, crd)
        negotiated = await self._write_negotiated(api, negotiated, agreement)
        if negotiated is None:
            await self._write_import_conditions(imports, {offer.name: [SCHEMA_UNKNOWN] for offer in offers})
            raise RequeueError(SCHEMA_UNKNOWN.message)
        served = await self._serve(api, negotiated, crd)
        conditions = negotiation_conditions(negotiated, offers, agreement, served)
        await self._write_conditions(NEGOTIATED, negotiated, list(conditions.negotiated))
        await self._write_import_conditions(imports, conditions.imports)
        if negotiated["spec"].get("publish") and not served.is_listed and not served.refused_reason:
            raise RequeueError("API discovery of the hub does not list it yet")
        if not all(offer.has_schema for offer in offers):
            raise RequeueError(SCHEMA_UNKNOWN.message)
        if served.has_objects:
            raise RequeueError("the API is no longer published, but it still has objects")

    # --- negotiation ---

    def _negotiate(
        self, api: GVR, negotiated: Object | None, offers: list[OfferedSchema], crd: Object | None
    ) -> NegotiatedSpec:
        if crd is not None and is_manual(crd):
            spec = import_spec_from_crd(crd, api, (negotiated or {}).get("spec") or offers[0].spec)
            if spec is not None:
                return check_against(spec, offers, self._comparisons)
        was_enforced = negotiated is None or condition_is(negotiated, ENFORCED)
        current = None if was_enforced or negotiated is None else negotiated["spec"]
        published = negotiated is not None and not was_enforced and condition_is(negotiated, PUBLISHED)
        return negotiate(current, published, offers, self._comparisons)

    async def _write_negotiated(self, api: GVR, negotiated: Object | None, agreement: NegotiatedSpec) -> Object | None:
        """Writes and returns the negotiated resource."""
        try:
            if negotiated is None:
                new = new_negotiated_resource(api, agreement, self._auto_publish)
                return await self._client.create(NEGOTIATED, new) if new is not None else None
            new = updated_negotiated_resource(negotiated, agreement)
            return await self._client.update(NEGOTIATED, new) if new is not None else negotiated
        except (AlreadyExists, Conflict):
            raise RequeueError("the NegotiatedAPIResource was changed concurrently") from None

    async def _schemas(self, imports: list[Object]) -> dict[str, Object]:
        """Schemas the imports refer to."""
        schemas = {}
        for digest in {
            each["spec"].get("schemaDigest", "") for each in imports if "openAPIV3Schema" not in each["spec"]
        }:
            schema = self._comparisons.schemas.get(digest)
            if schema is None and digest:
                try:
                    schema = (await self._client.get(SCHEMAS, digest))["spec"]["openAPIV3Schema"]
                except NotFound:
                    continue
                self._comparisons.remember_schema(digest, schema)
            if schema is not None:
                schemas[digest] = schema
        return schemas

    # --- serving ---

    async def _serve(self, api: GVR, negotiated: Object, crd: Object | None) -> ServedState:
        served = ServedState(is_builtin=is_builtin(api), crd=crd)
        if api.group and not served.is_builtin and not is_manual(crd):
            served = await self._write_crd(api, negotiated, served)
        try:
            resources = (await self._client.get_path(GroupVersionResource(api.group, api.version, "").path_prefix)).get(
                "resources"
            ) or ()
        except NotFound:
            resources = ()
        return replace(served, is_listed=any(resource["name"] == api.plural for resource in resources))

    async def _write_crd(self, api: GVR, negotiated: Object, served: ServedState) -> ServedState:
        """Makes the CRD serve all published versions of the kind."""
        crd = served.crd
        published = [negotiated] if negotiated["spec"].get("publish") else []
        published += await self._other_published_versions(api, crd)
        if not negotiated["spec"].get("publish") and crd is not None and api.version in served_versions(crd):
            if not published and await self._has_objects(api, negotiated):
                return replace(served, has_objects=True)
            if not published:
                await self._client.delete(CRDS, crd["metadata"]["name"], uid=crd["metadata"]["uid"])
                return replace(served, crd=None)
        if not published:
            return served
        new = desired_crd(published, crd)
        if new is None:
            return served
        try:
            write = self._client.create if crd is None else self._client.update
            return replace(served, crd=await write(CRDS, new))
        except (AlreadyExists, Conflict):
            raise RequeueError("the CRD was changed concurrently") from None
        except StatusError as error:
            if error.status_code != 422:
                raise
            return replace(served, refused_reason=str(error))

    async def _other_published_versions(self, api: GVR, crd: Object | None) -> list[Object]:
        """Other published versions of the kind. A served version may be too new for the informer."""
        versions = {gvr_of(each): each for each in self._negotiated.by_index(by_group_resource, api.group_resource)}
        for version in served_versions(crd) if crd is not None else ():
            other = GVR(api.group, version, api.plural)
            if other not in versions and other != api:
                with suppress(NotFound):
                    versions[other] = await self._client.get(NEGOTIATED, negotiated_name(other))
        return [each for one, each in versions.items() if one != api and each["spec"].get("publish")]

    async def _get_crd(self, api: GVR) -> Object | None:
        if not api.group:
            return None
        try:
            return await self._client.get(CRDS, api.group_resource)
        except NotFound:
            return None

    async def _has_objects(self, api: GVR, negotiated: Object) -> bool:
        gvr = GroupVersionResource(api.group, api.version, api.plural, negotiated["spec"]["scope"] == "Namespaced")
        try:
            return bool((await self._client.request("GET", self._client.resource_path(gvr), {"limit": "1"}))["items"])
        except NotFound:
            return False  # not served: no object becomes unreadable

    async def _withdraw(self, api: GVR, negotiated: Object, crd: Object | None) -> None:
        if not is_manual(crd):
            # If another version is served, the objects stay readable.
            if not await self._other_published_versions(api, crd) and await self._has_objects(api, negotiated):
                conditions = negotiation_conditions(
                    negotiated, [], NegotiatedSpec(None), ServedState(is_listed=True, has_objects=True, crd=crd)
                )
                await self._write_conditions(NEGOTIATED, negotiated, list(conditions.negotiated))
                raise RequeueError("no cluster offers the API any more, but it still has objects")
            if crd is not None:
                await self._remove_from_crd(api, crd)
        with suppress(NotFound):
            metadata = negotiated["metadata"]
            await self._client.delete(NEGOTIATED, metadata["name"], uid=metadata["uid"])

    async def _remove_from_crd(self, api: GVR, crd: Object) -> None:
        published = await self._other_published_versions(api, crd)
        new = desired_crd(published, crd) if published else None
        if new is not None:
            await self._client.update(CRDS, new)
        elif not published:
            await self._client.delete(CRDS, crd["metadata"]["name"], uid=crd["metadata"]["uid"])

    # --- conditions ---

    async def _write_import_conditions(self, imports: list[Object], conditions: dict[str, list[SyncCondition]]) -> None:
        for import_ in imports:
            await self._write_conditions(IMPORTS, import_, conditions[import_["metadata"]["name"]])

    async def _write_conditions(self, gvr: GroupVersionResource, obj: Object, conditions: list[SyncCondition]) -> None:
        now = rfc3339(self._clock.now())

        def with_them(current: Object) -> Object:
            return with_conditions(current, conditions, now) if current["metadata"]["uid"] == uid else current

        uid = obj["metadata"]["uid"]
        if with_them(obj) is not obj:
            await update_status(self._client, gvr, obj["metadata"]["name"], "", with_them)


class _ComparisonCache:
    """Caches comparisons by digest: a hundred clusters with three schemas need only a few comparisons."""

    def __init__(self) -> None:
        self.schemas: dict[str, Object] = {}
        self._results: OrderedDict[tuple[str, str], LCDSchema] = OrderedDict()

    def remember_schema(self, digest: str, schema: Object) -> None:
        self.schemas[digest] = schema
        while len(self.schemas) > MAX_SCHEMAS:
            del self.schemas[next(iter(self.schemas))]

    def __call__(self, existing: Object, new: Object) -> LCDSchema:
        key = existing.get("schemaDigest", ""), new.get("schemaDigest", "")
        if not all(key):
            return compare_schemas(existing, new)
        if key[0] == key[1]:
            return LCDSchema(existing["openAPIV3Schema"])
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = compare_schemas(existing, new)
            while len(self._results) > MAX_COMPARISONS:
                self._results.popitem(last=False)
        return result
