"""`shoal plan`, and `shoal explain` of placed workloads: reads the hub's state and evaluates it as the splitter
does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from shoal.client.requests import Client
from shoal.kinds import placement, workload
from shoal.objects.errors import NotFound
from shoal.placement.explain import Explanation, Verdict, explain
from shoal.placement.fleet import Change, Fleet, Name, plan
from shoal.placement.policy import selects_of
from shoal.placement.shapes import Shape
from shoal.placement.sites import site_of
from shoal.placement.splitter.controller import CLUSTERS, DEPLOYMENT, PLACEMENTS
from shoal.placement.splitter.kinds import NotPlaceable, placeable

__all__ = ["Change", "Explanation", "Verdict", "explain_object", "plan_objects"]

Object = dict[str, Any]
OWN = {
    (placement.KIND, f"{placement.GROUP}/{placement.VERSION}"),
    (workload.KIND, f"{workload.GROUP}/{workload.VERSION}"),
}


async def plan_objects(client: Client, given: Sequence[Object]) -> list[Change]:
    """Returns what applying these objects would change."""
    asked = {_title(obj) for obj in given if _title(obj) not in OWN}
    selected = {_title(one) for obj in given if _title(obj)[0] == placement.KIND for one in selects_of(obj)}
    fleet = await _fleet(client, asked, selected)
    return plan(fleet, given, time.time())


async def explain_object(client: Client, kind: str, namespace: str, name: str) -> Explanation:
    fleet = await _fleet(client, {(kind, "apps/v1" if kind == DEPLOYMENT[0] else "")}, set())
    return explain(fleet, kind, namespace, name, time.time())


async def _fleet(client: Client, asked: set[tuple[str, str]], selected: set[tuple[str, str]]) -> Fleet:
    """Kinds in `required` must be served; kinds in `optional` may be discovered later."""
    clusters, _ = await client.list_all(CLUSTERS)
    placements, _ = await client.list_all(PLACEMENTS)
    wanted = {DEPLOYMENT, *asked, *selected, *(_title(one) for each in placements for one in selects_of(each))}
    objects: dict[Name, Object] = {}
    shapes: dict[str, Shape] = {}
    for kind, api_version in sorted(wanted):
        try:
            found = await placeable(client, kind, api_version)
        except NotPlaceable as error:
            if (kind, api_version) in asked:
                raise NotFound(str(error)) from None
            continue
        shapes[kind] = found.shape
        listed, _ = await client.list_all(found.kind)
        for obj in listed:
            metadata = obj["metadata"]
            named = {**obj, "apiVersion": found.api_version, "kind": kind}
            objects[kind, metadata["namespace"], metadata["name"]] = named
    return Fleet({one["metadata"]["name"]: site_of(one) for one in clusters}, placements, objects, shapes)


def _title(obj: Object) -> tuple[str, str]:
    return obj["kind"], obj.get("apiVersion", "")
