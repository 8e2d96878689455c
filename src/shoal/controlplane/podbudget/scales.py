"""Finds the desired replicas of pods' controllers: from informers if there is one, else from the scale subresource."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import NotFound, ShoalError
from shoal.objects.ownership import controller_of
from shoal.runtime.informer import Informer

Object = dict[str, Any]

REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
_SCALABLE_PLURALS = {
    ("", "ReplicationController"): "replicationcontrollers",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
}


class ScaleUnknown(ShoalError):
    """The expected number of pods is unknown. The message is written to the budget's status."""


class ControllerScaleFinder:
    def __init__(self, client: Client, deployments: Informer, replica_sets: Informer) -> None:
        self._client, self._deployments, self._sets = client, deployments, replica_sets

    async def for_pods(self, key: Key, pods: list[Object]) -> dict[str, int]:
        """Returns replicas by the uid of the controller that has the scale. `key` gives the cluster and namespace of
        the pods.
        """
        scales: dict[str, int] = {}
        uids: set[str] = set()
        for pod in pods:
            reference = controller_of(pod)
            if reference is None or reference["uid"] in uids:
                continue
            uids.add(reference["uid"])
            scale = await self._find_scale(key, reference)
            if scale is None:
                raise ScaleUnknown(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            scales[scale[0]] = scale[1]
        return scales

    async def _find_scale(self, key: Key, reference: Object) -> tuple[str, int] | None:
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        if (group, reference.get("kind")) != ("apps", "ReplicaSet"):
            return await self._scale_subresource(key, reference)
        replica_set = await self._cached_or_live(self._sets, REPLICA_SETS, key, reference)
        if replica_set is None:
            return None
        deployment_ref = controller_of(replica_set)
        if deployment_ref is None or deployment_ref.get("kind") != "Deployment":
            return _uid_and_replicas(replica_set)
        deployment = await self._cached_or_live(self._deployments, DEPLOYMENTS, key, deployment_ref)
        return None if deployment is None else _uid_and_replicas(deployment)

    async def _cached_or_live(
        self, informer: Informer, gvr: GroupVersionResource, key: Key, reference: Object
    ) -> Object | None:
        """Falls back to the server: the informer may lag behind the one of pods."""
        obj = informer.get((key[0], key[1], reference["name"]))
        if obj is None or obj["metadata"]["uid"] != reference["uid"]:
            try:
                obj = await self._client.in_cluster(key[0]).get(gvr, reference["name"], key[1])
            except NotFound:
                return None
        return obj if obj["metadata"]["uid"] == reference["uid"] else None

    async def _scale_subresource(self, key: Key, reference: Object) -> tuple[str, int] | None:
        client = self._client.in_cluster(key[0])
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        plural = _SCALABLE_PLURALS.get((group, str(reference.get("kind")))) or await _plural(
            client, group, version, reference
        )
        try:
            scale = await client.request(
                "GET",
                client.resource_path(GroupVersionResource(group, version, plural), reference["name"], key[1], "scale"),
            )
        except NotFound:
            return None
        if scale["metadata"].get("uid") != reference["uid"]:
            return None
        return reference["uid"], int((scale.get("spec") or {}).get("replicas") or 0)


def _uid_and_replicas(obj: Object) -> tuple[str, int]:
    replicas = obj["spec"].get("replicas")
    return obj["metadata"]["uid"], 1 if replicas is None else int(replicas)


async def _plural(client: Client, group: str, version: str, reference: Object) -> str:
    """Returns the plural from discovery if the kind has a scale subresource."""
    kind = reference.get("kind")
    try:
        discovered = await client.get_path(GroupVersionResource(group, version, "").path_prefix)
    except NotFound:
        discovered = {}
    names = {one["name"]: one for one in discovered.get("resources") or ()}
    plural = next((name for name, one in names.items() if "/" not in name and one.get("kind") == kind), None)
    if plural is None:
        raise ScaleUnknown(f'no matches for kind "{kind}" in version "{reference.get("apiVersion")}"')
    if f"{plural}/scale" not in names:
        resource = f"{plural}.{group}" if group else plural
        raise ScaleUnknown(f"{resource} does not implement the scale subresource")
    return str(plural)
