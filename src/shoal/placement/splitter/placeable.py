"""Discovers the kinds of the hub that can be placed, and how each is divided.

Read from discovery, because kinds come and go as clusters are imported. Reads the API; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import NotFound
from shoal.placement.interpreter import DIVIDED, DUPLICATED, JOB, ORDINAL, Divided, ResourceInterpreter

Object = dict[str, Any]

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
REQUIRED_VERBS = {"create", "delete", "list", "update", "watch"}
UNPLACEABLE_KINDS = {
    "Pod": "it belongs to one cluster: label it workloads.kcp.dev/cluster",
    "Event": "it belongs to the cluster where it occurred",
    "Lease": "it belongs to one cluster",
}
BUILTIN_INTERPRETERS: dict[tuple[str, str], ResourceInterpreter] = {
    ("apps", "StatefulSet"): ORDINAL,
    ("batch", "Job"): JOB,
}
UNPLACEABLE_GROUPS = frozenset(
    {"placement.shoal.dev", "infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io", "core.shoal.dev"}
)


@dataclass(frozen=True)
class PlaceableKind:
    resource: GroupVersionResource
    name: str
    """`Deployment`."""
    interpreter: ResourceInterpreter
    has_status: bool

    @property
    def api_version(self) -> str:
        return f"{self.resource.group}/{self.resource.version}" if self.resource.group else self.resource.version


class KindNotPlaceable(Exception):
    """Reason and message for a Placement that names such a kind."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def discover_placeable(client: Client, kind: str, api_version: str) -> PlaceableKind:
    """Without an apiVersion, the first group that has the kind."""
    display_name = f"{kind} of {api_version}" if api_version else kind
    match: PlaceableKind | None = None
    for group_version in [api_version] if api_version else await _group_versions(client):
        match = await _find_in_group_version(client, group_version, kind)
        if match is not None:
            break
    if match is None:
        raise KindNotPlaceable(
            "KindNotServed", f"The hub does not serve {display_name}; no workload Cluster offers it yet."
        )
    if match.resource.group in UNPLACEABLE_GROUPS or (
        match.resource.group in ("", "apps", "batch") and kind in UNPLACEABLE_KINDS
    ):
        reason = UNPLACEABLE_KINDS.get(kind, "it configures the hub itself")
        raise KindNotPlaceable("KindNotPlaced", f"{display_name} cannot be placed: {reason}.")
    if not match.resource.namespaced:
        raise KindNotPlaceable("KindNotPlaced", f"{display_name} cannot be placed: it is not namespaced.")
    return match


async def _group_versions(client: Client) -> list[str]:
    groups = (await client.get_path("/apis"))["groups"]
    return ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]


async def _find_in_group_version(client: Client, group_version: str, kind: str) -> PlaceableKind | None:
    group, _, version = group_version.rpartition("/")
    try:
        resources = (await client.get_path(GroupVersionResource(group, version, "").path_prefix))["resources"]
    except NotFound:
        return None
    names = {resource["name"] for resource in resources}
    for resource in resources:
        plural = resource["name"]
        if resource["kind"] == kind and "/" not in plural and set(resource["verbs"]) >= REQUIRED_VERBS:
            gvr = GroupVersionResource(group, version, plural, bool(resource["namespaced"]))
            interpreter = await _interpreter_of(client, gvr) if f"{plural}/scale" in names else DUPLICATED
            interpreter = BUILTIN_INTERPRETERS.get((group, kind), interpreter)
            return PlaceableKind(gvr, kind, interpreter, f"{plural}/status" in names)
    return None


async def _interpreter_of(client: Client, resource: GroupVersionResource) -> ResourceInterpreter:
    """Reads where a custom kind keeps its replicas; built-in kinds all use the same path."""
    try:
        crd = await client.get(CRDS, f"{resource.resource}.{resource.group}")
    except NotFound:
        return DIVIDED
    for version in crd["spec"]["versions"]:
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == resource.version and scale:
            return Divided(scale["specReplicasPath"], scale["statusReplicasPath"])
    return DIVIDED
