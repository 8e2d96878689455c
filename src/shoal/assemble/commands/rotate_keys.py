"""`shoal rotate-ca --cluster`: asks for a rotation of the keys of one cluster, and waits for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS
from shoal.kinds.fleet.keys import KEYS_ROTATED, KeysState, keys_in_force, keys_object, requested_keys
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Conflict, ShoalError

Object = dict[str, Any]

POLL_SECONDS = 0.2


class RotationError(ShoalError):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def cluster_resource(namespace: str) -> GroupVersionResource:
    """A ManagedCluster has a namespace, a LogicalCluster has none."""
    return MANAGED_CLUSTERS if namespace else LOGICAL_CLUSTERS


async def rotate_keys(client: Client, name: str, namespace: str, *, finish: bool, timeout_seconds: float) -> KeysState:
    """Returns the keys that are in force. Without a namespace it is a LogicalCluster. A rotation that was requested
    before and is not in force yet is waited for.
    """
    gvr = cluster_resource(namespace)
    obj, wanted = await _request_rotation(client, gvr, name, namespace, finish)
    try:
        async with asyncio.timeout(timeout_seconds):
            while "keys" not in (obj.get("status") or {}) or keys_in_force(obj) != wanted:
                await asyncio.sleep(POLL_SECONDS)
                obj = await client.get(gvr, name, namespace)
    except TimeoutError:
        condition = get_condition(obj, KEYS_ROTATED)
        reason = f": {condition['message']}" if condition is not None else ""
        raise RotationError(
            f"the rotation of {name} is requested and not in force after {timeout_seconds:.0f} s{reason}",
            "it continues; run the command again to wait for it",
        ) from None
    return wanted


async def _request_rotation(
    client: Client, gvr: GroupVersionResource, name: str, namespace: str, finish: bool
) -> tuple[Object, KeysState]:
    """Controllers may write the object between the read and the write. What is requested then depends on the new
    object.
    """
    while True:
        obj = await client.get(gvr, name, namespace)
        wanted = _next_state(obj, finish)
        if wanted == requested_keys(obj):
            return obj, wanted
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        patch = {"metadata": metadata, "spec": {"keys": keys_object(wanted)}}
        with suppress(Conflict):
            return await client.merge_patch(gvr, name, patch, namespace), wanted


def _next_state(obj: Object, finish: bool) -> KeysState:
    requested, in_force, name = requested_keys(obj), keys_in_force(obj), obj["metadata"]["name"]
    if finish:
        if requested.generation == 1 or not (requested.trust_former or in_force.trust_former):
            raise RotationError(f"the keys of {name} are not being rotated", "begin without --finish")
        return requested._replace(trust_former=False)
    if requested.generation > in_force.generation:
        return requested
    if in_force.generation > 1 and in_force.trust_former:
        raise RotationError(f"the keys of {name} are being rotated already", "end that with --finish first")
    return KeysState(in_force.generation + 1, trust_former=True)
