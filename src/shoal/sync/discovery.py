"""API discovery of a server: served resources in their preferred version."""

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
    """As in unaggregated discovery."""
    subresources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    found: Mapping[tuple[str, str], Found] = field(default_factory=dict)
    """By plural and group."""
    unknown: frozenset[str] = frozenset()
    """Groups whose discovery failed. Their resources are unknown, which does not mean removed."""


async def listing(client: Client, groups: Collection[str] | None = None) -> Listing:
    """Discovers some groups, or all. Each resource is listed in the first version that has it, the preferred one
    first.
    """
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
    """The resource in the server's preferred version. None: the server responds and does not list it."""
    listed = await listing(client, (group,))
    found = listed.found.get((plural, group))
    if found is None and listed.unknown:
        raise StatusError(f"what is in the group {group or 'core'} is not known now")
    return found


async def native(client: Client, plural: str, group: str) -> Found | None:
    """A resource the hub serves without negotiation and without a CRD.

    Read from the server's current discovery: a watch may lag behind.
    """
    found = await discover(client, plural, group)
    if found is None or await _exists(client, NEGOTIATED, negotiated_name(found.api)):
        return None
    if group and await _exists(client, DEFINITIONS, found.api.group_resource):
        return None
    if (plural, group) == ("pods", "") and await shows_pods(client):
        return None  # mirrored pods of clusters cannot be synced to clusters
    # It may have been negotiated at the first discovery and withdrawn before the checks: discover again.
    return await discover(client, plural, group)


async def shows_pods(client: Client) -> bool | None:
    """Whether the hub serves Pods only to mirror those of its clusters: they are neither bound nor run. None: it serves
    no Pods.
    """
    names = {resource["name"] for resource in (await client.read("/api/v1")).get("resources") or ()}
    return "pods/binding" not in names if "pods" in names else None


async def _exists(client: Client, kind: Kind, name: str) -> bool:
    try:
        await client.get(kind, name)
    except NotFound:
        return False
    return True


async def _versions(client: Client) -> dict[str, list[str]]:
    """By group, the preferred version first."""
    found = {"": [str(version) for version in (await client.read("/api"))["versions"]]}
    for group in (await client.read("/apis"))["groups"]:
        preferred = str((group.get("preferredVersion") or {}).get("version", ""))
        versions = [str(version["version"]) for version in group["versions"]]
        found[str(group["name"])] = sorted(versions, key=lambda version: version != preferred)
    return found
