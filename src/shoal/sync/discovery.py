"""API discovery of a server: served resources in their preferred version."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.workload.apiresource import GVR, negotiated_name
from shoal.objects.errors import NotFound, StatusError, Unauthorized
from shoal.sync.resources import CRDS, NEGOTIATED

Object = dict[str, Any]

SUBRESOURCES = ("scale", "status")


@dataclass(frozen=True, slots=True)
class DiscoveredResource:
    api: GVR
    resource: Object
    """As in unaggregated discovery."""
    subresources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    resources: Mapping[tuple[str, str], DiscoveredResource] = field(default_factory=dict)
    """By plural and group."""
    unknown_groups: frozenset[str] = frozenset()
    """Groups whose discovery failed. Their resources are unknown, which does not mean removed."""


async def discover_resources(client: Client, groups: Collection[str] | None = None) -> DiscoveryResult:
    """Discovers some groups, or all. Each resource is listed in the first version that has it, the preferred one
    first.
    """
    discovered: dict[tuple[str, str], DiscoveredResource] = {}
    unknown_groups = set()
    for group, versions in (await _group_versions(client)).items():
        if groups is not None and group not in groups:
            continue
        for version in versions:
            try:
                resources = (await client.get_path(GroupVersionResource(group, version, "").path_prefix)).get(
                    "resources"
                ) or ()
            except Unauthorized:
                raise
            except StatusError:
                unknown_groups.add(group)
                continue
            names = {resource["name"] for resource in resources}
            for resource in resources:
                plural = resource["name"]
                if "/" not in plural and (plural, group) not in discovered:
                    subresources = tuple(name for name in SUBRESOURCES if f"{plural}/{name}" in names)
                    discovered[plural, group] = DiscoveredResource(GVR(group, version, plural), resource, subresources)
    return DiscoveryResult(discovered, frozenset(unknown_groups))


async def discover_resource(client: Client, plural: str, group: str) -> DiscoveredResource | None:
    """The resource in the server's preferred version. None: the server responds and does not list it."""
    result = await discover_resources(client, (group,))
    resource = result.resources.get((plural, group))
    if resource is None and result.unknown_groups:
        raise StatusError(f"cannot discover the API group {group or 'core'}")
    return resource


async def find_native_resource(client: Client, plural: str, group: str) -> DiscoveredResource | None:
    """A resource the hub serves without negotiation and without a CRD.

    Read from the server's current discovery: a watch may lag behind.
    """
    resource = await discover_resource(client, plural, group)
    if resource is None or await _exists(client, NEGOTIATED, negotiated_name(resource.api)):
        return None
    if group and await _exists(client, CRDS, resource.api.group_resource):
        return None
    if (plural, group) == ("pods", "") and await serves_mirrored_pods_only(client):
        return None  # mirrored pods of clusters cannot be synced to clusters
    # It may have been negotiated at the first discovery and withdrawn before the checks: discover again.
    return await discover_resource(client, plural, group)


async def serves_mirrored_pods_only(client: Client) -> bool | None:
    """Whether the hub serves Pods only to mirror those of its clusters: they are neither bound nor run. None: it serves
    no Pods.
    """
    names = {resource["name"] for resource in (await client.get_path("/api/v1")).get("resources") or ()}
    return "pods/binding" not in names if "pods" in names else None


async def _exists(client: Client, gvr: GroupVersionResource, name: str) -> bool:
    try:
        await client.get(gvr, name)
    except NotFound:
        return False
    return True


async def _group_versions(client: Client) -> dict[str, list[str]]:
    """By group, the preferred version first."""
    by_group = {"": [str(version) for version in (await client.get_path("/api"))["versions"]]}
    for group in (await client.get_path("/apis"))["groups"]:
        preferred = str((group.get("preferredVersion") or {}).get("version", ""))
        versions = [str(version["version"]) for version in group["versions"]]
        by_group[str(group["name"])] = sorted(versions, key=lambda version: version != preferred)
    return by_group
