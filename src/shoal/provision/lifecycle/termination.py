"""The end of a NodeClaim: no new pods, the old ones evicted as their budgets allow, then the machine, then itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    DO_NOT_DISRUPT,
    DRAINED,
    FINALIZER,
    INSTANCE_TERMINATING,
    annotation,
    is_going,
    provider_id,
)
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError
from shoal.provision.cloudprovider import CloudProvider, NodeClaimNotFound
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import (
    cordon_patch,
    out_of_patience,
    to_drain,
    until_out_of_patience,
    with_condition,
    without_finalizer,
)
from shoal.provision.telling import ABOUT_NODES
from shoal.provision.view import CLAIMS, NODES, PODS, View
from shoal.runtime.recorder import WARNING, Recorder

Object = dict[str, Any]

BLOCKED_SECONDS = 1.0
"""Until a pod that may not be evicted yet is asked for again."""
LOOK_SECONDS = 5.0
"""While pods or the machine are going: in case nobody tells."""
REFUSED = (429, 500)
"""How a budget says no, and how several budgets for one pod do."""


class Termination:
    def __init__(self, homes: Homes, view: View, provider: CloudProvider, recorder: Recorder, clock: Clock) -> None:
        self._homes, self._view, self._provider, self._recorder, self._clock = homes, view, provider, recorder, clock

    async def advance(self, cluster: str, claim: Object) -> float | None:
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            return None
        node = self._view.node_of(cluster, provider_id(claim))
        if node is not None and self._provider.get(cluster, claim) is not None:
            later = await self._drain(cluster, claim, node)
            if later is not None:
                return later
        try:
            await self._provider.delete(cluster, claim)
        except NodeClaimNotFound:
            metadata = {
                "finalizers": without_finalizer(claim),
                "resourceVersion": claim["metadata"]["resourceVersion"],
            }
            await self._homes.client(cluster).merge(CLAIMS, claim["metadata"]["name"], {"metadata": metadata})
            return None
        await self._say(cluster, claim, INSTANCE_TERMINATING, "True", "", "")
        return LOOK_SECONDS

    async def _drain(self, cluster: str, claim: Object, node: Object) -> float | None:
        """When to look again; None: nothing is left that has to go."""
        now, name = self._clock.now(), node["metadata"]["name"]
        patch = cordon_patch(node)
        if patch is not None:
            metadata = {**(patch.get("metadata") or {}), "resourceVersion": node["metadata"]["resourceVersion"]}
            written = await self._homes.client(cluster).merge(NODES, name, {**patch, "metadata": metadata})
            self._view.nodes.learn(cluster, written)
        pods = to_drain(self._view.pods_on(cluster, name), now)
        if not pods:
            return None
        force = out_of_patience(claim, now)
        blocked = [said for pod in pods if not is_going(pod) and (said := await self._evict(cluster, pod, force=force))]
        await self._say(cluster, claim, DRAINED, "Unknown", "Draining", f"{len(pods)} pods are waiting to be evicted")
        if blocked:
            said = f"Failed to drain node, {len(pods)} pods are waiting to be evicted: {blocked[0]}"
            self._recorder.record(ABOUT_NODES, cluster, node, WARNING, "FailedDraining", said)
        deadline = until_out_of_patience(claim, now)
        later = BLOCKED_SECONDS if blocked else LOOK_SECONDS
        return later if deadline is None or force else min(later, deadline + 0.001)

    async def _evict(self, cluster: str, pod: Object, *, force: bool) -> str:
        """Why it stays; empty: it goes."""
        client, metadata = self._homes.client(cluster), pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        path = client.path(PODS, name, namespace)
        if force:
            return await self._delete(cluster, path)
        if annotation(pod, DO_NOT_DISRUPT) == "true":
            return f"pod {namespace}/{name} has {DO_NOT_DISRUPT}"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            await client.call("POST", f"{path}/eviction", body=body)
        except MethodNotSupported:
            return await self._delete(cluster, path)
        except NotFound as error:
            return "" if error.kind == PODS.plural else await self._delete(cluster, path)
        except StatusError as error:
            if error.code in REFUSED:
                return f"pod {namespace}/{name}: {error}"
            raise
        return ""

    async def _delete(self, cluster: str, path: str) -> str:
        with suppress(NotFound):
            await self._homes.client(cluster).call("DELETE", path, body={"gracePeriodSeconds": 1})
        return ""

    async def _say(self, cluster: str, claim: Object, condition: str, status: str, reason: str, message: str) -> None:
        now = rfc3339(self._clock.now())
        new = with_condition(claim, condition, status, now, reason, message)
        if condition == INSTANCE_TERMINATING:
            new = with_condition(new, DRAINED, "True", now)
        if new is not claim:
            self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))
