"""Reconciles Deployments: one ReplicaSet per template, rolled out by the strategy."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.deployments.decide import (
    CREATE_ERROR,
    DeploymentDecision,
    collision_status,
    create_error_message,
    create_failed_status,
    decide,
)
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.control import can_adopt
from shoal.kinds.apps.deployment import replicas_of, template_without_hash
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import (
    OwnershipClaims,
    adoption_patch,
    claim_objects,
    controller_name,
    controller_of,
    controller_reference,
    is_controlled_by,
    release_patch,
    selector_of,
)
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder, EventSource
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller, by_namespace

Object = dict[str, Any]

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
EVENT_SOURCE = EventSource("deployment-controller", "apps/v1", "Deployment")
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""


class DeploymentReconciler:
    """Keys are Deployments."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._deployments = deployments = Informer(wildcard, DEPLOYMENTS, clock, indexers=(by_namespace,))
        self._replica_sets = replica_sets = Informer(wildcard, REPLICA_SETS, clock, indexers=(by_controller,))
        self._status_expectations: WriteExpectations[Key] = WriteExpectations(deployments)
        self._replica_set_expectations: WriteExpectations[Key] = WriteExpectations(replica_sets)
        self.controller: Controller[Key] = Controller("deployments", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, deployments, replica_sets)
        self.controller.watch(deployments, lambda key, old, new: self.controller.queue.add(key))
        self.controller.watch(replica_sets, self._on_replica_set)

    def _on_replica_set(self, key: Key, old: Object | None, new: Object | None) -> None:
        names = {controller_name(old, "apps", "Deployment"), controller_name(new, "apps", "Deployment")} - {""}
        for name in names:
            self.controller.queue.add((key[0], key[1], name))
        if new is not None and controller_of(new) is None:
            for deployment in self._deployments.by_index(by_namespace, key[:2]):
                if selector_of(deployment).matches(new["metadata"].get("labels")):
                    self.controller.queue.add(key_of(deployment))

    async def reconcile(self, key: Key) -> float | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            self._status_expectations.forget(key)
            self._replica_set_expectations.forget(key)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if not self._status_expectations.satisfied(key) or not self._replica_set_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        client = self._client.in_cluster(key[0])
        claims = claim_objects(
            deployment,
            self._replica_sets.by_index(by_controller, (*key[:2], deployment["metadata"]["uid"])),
            self._replica_sets.by_index(by_controller, (*key[:2], "")),
        )
        if await self._adopt_and_release(client, key, deployment, claims):
            return EXPECTATIONS_RETRY_SECONDS
        now = self._clock.now()
        decision = decide(deployment, claims.owned, now, rfc3339(now))
        if decision.create is not None:
            await self._create_replica_set(client, key, deployment, decision.create)
        sizes = {replica_set["metadata"]["name"]: replicas_of(replica_set) for replica_set in claims.owned}
        for replica_set in decision.update:
            self._replica_set_expectations.expect(key, await client.update(REPLICA_SETS, replica_set))
            self._record_scaling(key, deployment, replica_set, sizes[replica_set["metadata"]["name"]])
        for replica_set in decision.delete:
            await _delete_replica_set(client, replica_set)
        await self._write_status(client, key, deployment, decision)
        return decision.requeue_after

    async def _adopt_and_release(self, client: Client, key: Key, deployment: Object, claims: OwnershipClaims) -> bool:
        """Adopts orphans and releases ReplicaSets that are no longer selected. Returns whether there was anything to
        do.
        """
        patches = [(one, release_patch(one, deployment)) for one in claims.release]
        if claims.adopt and await can_adopt(client, DEPLOYMENTS, deployment):
            reference = controller_reference(deployment, "apps/v1", "Deployment")
            patches += [(one, adoption_patch(one, reference)) for one in claims.adopt]
        for one, patch in patches:
            self._replica_set_expectations.expect(
                key, await client.merge_patch(REPLICA_SETS, one["metadata"]["name"], patch, key[1])
            )
        return bool(patches)

    async def _create_replica_set(self, client: Client, key: Key, deployment: Object, new: Object) -> None:
        name = new["metadata"]["name"]
        try:
            self._replica_set_expectations.expect(key, await client.create(REPLICA_SETS, new, key[1]))
            self._record_scaling(key, deployment, new, 0)
        except AlreadyExists:
            existing = await client.get(REPLICA_SETS, name, key[1])
            equal = template_without_hash(existing["spec"]["template"]) == template_without_hash(
                deployment["spec"]["template"]
            )
            if not is_controlled_by(existing, deployment) or not equal:
                await self._update_status(client, key, {**deployment, "status": collision_status(deployment)})
            raise RequeueError(f"ReplicaSet {name} already exists") from None
        except StatusError as error:
            self._record_event(key, deployment, WARNING, CREATE_ERROR, create_error_message(name, error))
            status = create_failed_status(deployment, name, error, rfc3339(self._clock.now()))
            if status != deployment.get("status"):
                await self._update_status(client, key, {**deployment, "status": status})
            raise

    def _record_scaling(self, key: Key, deployment: Object, replica_set: Object, before: int) -> None:
        size = replicas_of(replica_set)
        if size != before:
            direction, name = "up" if size > before else "down", replica_set["metadata"]["name"]
            message = f"Scaled {direction} replica set {name} from {before} to {size}"
            self._record_event(key, deployment, NORMAL, "ScalingReplicaSet", message)

    def _record_event(self, key: Key, deployment: Object, type_: str, reason: str, message: str) -> None:
        self._recorder.record(EVENT_SOURCE, key[0], deployment, type_, reason, message)

    async def _write_status(self, client: Client, key: Key, deployment: Object, decision: DeploymentDecision) -> None:
        metadata = deployment["metadata"]
        if decision.status == deployment.get("status") and decision.annotations == (metadata.get("annotations") or {}):
            return
        annotated = {**metadata, "annotations": decision.annotations}
        await self._update_status(client, key, {**deployment, "metadata": annotated, "status": decision.status})

    async def _update_status(self, client: Client, key: Key, deployment: Object) -> None:
        try:
            self._status_expectations.expect(key, await client.update(DEPLOYMENTS, deployment, "status"))
        except NotFound:
            return  # deleted; the informer delivers that shortly


async def _delete_replica_set(client: Client, replica_set: Object) -> None:
    metadata = replica_set["metadata"]
    try:
        await client.delete(REPLICA_SETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except NotFound:
        return
