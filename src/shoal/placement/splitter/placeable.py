"""Discovers the kinds of the hub that can be placed, and how each is divided.

Read from discovery, because kinds come and go as clusters are imported. Reads the API; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR
from shoal.objects.errors import NotFound
from shoal.placement.interpreter import DIVIDED, DUPLICATED, JOB, ORDINAL, Divided, ResourceInterpreter

Object = dict[str, Any]

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
REQUIRED_VERBS = {"create", "delete", "list", "update", "watch"}
UNPLACEABLE_KINDS = {
    "Pod": "it belongs to one cluster: label it workloads.kcp.dev/cluster",
    "Event": "it belongs to the cluster where it occurred",
    "Lease": "it belongs to one cluster",
    "ControllerRevision": "it is the history of its owner",
}
BUILTIN_INTERPRETERS: dict[tuple[str, str], ResourceInterpreter] = {
    ("apps", "StatefulSet"): ORDINAL,
    ("batch", "Job"): JOB,
}
RBAC_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class PlaceableKind:
    resource: GroupVersionResource
    name: str
    """`Deployment`."""
    interpreter: ResourceInterpreter
    has_status: bool

    @property
    def api_version(self) -> str:
        return self.api.group_version

    @property
    def api(self) -> GVR:
        return GVR(self.resource.group, self.resource.version, self.resource.resource)


class KindNotPlaceable(Exception):
    """Reason and message for a Placement that names such a kind."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def discover_placeable(
    client: Client, kind: str, api_version: str, *, namespaced: bool | None = True
) -> PlaceableKind:
    """Without an apiVersion, the first group that has the kind. `namespaced`: which kinds may be placed: namespaced
    ones by a Placement, others by a ClusterPlacement; None: both.
    """
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
    reason = _refusal_of(match, namespaced)
    if reason:
        raise KindNotPlaceable("KindNotPlaced", f"{display_name} cannot be placed: {reason}.")
    return match


def _refusal_of(kind: PlaceableKind, namespaced: bool | None) -> str:
    """Empty: it can be placed."""
    resource = kind.resource
    if resource.group == RBAC_GROUP:
        return "its leaves would grant rights on the hub; label it workloads.kcp.dev/cluster"
    if (
        resource.group in ("", "apps", "batch", "coordination.k8s.io", "events.k8s.io")
        and kind.name in UNPLACEABLE_KINDS
    ):
        return UNPLACEABLE_KINDS[kind.name]
    if not workloadcluster.is_syncable(resource.resource, resource.group):
        return "it configures the hub itself"
    if namespaced is True and not resource.namespaced:
        return "it is not namespaced; a ClusterPlacement can place it"
    if namespaced is False and resource.namespaced:
        return "it is namespaced; a Placement in its namespace can place it"
    return ""


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
        if (group, plural) == ("apps", "replicasets") and f"{plural}/scale" not in names:
            continue  # the hub serves them only as revisions of Deployments
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
