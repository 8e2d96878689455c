"""Reconciles MachineDeployments: one MachineSet per template, with replicas moved between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.machinedeployments.decide import Decision, Snapshot, decide
from shoal.capi.resources import Changes, Name, Resources, name_of, standing
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import DEPLOYMENT_NAME, MACHINE_DEPLOYMENT, cluster_name, controller_uid, labels_of, owner_of
from shoal.objects.errors import AlreadyExists, Conflict
from shoal.runtime.loop import Loop

Object = dict[str, Any]


class MachineDeploymentLoop:
    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-machinedeployments", clock, self.reconcile)
        self._clusters = Changes(standing)
        resources.follow(resources.deployments, self.loop.queue)
        resources.sets.listen(self._set)
        resources.machines.listen(lambda obj: self._belongs(obj, labels_of(obj).get(DEPLOYMENT_NAME, "")))
        resources.clusters.listen(self._cluster)

    def _set(self, obj: Object) -> None:
        self._belongs(obj, owner_of(obj, MACHINE_DEPLOYMENT))
        if not controller_uid(obj):
            for each in self._resources.deployments.by("cluster", (obj["metadata"]["namespace"], cluster_name(obj))):
                self.loop.queue.add(name_of(each))

    def _belongs(self, obj: Object, deployment: str) -> None:
        if deployment:
            self._resources.quiet.add(self.loop.queue, (obj["metadata"]["namespace"], deployment))

    def _cluster(self, obj: Object) -> None:
        if self._clusters.matter(obj):
            for each in self._resources.deployments.by("cluster", name_of(obj)):
                self.loop.queue.add(name_of(each))

    async def reconcile(self, key: Name) -> float | None:
        await self._resources.listed()
        deployment = self._resources.deployments.get(*key)
        if deployment is None:
            return None
        seen = self._look(deployment)
        decision = self._decide(seen)
        if decision.patch is not None:
            deployment = await self._resources.deployments.patch(deployment, decision.patch)
            decision = self._decide(replace(seen, deployment=deployment))
        await self._act(seen, decision)
        return decision.again

    def _look(self, deployment: Object) -> Snapshot:
        resources, namespace = self._resources, deployment["metadata"]["namespace"]
        sets = resources.sets.by("owner", deployment["metadata"]["uid"])
        reference = deployment["spec"]["template"]["spec"]["infrastructureRef"]
        return Snapshot(
            deployment=deployment,
            cluster=resources.clusters.get(namespace, deployment["spec"]["clusterName"]),
            sets=sets,
            machines=[machine for each in sets for machine in resources.machines.by("owner", each["metadata"]["uid"])],
            orphans=resources.orphans(resources.sets, deployment),
            has_template=resources.referenced(namespace, reference) is not None,
        )

    def _decide(self, seen: Snapshot) -> Decision:
        now = self._clock.now()
        return decide(seen, now, rfc3339(now))

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        if decision.create is not None:
            await self._create(seen, decision.create)
        for machine_set, patch in decision.update:
            await resources.sets.patch(machine_set, patch)
        for machine_set in decision.delete:
            await resources.sets.delete(machine_set)
        if decision.status is not None and not resources.can_wait(self.loop.queue, seen.deployment, decision.status):
            await resources.deployments.update_status(decision.status)

    async def _create(self, seen: Snapshot, machine_set: Object) -> None:
        namespace, name = name_of(machine_set)
        try:
            await self._resources.sets.create(machine_set)
        except AlreadyExists:
            made = await self._resources.sets.fetch(namespace, name)
            if controller_uid(made) != seen.deployment["metadata"]["uid"]:
                raise Conflict(f"MachineSet {namespace}/{name} belongs to another") from None
