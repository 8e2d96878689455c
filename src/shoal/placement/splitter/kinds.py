"""Discovers the kinds of the hub that can be placed, and how each is divided.

Read from discovery, because kinds come and go as clusters are imported. Reads the API; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.objects.errors import NotFound
from shoal.placement.shapes import BATCH, COPIED, NUMBERED, REPLICATED, Replicated, Shape

Object = dict[str, Any]

DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
NEEDED = {"create", "delete", "list", "update", "watch"}
NOT_PLACED = {
    "Pod": "it belongs to one cluster: label it workloads.kcp.dev/cluster",
    "Event": "it belongs to where it happened",
    "Lease": "it belongs to one cluster",
}
OF_THEIR_OWN: dict[tuple[str, str], Shape] = {("apps", "StatefulSet"): NUMBERED, ("batch", "Job"): BATCH}
NOT_PLACED_GROUPS = frozenset(
    {"placement.shoal.dev", "infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io", "core.shoal.dev"}
)


@dataclass(frozen=True)
class Placeable:
    kind: Kind
    name: str
    """`Deployment`."""
    shape: Shape
    has_status: bool

    @property
    def api_version(self) -> str:
        return f"{self.kind.group}/{self.kind.version}" if self.kind.group else self.kind.version


class NotPlaceable(Exception):
    """Reason and message for a Placement that names such a kind."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def placeable(client: Client, kind: str, api_version: str) -> Placeable:
    """Without an apiVersion, the first group that has the kind."""
    named = f"{kind} of {api_version}" if api_version else kind
    found: Placeable | None = None
    for group_version in [api_version] if api_version else await _group_versions(client):
        found = await _in(client, group_version, kind)
        if found is not None:
            break
    if found is None:
        raise NotPlaceable("KindNotServed", f"The hub does not serve {named}; no cluster has taught it yet.")
    if found.kind.group in NOT_PLACED_GROUPS or (found.kind.group in ("", "apps", "batch") and kind in NOT_PLACED):
        why = NOT_PLACED.get(kind, "it is about the hub itself")
        raise NotPlaceable("KindNotPlaced", f"{named} is not placed: {why}.")
    if not found.kind.namespaced:
        raise NotPlaceable("KindNotPlaced", f"{named} is not placed: it belongs to no namespace.")
    return found


async def _group_versions(client: Client) -> list[str]:
    groups = (await client.read("/apis"))["groups"]
    return ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]


async def _in(client: Client, group_version: str, kind: str) -> Placeable | None:
    group, _, version = group_version.rpartition("/")
    try:
        resources = (await client.read(Kind(group, version, "").prefix))["resources"]
    except NotFound:
        return None
    names = {resource["name"] for resource in resources}
    for resource in resources:
        plural = resource["name"]
        if resource["kind"] == kind and "/" not in plural and set(resource["verbs"]) >= NEEDED:
            place = Kind(group, version, plural, bool(resource["namespaced"]))
            shape = await _shape(client, place) if f"{plural}/scale" in names else COPIED
            shape = OF_THEIR_OWN.get((group, kind), shape)
            return Placeable(place, kind, shape, f"{plural}/status" in names)
    return None


async def _shape(client: Client, kind: Kind) -> Shape:
    """Reads where a custom kind keeps its replicas; built-in kinds all use the same path."""
    try:
        definition = await client.get(DEFINITIONS, f"{kind.plural}.{kind.group}")
    except NotFound:
        return REPLICATED
    for version in definition["spec"]["versions"]:
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == kind.version and scale:
            return Replicated(scale["specReplicasPath"], scale["statusReplicasPath"])
    return REPLICATED
