"""Finds the desired replicas of pods' controllers: from informers if there is one, else from the scale subresource."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.objects.errors import NotFound, ShoalError
from shoal.objects.ownership import controller_of
from shoal.runtime.dependents import Dependents

Object = dict[str, Any]

REPLICA_SETS = Kind("apps", "v1", "replicasets")
DEPLOYMENTS = Kind("apps", "v1", "deployments")
_KNOWN = {
    ("", "ReplicationController"): "replicationcontrollers",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
}


class NoScale(ShoalError):
    """The expected number of pods is unknown. The message is written to the budget's status."""


class ControllerScales:
    def __init__(self, client: Client, deployments: Dependents, sets: Dependents) -> None:
        self._client, self._deployments, self._sets = client, deployments, sets

    async def of(self, key: Key, pods: list[Object]) -> dict[str, int]:
        """Returns replicas by the uid of the controller that has the scale. `key` gives the cluster and namespace of
        the pods.
        """
        scales: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            reference = controller_of(pod)
            if reference is None or reference["uid"] in seen:
                continue
            seen.add(reference["uid"])
            found = await self._find(key, reference)
            if found is None:
                raise NoScale(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            scales[found[0]] = found[1]
        return scales

    async def _find(self, key: Key, reference: Object) -> tuple[str, int] | None:
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        if (group, reference.get("kind")) != ("apps", "ReplicaSet"):
            return await self._scale(key, reference)
        owned = await self._seen(self._sets, REPLICA_SETS, key, reference)
        if owned is None:
            return None
        above = controller_of(owned)
        if above is None or above.get("kind") != "Deployment":
            return _wanted(owned)
        found = await self._seen(self._deployments, DEPLOYMENTS, key, above)
        return None if found is None else _wanted(found)

    async def _seen(self, view: Dependents, kind: Kind, key: Key, reference: Object) -> Object | None:
        """Falls back to the server: the informer may lag behind the one of pods."""
        found = view.get((key[0], key[1], reference["name"]))
        if found is None or found["metadata"]["uid"] != reference["uid"]:
            try:
                found = await self._client.at(key[0]).get(kind, reference["name"], key[1])
            except NotFound:
                return None
        return found if found["metadata"]["uid"] == reference["uid"] else None

    async def _scale(self, key: Key, reference: Object) -> tuple[str, int] | None:
        client = self._client.at(key[0])
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        plural = _KNOWN.get((group, str(reference.get("kind")))) or await _plural(client, group, version, reference)
        try:
            scale = await client.call(
                "GET", client.path(Kind(group, version, plural), reference["name"], key[1], "scale")
            )
        except NotFound:
            return None
        if scale["metadata"].get("uid") != reference["uid"]:
            return None
        return reference["uid"], int((scale.get("spec") or {}).get("replicas") or 0)


def _wanted(found: Object) -> tuple[str, int]:
    replicas = found["spec"].get("replicas")
    return found["metadata"]["uid"], 1 if replicas is None else int(replicas)


async def _plural(client: Client, group: str, version: str, reference: Object) -> str:
    """Returns the plural from discovery if the kind has a scale subresource."""
    kind = reference.get("kind")
    try:
        listed = await client.read(Kind(group, version, "").prefix)
    except NotFound:
        listed = {}
    names = {one["name"]: one for one in listed.get("resources") or ()}
    plural = next((name for name, one in names.items() if "/" not in name and one.get("kind") == kind), None)
    if plural is None:
        raise NoScale(f'no matches for kind "{kind}" in version "{reference.get("apiVersion")}"')
    if f"{plural}/scale" not in names:
        resource = f"{plural}.{group}" if group else plural
        raise NoScale(f"{resource} does not implement the scale subresource")
    return str(plural)
