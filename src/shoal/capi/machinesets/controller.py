"""Reconciles MachineSets: keeps the number of Machines, each with a clone of the infrastructure template."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any

from shoal.capi.machinesets.decide import Decision, Snapshot, clone_of, decide
from shoal.capi.resources import Changes, Name, Resources, name_of, standing
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import MACHINE_DEPLOYMENT, MACHINE_SET, cluster_name, controller_uid, owner_of
from shoal.objects.errors import AlreadyExists, Conflict
from shoal.runtime.loop import Loop

Object = dict[str, Any]

REMEMBERED_GONE = 100


class MachineSetLoop:
    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-machinesets", clock, self.reconcile)
        self._clusters = Changes(standing)
        self._gone: deque[str] = deque(maxlen=REMEMBERED_GONE)
        """Names of deleted Machines, which their replacements do not reuse."""
        resources.follow(resources.sets, self.loop.queue)
        resources.machines.listen(self._machine)
        resources.clusters.listen(self._cluster)
        resources.listen_to_provided(self._provided)

    def _machine(self, obj: Object) -> None:
        if self._resources.machines.get(*name_of(obj)) is None:
            self._gone.append(obj["metadata"]["name"])
        owner = owner_of(obj, MACHINE_SET)
        if owner:
            self._resources.quiet.add(self.loop.queue, (obj["metadata"]["namespace"], owner))
        elif not controller_uid(obj):
            for each in self._resources.sets.by("cluster", (obj["metadata"]["namespace"], cluster_name(obj))):
                self.loop.queue.add(name_of(each))

    def _cluster(self, obj: Object) -> None:
        if self._clusters.matter(obj):
            for each in self._resources.sets.by("cluster", name_of(obj)):
                self.loop.queue.add(name_of(each))

    def _provided(self, obj: Object) -> None:
        for each in self._resources.sets.by("template", (obj["kind"], *name_of(obj))):
            self.loop.queue.add(name_of(each))

    async def reconcile(self, key: Name) -> None:
        await self._resources.listed()
        machine_set = self._resources.sets.get(*key)
        if machine_set is None:
            return
        seen = self._look(machine_set)
        decision = decide(seen, self._now())
        if decision.patch is not None:
            machine_set = await self._resources.sets.patch(machine_set, decision.patch)
            decision = decide(replace(seen, machine_set=machine_set), self._now())
        await self._act(seen, decision)

    def _look(self, machine_set: Object) -> Snapshot:
        resources, namespace = self._resources, machine_set["metadata"]["namespace"]
        machines = resources.machines.by("owner", machine_set["metadata"]["uid"])
        spec = machine_set["spec"]
        return Snapshot(
            machine_set=machine_set,
            cluster=resources.clusters.get(namespace, spec["clusterName"]),
            machines=machines,
            template=resources.referenced(namespace, spec["template"]["spec"]["infrastructureRef"]),
            infrastructure=frozenset(
                machine["metadata"]["name"]
                for machine in machines
                if resources.referenced(namespace, machine["spec"]["infrastructureRef"]) is not None
            ),
            taken=frozenset((*(machine["metadata"]["name"] for machine in machines), *self._gone)),
            orphans=resources.orphans(resources.machines, machine_set),
            deployment=resources.deployments.get(namespace, owner_of(machine_set, MACHINE_DEPLOYMENT)),
        )

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        if decision.template is not None and seen.template is not None:
            await resources.of(seen.template).patch(seen.template, decision.template)
        await _together(*(resources.machines.patch(machine, patch) for machine, patch in decision.adopt))
        await _together(*(self._create(seen, machine) for machine in decision.create))
        await _together(*(self._clone(seen, machine) for machine in decision.clone))
        await _together(*(resources.machines.patch(machine, patch) for machine, patch in decision.keep_up))
        await _together(*(resources.machines.update_status(machine) for machine in decision.mark))
        await _together(*(resources.machines.delete(machine) for machine in decision.delete))
        if decision.status is not None and not resources.can_wait(self.loop.queue, seen.machine_set, decision.status):
            await resources.sets.update_status(decision.status)

    async def _create(self, seen: Snapshot, machine: Object) -> None:
        namespace, name = name_of(machine)
        try:
            made = await self._resources.machines.create(machine)
        except AlreadyExists:
            made = await self._resources.machines.fetch(namespace, name)
            if controller_uid(made) != seen.machine_set["metadata"]["uid"]:
                raise Conflict(f"Machine {namespace}/{name} belongs to another") from None
        await self._clone(seen, made)

    async def _clone(self, seen: Snapshot, machine: Object) -> None:
        view = self._resources.referring(machine["spec"]["infrastructureRef"])
        if seen.template is None or view is None:
            return
        clone = clone_of(seen.machine_set, seen.template, machine)
        try:
            await view.create(clone)
        except AlreadyExists:
            await view.fetch(*name_of(clone))

    def _now(self) -> str:
        return rfc3339(self._clock.now())


async def _together(*writes: Any) -> None:
    """Runs the writes concurrently: the store commits them in groups. All are attempted; the first failure is
    raised.
    """
    answers = await asyncio.gather(*writes, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
