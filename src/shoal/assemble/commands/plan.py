"""`shoal plan`, and `shoal explain` of placed workloads: reads the hub's state and evaluates it as the splitter
does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from shoal.client.rest import Client
from shoal.kinds.workload import placement, workloadcluster
from shoal.objects.errors import NotFound
from shoal.placement.cluster_info import cluster_info_of
from shoal.placement.explain import ClusterPlacement, PlacementExplanation, explain
from shoal.placement.interpreter import ResourceInterpreter
from shoal.placement.policy import resource_selectors_of
from shoal.placement.snapshot import ObjectName, PlacementChange, PlacementSnapshot, plan_changes
from shoal.placement.splitter.controller import CLUSTERS, DEPLOYMENT, PLACEMENTS
from shoal.placement.splitter.placeable import KindNotPlaceable, discover_placeable

__all__ = ["ClusterPlacement", "PlacementChange", "PlacementExplanation", "explain_object", "plan_objects"]

Object = dict[str, Any]
OWN_KINDS = {
    (placement.KIND, f"{placement.GROUP}/{placement.VERSION}"),
    (workloadcluster.KIND, f"{workloadcluster.GROUP}/{workloadcluster.VERSION}"),
}


async def plan_objects(client: Client, manifests: Sequence[Object]) -> list[PlacementChange]:
    """Returns what applying these objects would change."""
    required = {_kind_and_version(obj) for obj in manifests if _kind_and_version(obj) not in OWN_KINDS}
    selected = {
        _kind_and_version(one)
        for obj in manifests
        if _kind_and_version(obj)[0] == placement.KIND
        for one in resource_selectors_of(obj)
    }
    fleet = await _read_snapshot(client, required, selected)
    return plan_changes(fleet, manifests, time.time())


async def explain_object(client: Client, kind: str, namespace: str, name: str) -> PlacementExplanation:
    fleet = await _read_snapshot(client, {(kind, "apps/v1" if kind == DEPLOYMENT[0] else "")}, set())
    return explain(fleet, kind, namespace, name, time.time())


async def _read_snapshot(
    client: Client, required: set[tuple[str, str]], optional: set[tuple[str, str]]
) -> PlacementSnapshot:
    """Kinds in `required` must be served; kinds in `optional` may be discovered later."""
    clusters, _ = await client.list_all(CLUSTERS)
    placements, _ = await client.list_all(PLACEMENTS)
    kinds = {
        DEPLOYMENT,
        *required,
        *optional,
        *(_kind_and_version(one) for each in placements for one in resource_selectors_of(each)),
    }
    objects: dict[ObjectName, Object] = {}
    shapes: dict[str, ResourceInterpreter] = {}
    for kind, api_version in sorted(kinds):
        try:
            resource = await discover_placeable(client, kind, api_version)
        except KindNotPlaceable as error:
            if (kind, api_version) in required:
                raise NotFound(str(error)) from None
            continue
        shapes[kind] = resource.interpreter
        listed, _ = await client.list_all(resource.resource)
        for obj in listed:
            metadata = obj["metadata"]
            typed = {**obj, "apiVersion": resource.api_version, "kind": kind}
            objects[kind, metadata["namespace"], metadata["name"]] = typed
    return PlacementSnapshot(
        {one["metadata"]["name"]: cluster_info_of(one) for one in clusters}, placements, objects, shapes
    )


def _kind_and_version(obj: Object) -> tuple[str, str]:
    return obj["kind"], obj.get("apiVersion", "")
