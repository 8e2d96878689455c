"""Reads the requested APIs of a cluster: discovery, then CRDs and OpenAPI documents.

Parts that do not respond are reported as unknown, and nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from shoal.client.requests import Client, Kind
from shoal.kinds import workload
from shoal.kinds.apiresource import Api, is_known
from shoal.kinds.apischema import PRESERVE, SchemaError, Schemas, digest_of, plain, schema_of, schemas_of
from shoal.objects.errors import Forbidden, NotAcceptable, NotFound, StatusError, Unauthorized
from shoal.objects.schema import MAX_DEPTH, depth_of
from shoal.sync.discovery import Found, listing
from shoal.sync.importer.decide import Offer
from shoal.sync.resources import DEFINITIONS

Object = dict[str, Any]
Wanted = tuple[str, str]
"""Plural and group; `*` matches all."""

MOST_BYTES = 1_000_000
"""Limit of a schema, which must be stored as an object."""
LONGEST = 2000
"""Limit of a message."""
NEEDED = {"create", "delete", "get", "list", "patch", "watch"}
"""Verbs a resource must have to match `*`: others are not stored by their server, or are read-only."""


@dataclass(frozen=True, slots=True)
class Pulled:
    offers: tuple[Offer, ...]
    missing: tuple[str, ...] = ()
    """Requested by name and not offered."""
    groups: frozenset[str] = frozenset()
    """Groups whose discovery failed."""
    unread: tuple[tuple[Wanted, str], ...] = ()
    """Offered, but the schema could not be read, with the reason."""

    def is_unknown(self, api: Api) -> bool:
        return api.group in self.groups or any(one == (api.plural, api.group) for one, _ in self.unread)

    def without(self, skipped: set[Wanted]) -> Pulled:
        kept = tuple(offer for offer in self.offers if (offer.api.plural, offer.api.group) not in skipped)
        return replace(self, offers=kept)

    @property
    def message(self) -> str:
        said = [f"not offered: {', '.join(self.missing)}"] if self.missing else []
        said += [f"does not answer: {', '.join(sorted(self.groups))}"] if self.groups else []
        said += [f"{title(*one)}: {why}" for one, why in self.unread]
        return shortened("; ".join(said))


def shortened(message: str) -> str:
    return message if len(message) <= LONGEST else message[:LONGEST] + "…"


def title(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def watches_definitions(wanted: Iterable[Wanted]) -> bool:
    """Whether CRDs must be watched: built-in kinds do not depend on them."""
    return any("*" in one or not _is_builtin(one) for one in wanted)


async def pull(client: Client, wanted: Sequence[Wanted], skipped: set[Wanted]) -> Pulled:
    """In the cluster's preferred versions. `excluded`: resources the hub serves natively."""
    everything = ("*", "*") in wanted
    listed = await listing(client, None if everything else {group for _, group in wanted})
    documents = _Documents(client)
    offers, unread = [], []
    for one, found in listed.found.items():
        if one in skipped or not _is_wanted(one, found, wanted):
            continue
        try:
            offers.append(await _offer(client, found, documents))
        except SchemaError as error:
            unread.append((one, str(error)))
    missing = [
        title(*one)
        for one in wanted
        if "*" not in one and one not in listed.found and one not in skipped and one[1] not in listed.unknown
    ]
    return Pulled(tuple(offers), tuple(missing), listed.unknown, tuple(unread))


def _is_wanted(one: Wanted, found: Found, wanted: Sequence[Wanted]) -> bool:
    if one in wanted:
        return True
    if ("*", "*") not in wanted and ("*", one[1]) not in wanted:
        return False
    return set(found.resource.get("verbs") or ()) >= NEEDED and workload.may_travel(*one)


def _is_builtin(one: Wanted) -> bool:
    return any(is_known(Api(one[1], version, one[0])) for version in ("v1", "v2", "v1beta1"))


async def _offer(client: Client, found: Found, documents: _Documents) -> Offer:
    api, resource = found.api, found.resource
    crd, version = await _definition(client, api)
    schema: Object
    if version is not None:
        schema = _of_definition(crd, version)
        given = sorted((version.get("subresources") or {}).items())
        subresources = tuple({"name": name, **said} for name, said in given)
    else:
        schema = schema_of(await documents.of(api), api.group, api.version, resource["kind"])
        subresources = tuple({"name": name} for name in found.subresources)
    if depth_of(schema) > MAX_DEPTH:
        raise SchemaError("its schema is nested too deeply")
    if len(orjson.dumps(schema)) > MOST_BYTES:
        raise SchemaError(f"its schema has more than {MOST_BYTES:,} bytes")
    return Offer(
        api=api,
        kind=resource["kind"],
        namespaced=resource["namespaced"],
        schema=schema,
        digest=digest_of(schema),
        singular=resource.get("singularName", ""),
        list_kind=(crd.get("names") or {}).get("listKind", ""),
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        subresources=subresources,
        columns=tuple((version or {}).get("additionalPrinterColumns") or ()),
    )


async def _definition(client: Client, api: Api) -> tuple[Object, Object | None]:
    """The spec of the API's CRD and its version; empty if there is none to read."""
    if not api.group or is_known(api):
        return {}, None
    try:
        spec: Object = (await client.get(DEFINITIONS, f"{api.plural}.{api.group}"))["spec"]
    except (NotFound, Forbidden):
        return {}, None
    return spec, next((one for one in spec["versions"] if one["name"] == api.version), None)


def _of_definition(crd: Object, version: Object) -> Object:
    """A CRD that preserves unknown fields, or has no schema, accepts any object."""
    schema = plain((version.get("schema") or {}).get("openAPIV3Schema"))
    if not schema or crd.get("preserveUnknownFields") or schema.get("type") != "object":
        return {**PRESERVE}
    found: Object = schema
    return found


class _Documents:
    """OpenAPI documents of one cluster, each read once: v3 by group and version, else v2."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, Schemas] = {}

    async def of(self, api: Api) -> Schemas:
        path = f"/openapi/v3{Kind(api.group, api.version, '').prefix}"
        found = await self._read(path)
        return found or await self._read("/openapi/v2")

    async def _read(self, path: str) -> Schemas:
        if path not in self._known:
            try:
                self._known[path] = schemas_of(await self._client.read(path))
            except (NotFound, NotAcceptable):
                self._known[path] = {}
            except Unauthorized:
                raise
            except StatusError as error:
                raise SchemaError(f"{path}: {error}") from None
        return self._known[path]
