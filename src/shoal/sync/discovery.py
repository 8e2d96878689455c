"""What a server says it serves, and in which version it prefers it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.kinds.apiresource import Api, negotiated_name
from shoal.objects.errors import NotFound, StatusError, Unauthorized
from shoal.sync.resources import DEFINITIONS, NEGOTIATED

Object = dict[str, Any]

SUBRESOURCES = ("scale", "status")


@dataclass(frozen=True, slots=True)
class Found:
    api: Api
    resource: Object
    """As plain discovery lists it."""
    subresources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    found: Mapping[tuple[str, str], Found] = field(default_factory=dict)
    """By plural and group."""
    unknown: frozenset[str] = frozenset()
    """Groups that are there and did not answer: what they serve is not known, and so not gone."""


async def listing(client: Client, groups: Collection[str] | None = None) -> Listing:
    """Of some groups, or of all: each resource in the first version that has it, the preferred one first."""
    found: dict[tuple[str, str], Found] = {}
    unknown = set()
    for group, versions in (await _versions(client)).items():
        if groups is not None and group not in groups:
            continue
        for version in versions:
            try:
                resources = (await client.read(Kind(group, version, "").prefix)).get("resources") or ()
            except Unauthorized:
                raise
            except StatusError:
                unknown.add(group)
                continue
            names = {resource["name"] for resource in resources}
            for resource in resources:
                plural = resource["name"]
                if "/" not in plural and (plural, group) not in found:
                    has = tuple(name for name in SUBRESOURCES if f"{plural}/{name}" in names)
                    found[plural, group] = Found(Api(group, version, plural), resource, has)
    return Listing(found, frozenset(unknown))


async def discover(client: Client, plural: str, group: str) -> Found | None:
    """In the version the server prefers; None where it answers and does not list it."""
    listed = await listing(client, (group,))
    found = listed.found.get((plural, group))
    if found is None and listed.unknown:
        raise StatusError(f"what is in the group {group or 'core'} is not known now")
    return found


async def native(client: Client, plural: str, group: str) -> Found | None:
    """A resource the hub serves without having learned it, and without a CRD.

    Asked of the server, for what it serves now: a watch may be behind it.
    """
    found = await discover(client, plural, group)
    if found is None or await _exists(client, NEGOTIATED, negotiated_name(found.api)):
        return None
    if group and await _exists(client, DEFINITIONS, found.api.group_resource):
        return None
    if (plural, group) == ("pods", "") and await shows_pods(client):
        return None  # what clusters have is not what can be copied to them
    # Learned when the first look was taken, and withdrawn before the second?
    return await discover(client, plural, group)


async def shows_pods(client: Client) -> bool | None:
    """Whether the hub serves Pods only to show those of its clusters: nobody binds or runs them. None: none at all."""
    names = {resource["name"] for resource in (await client.read("/api/v1")).get("resources") or ()}
    return "pods/binding" not in names if "pods" in names else None


async def _exists(client: Client, kind: Kind, name: str) -> bool:
    try:
        await client.get(kind, name)
    except NotFound:
        return False
    return True


async def _versions(client: Client) -> dict[str, list[str]]:
    """Of every group, the preferred one first."""
    found = {"": [str(version) for version in (await client.read("/api"))["versions"]]}
    for group in (await client.read("/apis"))["groups"]:
        preferred = str((group.get("preferredVersion") or {}).get("version", ""))
        versions = [str(version["version"]) for version in group["versions"]]
        found[str(group["name"])] = sorted(versions, key=lambda version: version != preferred)
    return found
