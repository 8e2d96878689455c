"""Finds a resource in what a server says it serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.kinds.apiresource import Api, negotiated_name
from shoal.objects.errors import NotFound
from shoal.sync.resources import DEFINITIONS, NEGOTIATED

Object = dict[str, Any]

SUBRESOURCES = ("scale", "status")


@dataclass(frozen=True, slots=True)
class Found:
    api: Api
    resource: Object
    """As plain discovery lists it."""
    subresources: tuple[str, ...]


async def discover(client: Client, plural: str, group: str) -> Found | None:
    """In the version the server prefers; None where it answers and does not list it."""
    for version in await _versions(client, group):
        resources = (await client.read(Kind(group, version, "").prefix)).get("resources") or ()
        names = {resource["name"] for resource in resources}
        for resource in resources:
            if resource["name"] == plural:
                has = tuple(name for name in SUBRESOURCES if f"{plural}/{name}" in names)
                return Found(Api(group, version, plural), resource, has)
    return None


async def native(client: Client, plural: str, group: str) -> Found | None:
    """A resource the hub serves without having learned it, and without a CRD.

    Asked of the server, for what it serves now: a watch may be behind it.
    """
    found = await discover(client, plural, group)
    if found is None or await _exists(client, NEGOTIATED, negotiated_name(found.api)):
        return None
    if group and await _exists(client, DEFINITIONS, found.api.group_resource):
        return None
    # Learned when the first look was taken, and withdrawn before the second?
    return await discover(client, plural, group)


async def _exists(client: Client, kind: Kind, name: str) -> bool:
    try:
        await client.get(kind, name)
    except NotFound:
        return False
    return True


async def _versions(client: Client, group: str) -> list[str]:
    if not group:
        return list((await client.read("/api"))["versions"])
    try:
        found = await client.read(f"/apis/{group}")
    except NotFound as error:
        if error.kind:
            raise  # not the group is unknown but the cluster, or whatever stands before it
        return []
    preferred = str((found.get("preferredVersion") or {}).get("version", ""))
    versions = [str(version["version"]) for version in found["versions"]]
    return sorted(versions, key=lambda version: version != preferred)
