"""Reconciles Deployments: one ReplicaSet per template, rolled out by the strategy."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.deployments.decide import (
    CREATE_ERROR,
    Decision,
    collided,
    decide,
    failure_to_create,
    refused,
)
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.podcontrol.control import is_alive
from shoal.kinds.deployments import bare_template, replicas_of
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import (
    Claims,
    adoption,
    claim,
    controller_named,
    controller_of,
    controller_reference,
    is_controlled_by,
    release,
    selector_of,
)
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Later, Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import NORMAL, WARNING, Recorder, Source

Object = dict[str, Any]

DEPLOYMENTS = Kind("apps", "v1", "deployments")
REPLICA_SETS = Kind("apps", "v1", "replicasets")
SOURCE = Source("deployment-controller", "apps/v1", "Deployment")
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""


class DeploymentLoop:
    """Keys are Deployments. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        deployments: Dependents,
        sets: Dependents,
        recorder: Recorder,
    ) -> None:
        self._client, self._clock, self._hosted = client, clock, hosted
        self._deployments, self._sets, self._recorder = deployments, sets, recorder
        self._statuses: OwnWrites[Key] = OwnWrites(deployments)
        self._writes: OwnWrites[Key] = OwnWrites(sets)
        self.loop: Loop[Key] = Loop("deployments", clock, self.reconcile)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, deployments, sets)
        deployments.listeners.append(lambda key, before, now: self.loop.queue.add(key))
        sets.listeners.append(self._set_changed)

    def _set_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        names = {controller_named(before, "apps", "Deployment"), controller_named(now, "apps", "Deployment")} - {""}
        for name in names:
            self.loop.queue.add((key[0], key[1], name))
        if now is not None and controller_of(now) is None:
            for owner, deployment in self._deployments.beside(key):
                if selector_of(deployment).matches(now["metadata"].get("labels")):
                    self.loop.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            self._statuses.forget(key)
            self._writes.forget(key)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key) or not self._gate.admits(key):
            return None
        if not self._statuses.in_sight(key) or not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        client = self._client.at(key[0])
        claims = claim(deployment, self._sets.owned(key, deployment["metadata"]["uid"]), self._sets.orphans(key))
        if await self._settle(client, key, deployment, claims):
            return UNSEEN_SECONDS
        now = self._clock.now()
        decision = decide(deployment, claims.kept, now, rfc3339(now))
        if decision.create is not None:
            await self._create(client, key, deployment, decision.create)
        sizes = {one["metadata"]["name"]: replicas_of(one) for one in claims.kept}
        for one in decision.update:
            self._writes.wrote(key, await client.update(REPLICA_SETS, one))
            self._tell_size(key, deployment, one, sizes[one["metadata"]["name"]])
        for one in decision.delete:
            await _delete(client, one)
        await self._write_status(client, key, deployment, decision)
        return decision.later

    async def _settle(self, client: Client, key: Key, deployment: Object, claims: Claims) -> bool:
        """Adopts orphans and releases ReplicaSets that are no longer selected. Returns whether there was anything to
        do.
        """
        patches = [(one, release(one, deployment)) for one in claims.release]
        if claims.adopt and await is_alive(client, DEPLOYMENTS, deployment):
            reference = controller_reference(deployment, "apps/v1", "Deployment")
            patches += [(one, adoption(one, reference)) for one in claims.adopt]
        for one, patch in patches:
            self._writes.wrote(key, await client.merge(REPLICA_SETS, one["metadata"]["name"], patch, key[1]))
        return bool(patches)

    async def _create(self, client: Client, key: Key, deployment: Object, new: Object) -> None:
        name = new["metadata"]["name"]
        try:
            self._writes.wrote(key, await client.create(REPLICA_SETS, new, key[1]))
            self._tell_size(key, deployment, new, 0)
        except AlreadyExists:
            there = await client.get(REPLICA_SETS, name, key[1])
            equal = bare_template(there["spec"]["template"]) == bare_template(deployment["spec"]["template"])
            if not is_controlled_by(there, deployment) or not equal:
                await self._put_status(client, key, {**deployment, "status": collided(deployment)})
            raise Later(f"ReplicaSet {name} is there already") from None
        except StatusError as error:
            self._tell(key, deployment, WARNING, CREATE_ERROR, failure_to_create(name, error))
            status = refused(deployment, name, error, rfc3339(self._clock.now()))
            if status != deployment.get("status"):
                await self._put_status(client, key, {**deployment, "status": status})
            raise

    def _tell_size(self, key: Key, deployment: Object, one: Object, before: int) -> None:
        size = replicas_of(one)
        if size != before:
            way, name = "up" if size > before else "down", one["metadata"]["name"]
            said = f"Scaled {way} replica set {name} from {before} to {size}"
            self._tell(key, deployment, NORMAL, "ScalingReplicaSet", said)

    def _tell(self, key: Key, deployment: Object, type_: str, reason: str, message: str) -> None:
        self._recorder.record(SOURCE, key[0], deployment, type_, reason, message)

    async def _write_status(self, client: Client, key: Key, deployment: Object, decision: Decision) -> None:
        metadata = deployment["metadata"]
        if decision.status == deployment.get("status") and decision.annotations == (metadata.get("annotations") or {}):
            return
        annotated = {**metadata, "annotations": decision.annotations}
        await self._put_status(client, key, {**deployment, "metadata": annotated, "status": decision.status})

    async def _put_status(self, client: Client, key: Key, deployment: Object) -> None:
        try:
            self._statuses.wrote(key, await client.update(DEPLOYMENTS, deployment, "status"))
        except NotFound:
            return  # deleted; the informer delivers that shortly


async def _delete(client: Client, one: Object) -> None:
    metadata = one["metadata"]
    try:
        await client.delete(REPLICA_SETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except NotFound:
        return
