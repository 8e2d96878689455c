"""Every object there is: of every kind that is served, in every logical cluster of every store of a fleet."""

from __future__ import annotations

import time
from typing import Any

from tests.story.api import Api, eventually
from tests.story.fleets import HUB, WORKERS, Fleet

Object = dict[str, Any]
Place = tuple[str, str, str, str, str]
"""Whose store, logical cluster, resource, namespace and name."""

REST_SECONDS = 0.7
HEARTBEATS = "coordination.k8s.io/v1/leases"
SUPERVISOR = "supervisor-"
"""A hub that starts writes such a Lease for itself, some moment after it is ready."""
PASSING = {"/api/v1/events", "/apis/events.k8s.io/v1/events"}
"""They go by themselves, an hour later."""


class Inventory:
    """What there is before a story. After it there is the same, and nothing else."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._served = self._paths = listable(fleet.api())
        self._before = everything(fleet, self._paths).keys()

    def learn(self, *apis: Api) -> None:
        """That there are more kinds by now."""
        self._paths = self._paths.union(*map(listable, apis))

    def nothing_is_left(self) -> None:
        eventually(lambda: not self._difference(), lambda: f"left, or missing: {self._difference()}")

    def _difference(self) -> set[object]:
        changed = everything(self._fleet, self._paths).keys() ^ self._before
        left = {place for place in changed if not (place[2] == HEARTBEATS and place[4].startswith(SUPERVISOR))}
        return {*left, *(listable(self._fleet.api()) ^ self._served)}

    def comes_to_rest(self) -> None:
        """Nothing is written any more but heartbeats: a loop that writes without need would never let it."""
        changed: list[Place] = []

        def rests() -> bool:
            before, revisions = everything(self._fleet, self._paths), _revisions(self._fleet)
            time.sleep(REST_SECONDS)
            after, moved = everything(self._fleet, self._paths), _revisions(self._fleet)
            changed[:] = [place for place in before.keys() | after.keys() if before.get(place) != after.get(place)]
            beats = [place for place in changed if place[2] == HEARTBEATS]
            return len(changed) == len(beats) and (self._fleet.on_etcd or moved - revisions <= len(beats))

        eventually(rests, lambda: f"still written: {changed}")


def listable(api: Api) -> set[str]:
    """The paths of the collections of one cluster, in the version that is preferred."""
    groups = api.request("GET", "/apis")["groups"]
    versions = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return {
        f"{path}/{each['name']}"
        for path in versions
        for each in api.request("GET", path)["resources"]
        if "list" in each["verbs"] and "/" not in each["name"]
    }


def everything(fleet: Fleet, paths: set[str]) -> dict[Place, str]:
    """The resourceVersions by place, Events aside. Whoever administers a root sees all clusters of its store."""
    found = {}
    for owner in (HUB, *WORKERS):
        for path in paths - PASSING:
            for obj in fleet.api(owner).items(f"/clusters/*{path}"):
                metadata = obj["metadata"]
                cluster, name = metadata["annotations"]["shoal.dev/cluster"], metadata["name"]
                place = owner, cluster, path.removeprefix("/apis/"), metadata.get("namespace", ""), name
                found[place] = metadata["resourceVersion"]
    return found


def _revisions(fleet: Fleet) -> int:
    """Of all stores; an object that came and went has moved it."""
    lists = [fleet.api(owner).request("GET", "/api/v1/namespaces") for owner in (HUB, *WORKERS)]
    return sum(int(found["metadata"]["resourceVersion"]) for found in lists)
