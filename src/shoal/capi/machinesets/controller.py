"""Reconciles MachineSets: keeps the number of Machines, each with a clone of the infrastructure template."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any

from shoal.capi.informers import (
    CAPIInformers,
    NamespacedName,
    by_cluster_name,
    by_template,
    cluster_state_for_machines,
    has_changed,
    namespaced_name,
    versions,
)
from shoal.capi.machinesets.decide import MachineSetDecision, MachineSetSnapshot, decide, infrastructure_clone
from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi.capi import (
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    cluster_name,
    controller_uid,
    is_deleting,
    owner_name,
)
from shoal.objects.errors import AlreadyExists, Conflict
from shoal.runtime.controller import Controller

Object = dict[str, Any]

MAX_DELETED_NAMES = 200
"""A name is added when the deletion begins and when it ends."""


class MachineSetReconciler:
    def __init__(self, informers: CAPIInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller("capi-machinesets", clock, self.reconcile)
        self._deleted_names: deque[str] = deque(maxlen=MAX_DELETED_NAMES)
        """Names of deleted Machines, which their replacements do not reuse."""
        informers.enqueue_on_change(informers.machine_sets, self.controller.queue)
        informers.machines.add_event_handler(self._on_machine)
        informers.clusters.add_event_handler(self._on_cluster)
        informers.add_provider_handler(self._on_provider_object)

    def _on_machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or (is_deleting(new) and old is not None and not is_deleting(old)):
            self._deleted_names.append(key[2])
        for obj in versions(old, new):
            owner = owner_name(obj, MACHINE_SET)
            if owner:
                self._informers.debouncer.add(self.controller.queue, (key[1], owner))
            elif not controller_uid(obj):
                self._enqueue_machine_sets((key[1], cluster_name(obj)))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_changed(old, new, cluster_state_for_machines):
            self._enqueue_machine_sets(key[1:])

    def _enqueue_machine_sets(self, cluster: NamespacedName) -> None:
        for each in self._informers.machine_sets.by_index(by_cluster_name, cluster):
            self.controller.queue.add(namespaced_name(each))

    def _on_provider_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            for each in self._informers.machine_sets.by_index(by_template, (obj["kind"], *key[1:])):
                self.controller.queue.add(namespaced_name(each))

    async def reconcile(self, key: NamespacedName) -> None:
        await self._informers.wait_for_sync()
        machine_set = self._informers.machine_sets.get(("", *key))
        if machine_set is None:
            return
        snapshot = self._snapshot(machine_set)
        decision = decide(snapshot, self._now())
        if decision.patch is not None:
            machine_set = await self._informers.writer.patch(self._informers.machine_sets, machine_set, decision.patch)
            decision = decide(replace(snapshot, machine_set=machine_set), self._now())
        await self._apply(snapshot, decision)

    def _snapshot(self, machine_set: Object) -> MachineSetSnapshot:
        informers, namespace = self._informers, machine_set["metadata"]["namespace"]
        machines = informers.controlled_by(informers.machines, machine_set)
        spec = machine_set["spec"]
        reference = spec["template"]["spec"]["infrastructureRef"]
        return MachineSetSnapshot(
            machine_set=machine_set,
            cluster=informers.clusters.get(("", namespace, spec["clusterName"])),
            machines=machines,
            template=informers.resolve_reference(namespace, reference),
            missing_template=informers.missing_template(namespace, reference),
            machines_with_infrastructure=frozenset(
                machine["metadata"]["name"]
                for machine in machines
                if informers.resolve_reference(namespace, machine["spec"]["infrastructureRef"]) is not None
            ),
            reserved_names=frozenset((*(machine["metadata"]["name"] for machine in machines), *self._deleted_names)),
            orphans=informers.orphans(informers.machines, machine_set),
            deployment=informers.machine_deployments.get(("", namespace, owner_name(machine_set, MACHINE_DEPLOYMENT))),
        )

    async def _apply(self, snapshot: MachineSetSnapshot, decision: MachineSetDecision) -> None:
        informers, writer, machines = self._informers, self._informers.writer, self._informers.machines
        if decision.patch_template is not None and snapshot.template is not None:
            await writer.patch(informers.informer_of(snapshot.template), snapshot.template, decision.patch_template)
        await _gather_writes(*(writer.patch(machines, machine, patch) for machine, patch in decision.adoption_patches))
        await _gather_writes(*(self._create(snapshot, machine) for machine in decision.create))
        await _gather_writes(
            *(self._clone_infrastructure(snapshot, machine) for machine in decision.clone_infrastructure)
        )
        await _gather_writes(*(writer.patch(machines, machine, patch) for machine, patch in decision.in_place_patches))
        await _gather_writes(*(writer.update_status(machines, machine) for machine in decision.machine_statuses))
        await _gather_writes(*(writer.delete(machines, machine) for machine in decision.delete))
        if decision.status is not None and not informers.defer_status(
            self.controller.queue, snapshot.machine_set, decision.status
        ):
            await writer.update_status(informers.machine_sets, decision.status)

    async def _create(self, snapshot: MachineSetSnapshot, machine: Object) -> None:
        informer, writer = self._informers.machines, self._informers.writer
        namespace, name = namespaced_name(machine)
        try:
            created = await writer.create(informer, machine)
        except AlreadyExists:
            created = await writer.get_live(informer, namespace, name)
            if controller_uid(created) != snapshot.machine_set["metadata"]["uid"]:
                raise Conflict(f"Machine {namespace}/{name} is not controlled by this MachineSet") from None
        await self._clone_infrastructure(snapshot, created)

    async def _clone_infrastructure(self, snapshot: MachineSetSnapshot, machine: Object) -> None:
        informer = self._informers.informer_for(machine["spec"]["infrastructureRef"])
        if snapshot.template is None or informer is None:
            return
        clone = infrastructure_clone(snapshot.machine_set, snapshot.template, machine)
        try:
            await self._informers.writer.create(informer, clone)
        except AlreadyExists:
            await self._informers.writer.get_live(informer, *namespaced_name(clone))

    def _now(self) -> str:
        return rfc3339(self._clock.now())


async def _gather_writes(*writes: Any) -> None:
    """Runs the writes concurrently: the store commits them in groups. All are attempted; the first failure is
    raised.
    """
    results = await asyncio.gather(*writes, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
