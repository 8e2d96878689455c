"""Reads what a cluster offers of one API: discovery, then its CRD or its OpenAPI document."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client, Kind
from shoal.kinds.apiresource import Api, is_known
from shoal.objects.errors import StatusError
from shoal.sync.discovery import Found, discover
from shoal.sync.importer.decide import Offer
from shoal.sync.importer.openapi import digest_of, plain, schema_of
from shoal.sync.resources import DEFINITIONS

Object = dict[str, Any]


async def pull(client: Client, plural: str, group: str) -> Offer | None:
    """In the version the cluster prefers; None where discovery answers and does not list it."""
    found = await discover(client, plural, group)
    return await _offer(client, found) if found is not None else None


async def _offer(client: Client, found: Found) -> Offer:
    api, resource = found.api, found.resource
    schema, names, columns = await _definition(client, api)
    if schema is None:
        document = await client.read(f"/openapi/v3{Kind(api.group, api.version, '').prefix}")
        schema = schema_of(document, api.group, api.version, resource["kind"])
    return Offer(
        api=api,
        kind=resource["kind"],
        namespaced=resource["namespaced"],
        schema=schema,
        digest=digest_of(schema),
        singular=resource.get("singularName", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        subresources=found.subresources,
        columns=tuple(columns),
    )


async def _definition(client: Client, api: Api) -> tuple[Object | None, Object, list[Object]]:
    """Schema, names and printer columns of the CRD behind the API; nothing where there is none to read."""
    if not api.group or is_known(api):
        return None, {}, []
    try:
        crd = await client.get(DEFINITIONS, f"{api.plural}.{api.group}")
    except StatusError as error:
        if error.status_code not in (403, 404):
            raise
        return None, {}, []
    for version in crd["spec"]["versions"]:
        if version["name"] == api.version:
            schema = plain((version.get("schema") or {}).get("openAPIV3Schema"))
            return schema, crd["spec"]["names"], version.get("additionalPrinterColumns") or []
    return None, {}, []
