"""Reads the requested APIs of a cluster: discovery, then CRDs and OpenAPI documents.

Parts that do not respond are reported as unknown, and nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.apiextensions.openapi_import import (
    PRESERVED_OBJECT,
    SchemaError,
    Schemas,
    schema_digest,
    schema_of,
    schemas_of,
    strip_descriptions,
)
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR, is_builtin
from shoal.objects.errors import Forbidden, NotAcceptable, NotFound, StatusError, Unauthorized
from shoal.objects.schema import MAX_DEPTH, schema_depth
from shoal.sync.discovery import DiscoveredResource, discover_resources
from shoal.sync.importer.decide import Offer
from shoal.sync.resources import CRDS

Object = dict[str, Any]
ResourcePattern = tuple[str, str]
"""Plural and group; `*` matches all."""

MAX_SCHEMA_BYTES = 1_000_000
"""Limit of a schema, which must be stored as an object."""
MAX_MESSAGE = 2000
"""Limit of a message."""
REQUIRED_VERBS = {"create", "delete", "get", "list", "patch", "watch"}
"""Verbs a resource must have to match `*`: others are not stored by their server, or are read-only."""


@dataclass(frozen=True, slots=True)
class DiscoveredAPIs:
    offers: tuple[Offer, ...]
    missing: tuple[str, ...] = ()
    """Requested by name and not offered."""
    unknown_groups: frozenset[str] = frozenset()
    """Groups whose discovery failed."""
    unreadable: tuple[tuple[ResourcePattern, str], ...] = ()
    """Offered, but the schema could not be read, with the reason."""

    def is_unknown(self, api: GVR) -> bool:
        return api.group in self.unknown_groups or any(one == (api.plural, api.group) for one, _ in self.unreadable)

    def without(self, excluded: set[ResourcePattern]) -> DiscoveredAPIs:
        remaining = tuple(offer for offer in self.offers if (offer.api.plural, offer.api.group) not in excluded)
        return replace(self, offers=remaining)

    @property
    def message(self) -> str:
        parts = [f"not offered: {', '.join(self.missing)}"] if self.missing else []
        parts += (
            [f"API groups that do not answer: {', '.join(sorted(self.unknown_groups))}"] if self.unknown_groups else []
        )
        parts += [f"{group_resource(*name)}: {reason}" for name, reason in self.unreadable]
        return truncate("; ".join(parts))


def truncate(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def group_resource(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def needs_crd_watch(patterns: Iterable[ResourcePattern]) -> bool:
    """Whether CRDs must be watched: built-in kinds do not depend on them."""
    return any("*" in pattern or not _is_builtin(pattern) for pattern in patterns)


async def discover_apis(
    client: Client, patterns: Sequence[ResourcePattern], excluded: set[ResourcePattern]
) -> DiscoveredAPIs:
    """In the cluster's preferred versions. `excluded`: resources the hub serves natively."""
    everything = ("*", "*") in patterns
    discovered = await discover_resources(client, None if everything else {group for _, group in patterns})
    documents = _OpenAPIDocuments(client)
    offers, unreadable = [], []
    for name, resource in discovered.resources.items():
        if name in excluded or not _is_wanted(name, resource, patterns):
            continue
        try:
            offers.append(await _read_offer(client, resource, documents))
        except SchemaError as error:
            unreadable.append((name, str(error)))
    missing = [
        group_resource(*name)
        for name in patterns
        if "*" not in name
        and name not in discovered.resources
        and name not in excluded
        and name[1] not in discovered.unknown_groups
    ]
    return DiscoveredAPIs(tuple(offers), tuple(missing), discovered.unknown_groups, tuple(unreadable))


def _is_wanted(name: ResourcePattern, resource: DiscoveredResource, patterns: Sequence[ResourcePattern]) -> bool:
    if name in patterns:
        return True
    if ("*", "*") not in patterns and ("*", name[1]) not in patterns:
        return False
    return set(resource.resource.get("verbs") or ()) >= REQUIRED_VERBS and workloadcluster.is_syncable(*name)


def _is_builtin(name: ResourcePattern) -> bool:
    return any(is_builtin(GVR(name[1], version, name[0])) for version in ("v1", "v2", "v1beta1"))


async def _read_offer(client: Client, discovered: DiscoveredResource, documents: _OpenAPIDocuments) -> Offer:
    api, resource = discovered.api, discovered.resource
    crd, version = await _get_crd_version(client, api)
    schema: Object
    if version is not None:
        schema = _schema_from_crd(crd, version)
        declared = sorted((version.get("subresources") or {}).items())
        subresources = tuple({"name": name, **options} for name, options in declared)
    else:
        schema = schema_of(await documents.schemas_for(api), api.group, api.version, resource["kind"])
        subresources = tuple({"name": name} for name in discovered.subresources)
    if schema_depth(schema) > MAX_DEPTH:
        raise SchemaError("its schema is nested too deeply")
    if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"its schema has more than {MAX_SCHEMA_BYTES:,} bytes")
    return Offer(
        api=api,
        kind=resource["kind"],
        namespaced=resource["namespaced"],
        schema=schema,
        digest=schema_digest(schema),
        singular=resource.get("singularName", ""),
        list_kind=(crd.get("names") or {}).get("listKind", ""),
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        subresources=subresources,
        columns=tuple((version or {}).get("additionalPrinterColumns") or ()),
    )


async def _get_crd_version(client: Client, api: GVR) -> tuple[Object, Object | None]:
    """The spec of the API's CRD and its version; empty if there is none to read."""
    if not api.group or is_builtin(api):
        return {}, None
    try:
        spec: Object = (await client.get(CRDS, f"{api.plural}.{api.group}"))["spec"]
    except (NotFound, Forbidden):
        return {}, None
    return spec, next((one for one in spec["versions"] if one["name"] == api.version), None)


def _schema_from_crd(crd: Object, version: Object) -> Object:
    """A CRD that preserves unknown fields, or has no schema, accepts any object."""
    schema = strip_descriptions((version.get("schema") or {}).get("openAPIV3Schema"))
    if not schema or crd.get("preserveUnknownFields") or schema.get("type") != "object":
        return {**PRESERVED_OBJECT}
    result: Object = schema
    return result


class _OpenAPIDocuments:
    """OpenAPI documents of one cluster, each read once: v3 by group and version, else v2."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._cache: dict[str, Schemas] = {}

    async def schemas_for(self, api: GVR) -> Schemas:
        path = f"/openapi/v3{GroupVersionResource(api.group, api.version, '').path_prefix}"
        schemas = await self._read(path)
        return schemas or await self._read("/openapi/v2")

    async def _read(self, path: str) -> Schemas:
        if path not in self._cache:
            try:
                self._cache[path] = schemas_of(await self._client.get_path(path))
            except (NotFound, NotAcceptable):
                self._cache[path] = {}
            except Unauthorized:
                raise
            except StatusError as error:
                raise SchemaError(f"{path}: {error}") from None
        return self._cache[path]
