"""Cloud provider on Cluster API: chooses a node group for a NodeClaim, waits for a Machine or creates one, deletes it.

A NodeClaim names its MachineDeployment (or machine template) before anything is scaled or created. A Machine names its
NodeClaim before the NodeClaim names the Machine. After an interruption at any point, `machine_assignment` derives
ownership from these annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.fit.requirements import Requirements, from_expressions
from shoal.fit.resources import Resources, amounts
from shoal.kinds import capi
from shoal.kinds.karpenter import (
    CLAIMED_BY,
    CLAIMED_BY_UID,
    CLASS_GROUP,
    CLASS_VERSION,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_TEMPLATE,
    NODE_CLASS,
    READY,
    annotation,
    class_ref,
    is_going,
)
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import (
    ClassKind,
    Instance,
    Instances,
    InstanceType,
    InstanceTypes,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    NotYet,
    Offering,
    RepairPolicy,
    Told,
)
from shoal.provision.clusterapi import drift
from shoal.provision.clusterapi.decide import is_marked, lives_on
from shoal.provision.clusterapi.making import Making
from shoal.provision.clusterapi.offers import cheapest, instance_types
from shoal.provision.clusterapi.ownerless import TEMPLATE_HASH
from shoal.provision.clusterapi.sellers import Seller, entries, entry_of, full_name, is_entry, selected
from shoal.provision.clusterapi.stock import DEPLOYMENTS, MACHINES, Stock, deployment_name, home_of
from shoal.provision.homes import Home, Homes
from shoal.provision.view import CLAIMS, View

__all__ = ["DEPLOYMENTS", "MACHINES", "ClusterAPI"]

Object = dict[str, Any]
Sellers = list[Seller]
Priced = Callable[[str, InstanceTypes, Object], InstanceTypes]
"""Applies the NodeOverlays that hold for a NodeClaim to the types of a cluster."""

_UNHEALTHY = (
    (READY, "False"),
    (READY, "Unknown"),
    ("NetworkUnavailable", "True"),
    ("KernelDeadlock", "True"),
    ("ReadonlyFilesystem", "True"),
)
"""Node conditions that a machine does not recover from. The last two are from the node problem detector."""
UNHEALTHY_SECONDS = 600.0
DRAINED = {capi.EXCLUDE_NODE_DRAINING: "", capi.EXCLUDE_VOLUME_DETACH: ""}
"""Annotations of a Machine to be deleted: its node is already drained, or is not waited for."""


class ClusterAPI:
    name = "clusterapi"

    def __init__(self, homes: Homes, view: View, clock: Clock, priced: Priced | None = None) -> None:
        """`overlay_types` replaces announced prices by those of NodeOverlays."""
        self._homes, self._view, self._clock, self._priced = homes, view, clock, priced
        self.stock = Stock(homes, clock, self._repriced)
        self._making = Making(self.stock, homes, view)
        self.refused: dict[str, str] = {}
        """By uid: NodeClaims that exceed the size of their MachineDeployment, and the message."""
        self._told: list[Told] = []
        view.classes.listen(lambda key, old, new: self._making.ask(new) if new is not None else None)

    def listen(self, told: Told) -> None:
        self._told.append(told)

    def tell(self, cluster: str, claim: str = "") -> None:
        for told in self._told:
            told(cluster, claim)

    @property
    def synced(self) -> bool:
        return self.stock.synced and self._view.synced

    def supported_node_classes(self) -> tuple[ClassKind, ...]:
        return (ClassKind(CLASS_GROUP, CLASS_VERSION, NODE_CLASS),)

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return tuple(RepairPolicy(condition, status, UNHEALTHY_SECONDS) for condition, status in _UNHEALTHY)

    def instance_types(self, cluster: str, node_class: Object) -> InstanceTypes:
        found = self.stock.sellers(self._homes.of(cluster), node_class)
        claimed = self._claimed(cluster, found)
        types = instance_types(found, claimed)
        return instance_types(found, self._foreseen(cluster, types, claimed)) if claimed[""] else types

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        home = self._homes.of(cluster)
        if home is None:
            return "NoCluster", "no Cluster API Cluster stands behind this cluster"
        if self.stock.sellers(home, node_class):
            return None
        where, members = f"of Cluster {home.namespace}/{home.name}", self.stock.members(home)
        templates = entries(node_class)
        if templates and not any(self.stock.template(home, each) for each in templates):
            return "NoMachineTemplates", f"no template of machineTemplates is there and has {capi.KARPENTER_MEMBER}"
        chosen = [each for each in members if selected(each, node_class)]
        if not chosen and not templates:
            if members:
                said = f"scalableResourceSelector matches none of the MachineDeployments {where}"
                return "NoMachineDeployments", said
            return "NoMachineDeployments", f"no MachineDeployment {where} has the label {capi.KARPENTER_MEMBER}"
        if templates:
            return "NoCapacityAnnounced", "no machine template says its cpu and memory"
        return "NoCapacityAnnounced", f"no MachineDeployment {where} announces its cpu and memory"

    async def create(self, cluster: str, claim: Object) -> Instance:
        if annotation(claim, MACHINE):
            return await self._launched(cluster, claim)
        uid = claim["metadata"]["uid"]
        if uid in self.refused:
            raise InsufficientCapacity(self.refused[uid])
        if not self.synced:
            raise NotYet("the MachineDeployments are not known yet")
        if not _chosen(claim):
            claim = await self._choose(cluster, claim)
        chosen = _chosen(claim)
        if not is_entry(chosen):
            if self._seller(cluster, claim) is None:
                raise InsufficientCapacity(f"MachineDeployment {chosen} takes no part any more")
            raise NotYet(f"waiting for a Machine of MachineDeployment {chosen}")
        self._check_room(cluster, claim, chosen)
        return await self._launched(cluster, await self._making.make(cluster, claim, chosen))

    async def delete(self, cluster: str, claim: Object) -> None:
        self.refused.pop(claim["metadata"]["uid"], None)
        machine = await self._machine(cluster, claim)
        if machine is None:
            raise NodeClaimNotFound(f"no Machine is behind NodeClaim {claim['metadata']['name']}")
        metadata, management = machine["metadata"], self._homes.management
        if is_going(machine):
            return
        if not is_marked(machine):
            said = {**DRAINED, capi.DELETE_MACHINE: rfc3339(self._clock.now())}
            patch = {"metadata": {"uid": metadata["uid"], "annotations": said}}
            marked = await management.merge(MACHINES, metadata["name"], patch, metadata["namespace"])
            self.stock.learn(marked)
        if self.stock.deployment(deployment_name(machine)) is None:
            await management.delete(MACHINES, metadata["name"], metadata["namespace"], uid=metadata["uid"])

    def get(self, cluster: str, claim: Object) -> Instance | None:
        machine = self.stock.machine_of(cluster, claim)
        return self._instance(cluster, machine) if machine is not None else None

    def list(self, cluster: str) -> Instances:
        home = self._homes.of(cluster)
        return [self._instance(cluster, each) for each in self.stock.claimed(home)] if home is not None else []

    def is_drifted(self, cluster: str, claim: Object) -> str:
        machine = self.stock.machine_of(cluster, claim)
        if machine is None:
            raise NodeClaimNotFound(f"no Machine is behind NodeClaim {claim['metadata']['name']}")
        if not self.synced:
            return ""
        chosen = annotation(claim, MACHINE_TEMPLATE)
        if chosen:
            try:
                now = self._making.fingerprint(cluster, claim, chosen)
            except NotYet:
                return ""
            return drift.of_template(annotation(machine, TEMPLATE_HASH), now)
        deployment = self.stock.deployment(deployment_name(machine))
        sets = self.stock.sets_of(deployment) if deployment is not None else []
        return drift.of_deployment(machine, deployment, sets, self._node_class(cluster, claim))

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        found = self.get(cluster, claim)
        if found is not None:
            return found
        seller = self._seller(cluster, claim)
        if seller is not None:
            return Instance("", seller.labels, seller.capacity, seller.capacity)
        best = self._best(cluster, claim)
        return Instance("", best[1].labels, best[0].capacity, best[0].allocatable) if best is not None else None

    async def _machine(self, cluster: str, claim: Object) -> Object | None:
        """Returns None only if the server confirms it: a missing Machine may not have reached the cache yet."""
        found = self.stock.machine_of(cluster, claim)
        if found is not None:
            return found
        if not self.synced:
            raise NotYet("the Machines are not known yet")
        namespace, _, name = annotation(claim, MACHINE).partition("/")
        if not name:
            return await self._making.find(cluster, claim) if annotation(claim, MACHINE_TEMPLATE) else None
        try:
            machine = await self._homes.management.get(MACHINES, name, namespace)
        except NotFound as error:
            if error.kind != MACHINES.plural:
                raise
            return None
        if not self.stock.belongs(machine, cluster, claim):
            return None
        self.stock.learn(machine)  # `get` must know it too: a launched NodeClaim without an instance is deleted
        return machine

    async def _launched(self, cluster: str, claim: Object) -> Instance:
        machine = await self._machine(cluster, claim)
        name = annotation(claim, MACHINE)
        if machine is None or is_going(machine):
            raise InsufficientCapacity(f"Machine {name} has gone")
        found = self._instance(cluster, machine)
        if not found.provider_id:
            raise NotYet(f"waiting for the providerID of Machine {name}")
        return found

    async def _choose(self, cluster: str, claim: Object) -> Object:
        if self._node_class(cluster, claim) is None:
            name = class_ref(claim["spec"]).get("name")
            raise NodeClassNotReady(f"there is no ClusterAPINodeClass {name!r}")
        best = self._best(cluster, claim)
        if best is None:
            raise InsufficientCapacity(
                "no MachineDeployment with room satisfies the requirements and has the resources"
            )
        name, chosen = claim["metadata"]["name"], best[1].name
        metadata = {
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "annotations": {MACHINE_TEMPLATE if is_entry(chosen) else MACHINE_DEPLOYMENT: chosen},
        }
        written = await self._homes.client(cluster).merge(CLAIMS, name, {"metadata": metadata})
        return self._view.claims.learn(cluster, written)

    def _best(self, cluster: str, claim: Object) -> tuple[InstanceType, Offering] | None:
        node_class = self._node_class(cluster, claim)
        if node_class is None:
            return None
        found = self.stock.sellers(self._homes.of(cluster), node_class)
        types = instance_types(found, self._claimed(cluster, found))
        return cheapest(types if self._priced is None else self._priced(cluster, types, claim), *_wishes(claim))

    def _check_room(self, cluster: str, claim: Object, chosen: str) -> None:
        """If more NodeClaims chose the template than its limit, those with a Machine win, then the oldest."""
        seller = self._seller(cluster, claim)
        if seller is None or seller.most is None:
            return
        ahead = sum(
            self.stock.machine_of(cluster, each) is not None or _age_order(each) < _age_order(claim)
            for each in self._living(cluster)
            if _chosen(each) == chosen and each["metadata"]["uid"] != claim["metadata"]["uid"]
        )
        if ahead >= seller.most and self.stock.machine_of(cluster, claim) is None:
            raise InsufficientCapacity(f"machine template {chosen} has reached its limit of {seller.most}")

    def _seller(self, cluster: str, claim: Object) -> Seller | None:
        """Node group chosen for the NodeClaim; None if none was chosen or it no longer exists."""
        home, chosen = self._homes.of(cluster), _chosen(claim)
        if home is None or not chosen:
            return None
        if not is_entry(chosen):
            deployment = self.stock.deployment(chosen)
            return self.stock.seller(deployment) if deployment is not None and home_of(deployment) == home else None
        node_class = self._node_class(cluster, claim)
        entry = entry_of(node_class, chosen) if node_class is not None else None
        return self.stock.entry(home, node_class, entry) if node_class is not None and entry is not None else None

    def _node_class(self, cluster: str, claim: Object) -> Object | None:
        found = self._view.classes.get(cluster, class_ref(claim["spec"]).get("name", ""))
        return None if found is None or is_going(found) else found

    def _living(self, cluster: str) -> Iterable[Object]:
        """NodeClaims that have or need a Machine."""
        claims = self._view.claims.of(cluster)
        return (claim for claim in claims if lives_on(claim, self.stock.machine_of(cluster, claim)))

    def _claimed(self, cluster: str, sellers: Sellers) -> Counter[str]:
        """Number of NodeClaims by node group; computed only if a group has a limit."""
        limited = any(seller.most is not None for seller in sellers)
        return Counter(_chosen(claim) for claim in self._living(cluster)) if limited else Counter()

    def _foreseen(self, cluster: str, types: InstanceTypes, claimed: Counter[str]) -> Counter[str]:
        """Adds NodeClaims without a choice to the group they would choose."""
        found = Counter(claimed)
        for claim in self._living(cluster):
            best = cheapest(types, *_wishes(claim)) if not _chosen(claim) else None
            if best is not None:
                found[best[1].name] += 1
        return found

    def _repriced(self, namespace: str) -> None:
        for cluster in self._view.classes.clusters():
            home: Home | None = self._homes.of(cluster)
            if home is not None and namespace in ("", home.namespace):
                self.tell(cluster)

    def _instance(self, cluster: str, machine: Object) -> Instance:
        """Builds the Instance from what is known; a malformed Machine yields little."""
        claim = self._view.claims.get(cluster, annotation(machine, CLAIMED_BY))
        deployment = self.stock.deployment(deployment_name(machine))
        seller = self.stock.seller(deployment) if deployment is not None else None
        if seller is None and claim is not None:
            seller = self._seller(cluster, claim)
        has = seller.capacity if seller is not None else {}
        spec = machine.get("spec") or {}
        return Instance(
            provider_id=str(spec.get("providerID") or ""),
            labels=seller.labels if seller is not None else {},
            capacity=has,
            allocatable=has,
            going=is_going(machine),
            name=full_name(machine),
            claim=annotation(machine, CLAIMED_BY),
            claim_uid=annotation(machine, CLAIMED_BY_UID),
        )


def _wishes(claim: Object) -> tuple[Requirements, Resources, Sequence[Object]]:
    """Requirements, requests and allowed taints of a NodeClaim."""
    spec = claim["spec"]
    needs = amounts((spec.get("resources") or {}).get("requests"))
    taints = [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())]
    return from_expressions(spec.get("requirements")), needs, taints


def _chosen(claim: Object) -> str:
    """Name of the offering chosen for a NodeClaim."""
    return annotation(claim, MACHINE_DEPLOYMENT) or annotation(claim, MACHINE_TEMPLATE)


def _age_order(claim: Object) -> tuple[str, str]:
    return claim["metadata"].get("creationTimestamp", ""), claim["metadata"]["name"]
