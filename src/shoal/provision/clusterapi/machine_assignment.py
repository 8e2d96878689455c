"""Assigns Machines to NodeClaims: one MachineDeployment at a time, with all its NodeClaims.

Machines are marked before replicas go down and bound after they went up. Every write is a compare-and-swap. A conflict
or an interruption leads to another reconcile. Claimed Machines without a member MachineDeployment are deleted with
their NodeClaim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar, cast

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi import capi
from shoal.kinds.karpenter.karpenter import (
    MACHINE_ANNOTATION,
    MACHINE_DEPLOYMENT_ANNOTATION,
    MACHINE_TEMPLATE_ANNOTATION,
    NODE_CLAIM_ANNOTATION,
    NODE_CLAIM_UID_ANNOTATION,
    annotation_of,
    is_deleting,
)
from shoal.objects.errors import Conflict, NotFound
from shoal.provision.clusterapi.decide import (
    MachineAssignment,
    assign_machines,
    is_claimed_by,
    is_marked_for_deletion,
    unowned_claimed_machines,
)
from shoal.provision.clusterapi.machine_state import (
    MACHINE_DEPLOYMENTS,
    MACHINES,
    capi_cluster_of,
    deployment_name,
)
from shoal.provision.clusterapi.nodegroups import full_name
from shoal.provision.clusterapi.provider import ClusterAPIProvider
from shoal.provision.management import ManagementResolver
from shoal.provision.state import NODE_CLAIMS, ClusterState
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
T = TypeVar("T")

BATCH_SECONDS = 0.02
"""NodeClaims that arrive within this time share one replica write."""
MAX_ATTEMPTS = 5
MAX_PARALLEL_WRITES = 32


class MachineAssigner:
    """Keys are MachineDeployments as namespace/name; with an empty name, the Machines of the namespace without a
    MachineDeployment.
    """

    def __init__(
        self, provider: ClusterAPIProvider, resolver: ManagementResolver, state: ClusterState, clock: Clock
    ) -> None:
        self._provider, self._machine_state = provider, provider.machine_state
        self._resolver, self._state, self._clock = resolver, state, clock
        self.controller: Controller[str] = Controller("machine-settling", clock, self.reconcile)
        self.controller.sources += self._machine_state.sources
        self._scheduled: set[str] = set()
        self._machine_state.machines.add_event_handler(self._on_machine)
        self._machine_state.deployments.add_event_handler(self._on_deployment)
        state.node_claims.add_event_handler(self._on_claim)
        resolver.add_event_handler(self._on_cluster)

    def _on_cluster(self, cluster: str) -> None:
        """Its MachineDeployments may be older than the fact that it is served here."""
        capi_cluster = self._resolver.capi_cluster_of(cluster)
        for deployment in self._machine_state.member_deployments(capi_cluster) if capi_cluster is not None else ():
            self._enqueue(full_name(deployment))
        self._provider.notify(cluster)

    def _on_deployment(self, key: Key, old: Object | None, new: Object | None) -> None:
        deployment = new or old
        cluster = self._resolver.logical_cluster_of(capi_cluster_of(deployment)) if deployment is not None else None
        if cluster is None:
            return
        if deployment is not None:
            self._enqueue(full_name(deployment))
        if old is None or new is None or _offering_fields(old) != _offering_fields(new):
            self._provider.notify(cluster)

    def _on_machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        for machine in (old, new):
            if machine is not None and (
                annotation_of(machine, NODE_CLAIM_ANNOTATION) or self._has_member_deployment(machine)
            ):
                self._enqueue(deployment_name(machine))
        machine_object = new or old
        owner = annotation_of(machine_object, NODE_CLAIM_ANNOTATION) if machine_object is not None else ""
        if machine_object is not None and owner:
            cluster = self._resolver.logical_cluster_of(capi_cluster_of(machine_object))
            if cluster is not None:
                self._provider.notify(cluster, owner)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for claim in (old, new):
            deployment = annotation_of(claim, MACHINE_DEPLOYMENT_ANNOTATION) if claim is not None else ""
            if deployment and (old is None or new is None or _assignment_fields(old) != _assignment_fields(new)):
                self._enqueue(deployment)
        capi_cluster = self._resolver.capi_cluster_of(key[0])
        if (
            new is None
            and old is not None
            and capi_cluster is not None
            and annotation_of(old, MACHINE_TEMPLATE_ANNOTATION)
        ):
            self._enqueue(f"{capi_cluster.namespace}/")

    def _has_member_deployment(self, machine: Object) -> bool:
        return self._machine_state.deployment(deployment_name(machine)) is not None

    def _enqueue(self, deployment: str) -> None:
        if deployment not in self._scheduled:
            self._scheduled.add(deployment)
            self.controller.queue.add_after(deployment, BATCH_SECONDS)

    async def reconcile(self, key: str) -> float | None:
        self._scheduled.discard(key)
        if not self._provider.has_synced:
            raise RequeueError("informers have not synced yet")
        deployment = self._machine_state.deployment(key)
        if deployment is None:
            await self._delete_unowned(key)
            return None
        if is_deleting(deployment) or capi.PAUSED in capi.annotations_of(deployment):
            return None
        cluster = self._resolver.logical_cluster_of(capi_cluster_of(deployment))
        if cluster is None:
            return None
        claims = [
            each
            for each in self._state.node_claims.by_index(by_cluster, cluster)
            if annotation_of(each, MACHINE_DEPLOYMENT_ANNOTATION) == key
        ]
        machines = self._machine_state.machines_of(key)
        assignment = assign_machines(deployment, machines, claims, self._clock.now())
        await self._apply(cluster, deployment, assignment)
        return assignment.requeue_after

    async def _apply(self, cluster: str, deployment: Object, assignment: MachineAssignment) -> None:
        for claim in assignment.reject:
            self._provider.rejected[claim["metadata"]["uid"]] = f"MachineDeployment {full_name(deployment)} is full"
            self._provider.notify(cluster, claim["metadata"]["name"])
        await _run_parallel(lambda machine: self._confirm_claim_deleted(cluster, machine), assignment.orphans)
        mark = {"annotations": {capi.DELETE_MACHINE: rfc3339(self._clock.now())}}
        await _run_parallel(lambda machine: self._patch_machine(machine, mark), assignment.mark)
        if assignment.replicas is not None:
            await self._scale(deployment, assignment.replicas)
        await _run_parallel(self._delete_machine, assignment.delete)
        await _run_parallel(lambda bind: self._bind(cluster, *bind), assignment.bind)

    async def _delete_unowned(self, key: str) -> None:
        machines_by_cluster: dict[str, list[Object]] = {}
        for machine in self._machine_state.machines_of(key):
            cluster = (
                self._resolver.logical_cluster_of(capi_cluster_of(machine))
                if annotation_of(machine, NODE_CLAIM_ANNOTATION)
                else None
            )
            if cluster is not None:
                machines_by_cluster.setdefault(cluster, []).append(machine)
        marked: list[Object] = []
        unclaimed_machines: list[tuple[str, Object]] = []
        for cluster, machines in machines_by_cluster.items():
            delete, unclaimed = unowned_claimed_machines(
                machines, self._state.node_claims.by_index(by_cluster, cluster)
            )
            marked += delete
            unclaimed_machines += [(cluster, each) for each in unclaimed]
        await _run_parallel(self._delete_machine, marked)
        await _run_parallel(lambda each: self._delete_unclaimed(*each), unclaimed_machines)

    async def _delete_unclaimed(self, cluster: str, machine: Object) -> None:
        await self._confirm_claim_deleted(cluster, machine)
        await self._delete_machine(machine)

    async def _delete_machine(self, machine: Object) -> None:
        metadata = machine["metadata"]
        with suppress(NotFound):
            await self._resolver.management_client.delete(
                MACHINES, metadata["name"], metadata["namespace"], uid=metadata["uid"], metadata_only=True
            )

    async def _scale(self, deployment: Object, replicas: int) -> None:
        """Tests only the previous replicas, so concurrent status writes cause no conflict."""
        metadata, path = deployment["metadata"], "/spec/replicas"
        steps = [
            {"op": "test", "path": path, "value": (deployment.get("spec") or {}).get("replicas")},
            {"op": "replace", "path": path, "value": replicas},
        ]
        management = self._resolver.management_client
        url_path = management.resource_path(MACHINE_DEPLOYMENTS, metadata["name"], metadata["namespace"])
        scaled = await management.request(
            "PATCH", url_path, body=cast(Any, steps), content_type="application/json-patch+json"
        )
        self._machine_state.deployments.observe_write(scaled)

    async def _bind(self, cluster: str, machine: Object, claim: Object) -> None:
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        if not is_claimed_by(machine, claim):
            metadata = {
                "labels": {capi.KARPENTER_MEMBER: ""},
                "annotations": {NODE_CLAIM_ANNOTATION: name, NODE_CLAIM_UID_ANNOTATION: uid},
            }
            await self._patch_machine(machine, metadata)
        if annotation_of(claim, MACHINE_ANNOTATION):
            return
        patch = {"metadata": {"uid": uid, "annotations": {MACHINE_ANNOTATION: full_name(machine)}}}
        try:
            self._state.node_claims.observe_write(
                await self._resolver.client(cluster).merge_patch(NODE_CLAIMS, name, patch), cluster
            )
        except NotFound:
            return  # the NodeClaim was deleted meanwhile: the next reconcile finds the orphaned Machine

    async def _patch_machine(self, machine: Object, metadata: Object) -> None:
        """Retries on conflict, because Cluster API writes Machines often while they start. Gives up if the Machine is
        deleted, marked or claimed by another NodeClaim.
        """
        management, place = self._resolver.management_client, machine["metadata"]
        for _ in range(MAX_ATTEMPTS):
            patch = {"metadata": {**metadata, "resourceVersion": machine["metadata"]["resourceVersion"]}}
            try:
                written = await management.merge_patch(MACHINES, place["name"], patch, place["namespace"])
            except Conflict:
                machine = await management.get(MACHINES, place["name"], place["namespace"])
                owner = (place.get("annotations") or {}).get(NODE_CLAIM_UID_ANNOTATION, "")
                if (
                    is_deleting(machine)
                    or is_marked_for_deletion(machine)
                    or annotation_of(machine, NODE_CLAIM_UID_ANNOTATION) != owner
                ):
                    break
            else:
                self._machine_state.machines.observe_write(written)
                return
        raise RequeueError(f"Machine {full_name(machine)} has changed")

    async def _confirm_claim_deleted(self, cluster: str, machine: Object) -> None:
        """Confirms with the server, not the cache, that the NodeClaim of a Machine was deleted."""
        try:
            claim = await self._resolver.client(cluster).get(NODE_CLAIMS, annotation_of(machine, NODE_CLAIM_ANNOTATION))
        except NotFound as error:
            if error.kind == NODE_CLAIMS.resource:
                return
            raise
        if claim["metadata"]["uid"] == annotation_of(machine, NODE_CLAIM_UID_ANNOTATION):
            raise RequeueError(f"NodeClaim {claim['metadata']['name']} of Machine {full_name(machine)} still exists")


async def _run_parallel(write: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Runs the writes with limited parallelism. All are attempted; then the first failure is raised."""
    semaphore = asyncio.Semaphore(MAX_PARALLEL_WRITES)

    async def one(item: T) -> None:
        async with semaphore:
            await write(item)

    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _offering_fields(deployment: Object) -> object:
    """Fields of a MachineDeployment that affect its offering."""
    metadata = deployment["metadata"]
    selection = (metadata.get("labels"), metadata.get("annotations"), is_deleting(deployment))
    return selection, (deployment.get("spec") or {}).get("template")


def _assignment_fields(claim: Object) -> object:
    """Fields of a NodeClaim that affect its MachineDeployment."""
    return (
        claim["metadata"]["uid"],
        annotation_of(claim, MACHINE_ANNOTATION),
        annotation_of(claim, MACHINE_DEPLOYMENT_ANNOTATION),
        is_deleting(claim),
    )
