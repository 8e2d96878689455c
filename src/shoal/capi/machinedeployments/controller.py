"""Reconciles MachineDeployments: one MachineSet per template, with replicas moved between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.informers import (
    CAPIInformers,
    NamespacedName,
    by_cluster_name,
    cluster_state_for_machines,
    has_changed,
    namespaced_name,
    versions,
)
from shoal.capi.machinedeployments.decide import MachineDeploymentDecision, MachineDeploymentSnapshot, decide
from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi.capi import (
    DEPLOYMENT_NAME,
    MACHINE_DEPLOYMENT,
    cluster_name,
    controller_uid,
    labels_of,
    owner_name,
)
from shoal.objects.errors import AlreadyExists, Conflict
from shoal.runtime.controller import Controller

Object = dict[str, Any]


class MachineDeploymentReconciler:
    def __init__(self, informers: CAPIInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller("capi-machinedeployments", clock, self.reconcile)
        informers.enqueue_on_change(informers.machine_deployments, self.controller.queue)
        informers.machine_sets.add_event_handler(self._on_machine_set)
        informers.machines.add_event_handler(self._on_machine)
        informers.clusters.add_event_handler(self._on_cluster)

    def _on_machine_set(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            self._enqueue_owner(key[1], owner_name(obj, MACHINE_DEPLOYMENT))
            if not controller_uid(obj):
                self._enqueue_deployments((key[1], cluster_name(obj)))

    def _on_machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            self._enqueue_owner(key[1], labels_of(obj).get(DEPLOYMENT_NAME, ""))

    def _enqueue_owner(self, namespace: str, deployment: str) -> None:
        if deployment:
            self._informers.debouncer.add(self.controller.queue, (namespace, deployment))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_changed(old, new, cluster_state_for_machines):
            self._enqueue_deployments(key[1:])

    def _enqueue_deployments(self, cluster: NamespacedName) -> None:
        for each in self._informers.machine_deployments.by_index(by_cluster_name, cluster):
            self.controller.queue.add(namespaced_name(each))

    async def reconcile(self, key: NamespacedName) -> float | None:
        await self._informers.wait_for_sync()
        deployment = self._informers.machine_deployments.get(("", *key))
        if deployment is None:
            return None
        snapshot = self._snapshot(deployment)
        decision = self._decide(snapshot)
        if decision.patch is not None:
            deployment = await self._informers.writer.patch(
                self._informers.machine_deployments, deployment, decision.patch
            )
            decision = self._decide(replace(snapshot, deployment=deployment))
        await self._apply(snapshot, decision)
        return decision.requeue_after

    def _snapshot(self, deployment: Object) -> MachineDeploymentSnapshot:
        informers, namespace = self._informers, deployment["metadata"]["namespace"]
        sets = informers.controlled_by(informers.machine_sets, deployment)
        reference = deployment["spec"]["template"]["spec"]["infrastructureRef"]
        return MachineDeploymentSnapshot(
            deployment=deployment,
            cluster=informers.clusters.get(("", namespace, deployment["spec"]["clusterName"])),
            machine_sets=sets,
            machines=[machine for each in sets for machine in informers.controlled_by(informers.machines, each)],
            orphans=informers.orphans(informers.machine_sets, deployment),
            missing_template=informers.missing_template(namespace, reference),
        )

    def _decide(self, snapshot: MachineDeploymentSnapshot) -> MachineDeploymentDecision:
        now = self._clock.now()
        return decide(snapshot, now, rfc3339(now))

    async def _apply(self, snapshot: MachineDeploymentSnapshot, decision: MachineDeploymentDecision) -> None:
        informers = self._informers
        if decision.create is not None:
            await self._create(snapshot, decision.create)
        for machine_set, patch in decision.update:
            await informers.writer.patch(informers.machine_sets, machine_set, patch)
        for machine_set in decision.delete:
            await informers.writer.delete(informers.machine_sets, machine_set)
        if decision.status is not None and not informers.defer_status(
            self.controller.queue, snapshot.deployment, decision.status
        ):
            await informers.writer.update_status(informers.machine_deployments, decision.status)

    async def _create(self, snapshot: MachineDeploymentSnapshot, machine_set: Object) -> None:
        informer, writer = self._informers.machine_sets, self._informers.writer
        namespace, name = namespaced_name(machine_set)
        try:
            await writer.create(informer, machine_set)
        except AlreadyExists:
            existing = await writer.get_live(informer, namespace, name)
            if controller_uid(existing) != snapshot.deployment["metadata"]["uid"]:
                raise Conflict(f"MachineSet {namespace}/{name} is not controlled by this MachineDeployment") from None
