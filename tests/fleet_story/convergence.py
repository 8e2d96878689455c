"""What has not converged yet at a hub and all its workers: every ManagedCluster on exactly one worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.story.api import Api
from tests.story.story import MANAGED, phase

Object = dict[str, Any]

LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"


def unsettled(hub: Api, own: Mapping[str, Api], names: set[str]) -> set[object]:
    """Empty: these and no others run, each as it was last changed, hosted by the worker it is given to and by nobody
    else. `own` are the workers' own roots."""
    there = {obj["metadata"]["name"]: obj for obj in hub.items(MANAGED)}
    if there.keys() != names:
        return {("there or not", name) for name in there.keys() ^ names}
    late: set[object] = {
        (phase(obj), name) for name, obj in there.items() if phase(obj) != "Running" or not answered(obj)
    }
    if late:
        return late
    where = {(obj["status"]["assignedWorker"], name) for name, obj in there.items()}
    copies = {
        (worker, obj["metadata"]["name"]): obj["spec"] for worker, root in own.items() for obj in root.items(MANAGED)
    }
    old = {("old", name) for (_, name), spec in copies.items() if name in there and spec != there[name]["spec"]}
    return {*(copies.keys() ^ where), *(hosted(own) ^ where), *old}


def hosted(own: Mapping[str, Api]) -> set[tuple[str, str]]:
    """Worker and ManagedCluster, by the LogicalClusters there are."""
    return {
        (worker, obj["metadata"]["name"].removeprefix("default."))
        for worker, root in own.items()
        for obj in root.items(LOGICAL)
        if obj["metadata"]["name"] != "root"
    }


def answered(obj: Object) -> bool:
    return bool(obj["status"].get("observedGeneration") == obj["metadata"]["generation"])
