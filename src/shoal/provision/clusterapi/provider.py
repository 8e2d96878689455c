"""Machines of Cluster API for NodeClaims: `choose` a MachineDeployment, wait for a Machine of it, let it go.

A NodeClaim names the MachineDeployment it is to come from before anything is scaled, a Machine its NodeClaim before
the NodeClaim names the Machine: cut off at any point, `settling` finds out from these who belongs to whom.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Kind
from shoal.clock import Clock, rfc3339
from shoal.fit.requirements import Requirements, from_expressions
from shoal.fit.resources import Resources, amounts
from shoal.kinds import capi
from shoal.kinds.karpenter import CLAIMED_BY_UID, MACHINE, MACHINE_DEPLOYMENT, annotation, class_ref, is_going
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import (
    Instance,
    InstanceType,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    NotYet,
    Told,
)
from shoal.provision.clusterapi.decide import is_claimed_by, is_marked, lives_on
from shoal.provision.clusterapi.offers import (
    can_be_bought_from,
    capacity,
    cheapest,
    instance_types,
    node_labels,
    selected,
    takes_part,
)
from shoal.provision.homes import Home, Homes
from shoal.provision.shelf import Shelf
from shoal.provision.view import CLAIMS, View

Object = dict[str, Any]

MACHINES = Kind(capi.GROUP, capi.VERSION, "machines")
DEPLOYMENTS = Kind(capi.GROUP, capi.VERSION, "machinedeployments")
AT_HOME = ""
"""What the keys of the management side have for a logical cluster."""


class ClusterAPI:
    name = "clusterapi"

    def __init__(self, homes: Homes, view: View, clock: Clock) -> None:
        self._homes, self._view, self._clock = homes, view, clock
        self.machines = Shelf(homes.management, MACHINES, clock)
        self.deployments = Shelf(homes.management, DEPLOYMENTS, clock, labels=capi.KARPENTER_MEMBER)
        self.refused: dict[str, str] = {}
        """By uid: NodeClaims that their MachineDeployment has no room for, and why."""
        self._told: list[Told] = []
        self._of_deployment: dict[str, set[tuple[str, str]]] = {}
        self._of_claim: dict[str, tuple[str, str]] = {}
        """By uid: the Machine that says it is the NodeClaim's."""
        self.machines.listen(self._machine_changed)

    def listen(self, told: Told) -> None:
        self._told.append(told)

    def tell(self, cluster: str, claim: str = "") -> None:
        for told in self._told:
            told(cluster, claim)

    @property
    def synced(self) -> bool:
        return self.machines.synced and self.deployments.synced and self._view.synced

    def instance_types(self, cluster: str, node_class: Object) -> list[InstanceType]:
        claimed, found = self._claimed(cluster), self._sellers(cluster, node_class)
        types = instance_types(found, claimed)
        if claimed[""] and any(offering.room is not None for each in types for offering in each.offerings):
            types = instance_types(found, self._foreseen(cluster, types, claimed))
        return types

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        home = self._homes.of(cluster)
        members = [each for each in self._deployments(home) if takes_part(each)] if home is not None else []
        where = f"of Cluster {home.namespace}/{home.name}" if home is not None else "of this cluster"
        if not members:
            label = capi.KARPENTER_MEMBER
            return "NoMachineDeployments", f"no MachineDeployment {where} has the label {label}"
        chosen = [each for each in members if selected(each, node_class)]
        if not chosen:
            return "NoMachineDeployments", f"scalableResourceSelector matches none of the MachineDeployments {where}"
        if not any(can_be_bought_from(each) for each in chosen):
            return "NoCapacityAnnounced", f"no MachineDeployment {where} announces its cpu and memory"
        return None

    async def create(self, cluster: str, claim: Object) -> Instance:
        if annotation(claim, MACHINE):
            return await self._launched(cluster, claim)
        uid = claim["metadata"]["uid"]
        if uid in self.refused:
            raise InsufficientCapacity(self.refused[uid])
        chosen = annotation(claim, MACHINE_DEPLOYMENT)
        if not chosen:
            chosen = await self._choose(cluster, claim)
        raise NotYet(f"waiting for a Machine of MachineDeployment {chosen}")

    async def delete(self, cluster: str, claim: Object) -> None:
        self.refused.pop(claim["metadata"]["uid"], None)
        machine = await self._machine(cluster, claim)
        if machine is None:
            raise NodeClaimNotFound(f"no Machine is behind NodeClaim {claim['metadata']['name']}")
        if is_going(machine) or is_marked(machine):
            return
        metadata = machine["metadata"]
        patch = {"metadata": {"annotations": {capi.DELETE_MACHINE: rfc3339(self._clock.now())}}}
        marked = await self._homes.management.merge(MACHINES, metadata["name"], patch, metadata["namespace"])
        self.machines.learn(AT_HOME, marked)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        machine = self.machine_of(cluster, claim)
        return self._instance(machine) if machine is not None else None

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        found = self.get(cluster, claim)
        if found is not None:
            return found
        namespace, _, name = annotation(claim, MACHINE_DEPLOYMENT).partition("/")
        deployment = self.deployments.get(AT_HOME, name, namespace) if name else None
        if deployment is not None and home_of(deployment) == self._homes.of(cluster):
            return Instance("", node_labels(deployment), capacity(deployment), capacity(deployment))
        node_class = self._view.classes.get(cluster, class_ref(claim["spec"]).get("name", ""))
        if node_class is None:
            return None
        types = instance_types(self._sellers(cluster, node_class), self._claimed(cluster))
        best = cheapest(types, *_wishes(claim))
        return Instance("", best[1].labels, best[0].capacity, best[0].allocatable) if best is not None else None

    def machine_of(self, cluster: str, claim: Object) -> Object | None:
        """By what the Machine says: a NodeClaim is its cluster's to write, and could name another's."""
        place = self._of_claim.get(claim["metadata"]["uid"])
        found = self.machines.get(AT_HOME, place[1], place[0]) if place is not None else None
        return found if found is not None and self._belongs(found, cluster, claim) else None

    def _belongs(self, machine: Object, cluster: str, claim: Object) -> bool:
        return home_of(machine) == self._homes.of(cluster) and is_claimed_by(machine, claim)

    def machines_of(self, deployment: str) -> list[Object]:
        """Of a MachineDeployment, by namespace/name."""
        places = self._of_deployment.get(deployment, ())
        found = (self.machines.get(AT_HOME, name, namespace) for namespace, name in sorted(places))
        return [machine for machine in found if machine is not None]

    async def _machine(self, cluster: str, claim: Object) -> Object | None:
        """None only if the server says so: what is not in the copy may not have arrived there yet."""
        found = self.machine_of(cluster, claim)
        if found is not None:
            return found
        if not self.synced:
            raise NotYet("the Machines are not known yet")
        namespace, _, name = annotation(claim, MACHINE).partition("/")
        if not name:
            return None
        try:
            machine = await self._homes.management.get(MACHINES, name, namespace)
        except NotFound as error:
            if error.kind != MACHINES.plural:
                raise
            return None
        return machine if self._belongs(machine, cluster, claim) else None

    async def _launched(self, cluster: str, claim: Object) -> Instance:
        machine = await self._machine(cluster, claim)
        name = annotation(claim, MACHINE)
        if machine is None or is_going(machine):
            raise InsufficientCapacity(f"Machine {name} has gone")
        found = self._instance(machine)
        if not found.provider_id:
            raise NotYet(f"waiting for the providerID of Machine {name}")
        return found

    async def _choose(self, cluster: str, claim: Object) -> str:
        if not self.synced:
            raise NotYet("the MachineDeployments are not known yet")
        spec = claim["spec"]
        node_class = self._view.classes.get(cluster, class_ref(spec).get("name", ""))
        if node_class is None or is_going(node_class):
            raise NodeClassNotReady(f"there is no ClusterAPINodeClass {class_ref(spec).get('name')!r}")
        types = instance_types(self._sellers(cluster, node_class), self._claimed(cluster))
        best = cheapest(types, *_wishes(claim))
        if best is None:
            raise InsufficientCapacity(
                "no MachineDeployment with room satisfies the requirements and has the resources"
            )
        name, chosen = claim["metadata"]["name"], best[1].name
        metadata = {
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "annotations": {MACHINE_DEPLOYMENT: chosen},
        }
        written = await self._homes.client(cluster).merge(CLAIMS, name, {"metadata": metadata})
        self._view.claims.learn(cluster, written)
        return chosen

    def _claimed(self, cluster: str) -> Counter[str]:
        """How many NodeClaims live on each MachineDeployment."""
        living = (claim for claim in self._view.claims.of(cluster) if lives_on(claim, self.machine_of(cluster, claim)))
        return Counter(annotation(claim, MACHINE_DEPLOYMENT) for claim in living)

    def _foreseen(self, cluster: str, types: list[InstanceType], claimed: Counter[str]) -> Counter[str]:
        """Those that have chosen nothing yet counted with what they would."""
        found = Counter(claimed)
        for claim in self._view.claims.of(cluster):
            if not annotation(claim, MACHINE_DEPLOYMENT) and lives_on(claim, self.machine_of(cluster, claim)):
                best = cheapest(types, *_wishes(claim))
                if best is not None:
                    found[best[1].name] += 1
        return found

    def _sellers(self, cluster: str, node_class: Object) -> list[Object]:
        home = self._homes.of(cluster)
        members = self._deployments(home) if home is not None else []
        return [each for each in members if can_be_bought_from(each) and selected(each, node_class)]

    def _deployments(self, home: Home) -> list[Object]:
        return [each for each in self.deployments.of(AT_HOME) if home_of(each) == home]

    def _machine_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for machine in (old, new):
            if machine is None:
                continue
            place, owner = (key[1], key[2]), annotation(machine, CLAIMED_BY_UID)
            if machine is new:
                self._of_deployment.setdefault(deployment_name(machine), set()).add(place)
                if owner:
                    self._of_claim[owner] = place
            else:
                self._of_deployment.get(deployment_name(machine), set()).discard(place)
                self._of_claim.pop(owner, None)

    def _instance(self, machine: Object) -> Instance:
        namespace = machine["metadata"]["namespace"]
        deployment = self.deployments.get(AT_HOME, capi.labels_of(machine).get(capi.DEPLOYMENT_NAME, ""), namespace)
        has = capacity(deployment) if deployment is not None else {}
        labels = node_labels(deployment) if deployment is not None else {}
        provider_id = str((machine.get("spec") or {}).get("providerID") or "")
        return Instance(provider_id, labels, has, has, is_going(machine))


def _wishes(claim: Object) -> tuple[Requirements, Resources]:
    spec = claim["spec"]
    needs = amounts((spec.get("resources") or {}).get("requests"))
    return from_expressions(spec.get("requirements")), needs


def deployment_name(machine: Object) -> str:
    """namespace/name of the MachineDeployment it is of."""
    return f"{machine['metadata']['namespace']}/{capi.labels_of(machine).get(capi.DEPLOYMENT_NAME, '')}"


def home_of(obj: Object) -> Home:
    """Of a Machine or MachineDeployment."""
    return Home(obj["metadata"]["namespace"], capi.cluster_name(obj))
