"""`shoal plan`, and `shoal explain` of placed workloads: reads the hub's state and evaluates it as the splitter
does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from shoal.client.rest import Client
from shoal.client.restmapper import preferred_versions, resource_for, server_resources
from shoal.kinds.workload import placement, workloadcluster
from shoal.kinds.workload.apiresource import GVR
from shoal.objects.errors import NotFound
from shoal.placement.cluster_info import cluster_info_of
from shoal.placement.explain import ClusterPlacement, PlacementExplanation, explain
from shoal.placement.interpreter import ResourceInterpreter
from shoal.placement.policy import kind_and_version, resource_selectors_of
from shoal.placement.snapshot import ObjectName, PlacementChange, PlacementSnapshot, plan_changes
from shoal.placement.splitter.cluster_infos import CLUSTERS, IMPORTS
from shoal.placement.splitter.controller import DEPLOYMENT
from shoal.placement.splitter.events import CLUSTER_PLACEMENTS, PLACEMENTS
from shoal.placement.splitter.placeable import KindNotPlaceable, discover_placeable

__all__ = ["ClusterPlacement", "PlacementChange", "PlacementExplanation", "explain_object", "plan_objects"]

Object = dict[str, Any]
PLACEMENT_KINDS = (placement.KIND, placement.CLUSTER_KIND)
OWN_KINDS = {
    *((kind, f"{placement.GROUP}/{placement.VERSION}") for kind in PLACEMENT_KINDS),
    (workloadcluster.KIND, f"{workloadcluster.GROUP}/{workloadcluster.VERSION}"),
}


async def plan_objects(client: Client, manifests: Sequence[Object]) -> list[PlacementChange]:
    """Returns what applying these objects would change."""
    required = {kind_and_version(obj) for obj in manifests if kind_and_version(obj) not in OWN_KINDS}
    selected = {
        kind_and_version(one)
        for obj in manifests
        if kind_and_version(obj)[0] in PLACEMENT_KINDS
        for one in resource_selectors_of(obj)
    }
    fleet = await _read_snapshot(client, required, selected)
    return plan_changes(fleet, manifests, time.time())


async def explain_object(client: Client, kind: str, namespace: str, name: str) -> PlacementExplanation:
    """`kind` as for kubectl: `Deployment`, `deploy`, `deployments.apps`."""
    resource = resource_for(preferred_versions(await server_resources(client)), kind)
    fleet = await _read_snapshot(client, {(resource.kind, resource.api_version)}, set())
    return explain(fleet, resource.kind, namespace, name, time.time())


async def _read_snapshot(
    client: Client, required: set[tuple[str, str]], optional: set[tuple[str, str]]
) -> PlacementSnapshot:
    """Kinds in `required` must be served; kinds in `optional` may be discovered later."""
    clusters, _ = await client.list_all(CLUSTERS)
    imports, _ = await client.list_all(IMPORTS)
    placements = [one for resource in (PLACEMENTS, CLUSTER_PLACEMENTS) for one in (await client.list_all(resource))[0]]
    kinds = {
        DEPLOYMENT,
        *required,
        *optional,
        *(kind_and_version(one) for each in placements for one in resource_selectors_of(each)),
    }
    objects: dict[ObjectName, Object] = {}
    shapes: dict[str, ResourceInterpreter] = {}
    apis: dict[str, GVR] = {}
    cluster_scoped = set()
    for kind, api_version in sorted(kinds):
        try:
            resource = await discover_placeable(client, kind, api_version, namespaced=None)
        except KindNotPlaceable as error:
            if (kind, api_version) in required:
                raise NotFound(str(error)) from None
            continue
        shapes[kind], apis[kind] = resource.interpreter, resource.api
        if not resource.resource.namespaced:
            cluster_scoped.add(kind)
        listed, _ = await client.list_all(resource.resource)
        for obj in listed:
            metadata = obj["metadata"]
            typed = {**obj, "apiVersion": resource.api_version, "kind": kind}
            objects[kind, metadata.get("namespace", ""), metadata["name"]] = typed
    imports_by_location: dict[str, list[Object]] = {}
    for one in imports:
        imports_by_location.setdefault(one["spec"]["location"], []).append(one)
    infos = [cluster_info_of(one, imports_by_location.get(one["metadata"]["name"], ())) for one in clusters]
    return PlacementSnapshot(
        {info.name: info for info in infos}, placements, objects, shapes, apis, frozenset(cluster_scoped)
    )
