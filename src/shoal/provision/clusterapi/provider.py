"""Cloud provider on Cluster API: takes the steps of a launch that `decide_launch` returns, and deletes Machines.

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
from shoal.fit.resources import Resources, parse_amounts
from shoal.kinds.clusterapi import capi
from shoal.kinds.karpenter.karpenter import (
    MACHINE_ANNOTATION,
    MACHINE_DEPLOYMENT_ANNOTATION,
    MACHINE_TEMPLATE_ANNOTATION,
    NODE_CLAIM_ANNOTATION,
    NODE_CLAIM_UID_ANNOTATION,
    NODE_CLASS,
    NODE_CLASS_GROUP,
    NODE_CLASS_VERSION,
    READY,
    annotation_of,
    is_deleting,
    node_class_ref,
)
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import (
    Instance,
    Instances,
    InstanceType,
    InstanceTypes,
    InsufficientCapacity,
    LaunchPending,
    NodeClaimHandler,
    NodeClaimNotFound,
    NodeClassKind,
    NodeClassNotReady,
    NotSynced,
    Offering,
    RepairPolicy,
)
from shoal.provision.clusterapi.decide import (
    ChooseOffering,
    CreateMachine,
    FailLaunch,
    FinishLaunch,
    LaunchSnapshot,
    WaitForMachine,
    chosen_offering,
    decide_launch,
    is_marked_for_deletion,
    needs_machine,
)
from shoal.provision.clusterapi.machine_state import (
    MACHINE_DEPLOYMENTS,
    MACHINES,
    MachineState,
    capi_cluster_of,
    deployment_name,
)
from shoal.provision.clusterapi.nodegroups import (
    NodeGroup,
    deployment_drift,
    full_name,
    is_selected,
    is_template_offering,
    machine_templates,
    template_by_offering,
    template_drift,
)
from shoal.provision.clusterapi.offerings import cheapest, instance_types
from shoal.provision.clusterapi.standalone_machine import TEMPLATE_HASH
from shoal.provision.clusterapi.standalone_machine_client import StandaloneMachineClient
from shoal.provision.management import CAPIClusterRef, ManagementResolver
from shoal.provision.state import NODE_CLAIMS, ClusterState
from shoal.runtime.informer_store import by_cluster

__all__ = ["MACHINES", "MACHINE_DEPLOYMENTS", "ClusterAPIProvider"]

Object = dict[str, Any]
NodeGroups = list[NodeGroup]
OverlayTypes = Callable[[str, InstanceTypes, Object], InstanceTypes]
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
SKIP_DRAIN_ANNOTATIONS = {capi.EXCLUDE_NODE_DRAINING: "", capi.EXCLUDE_VOLUME_DETACH: ""}
"""Annotations of a Machine to be deleted: its node is already drained, or is not waited for."""


class ClusterAPIProvider:
    name = "clusterapi"

    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, clock: Clock, overlay_types: OverlayTypes | None = None
    ) -> None:
        """`overlay_types` replaces announced prices by those of NodeOverlays."""
        self._resolver, self._state, self._clock, self._overlay_types = resolver, state, clock, overlay_types
        self.machine_state = MachineState(resolver, clock, self._on_price_change)
        self._standalone_machines = StandaloneMachineClient(self.machine_state, resolver, state)
        self.rejected: dict[str, str] = {}
        """By uid: NodeClaims that exceed the size of their MachineDeployment, and the message."""
        self._handlers: list[NodeClaimHandler] = []
        state.node_classes.add_event_handler(
            lambda key, old, new: self._standalone_machines.watch_templates(new) if new is not None else None
        )

    def add_event_handler(self, handler: NodeClaimHandler) -> None:
        self._handlers.append(handler)

    def notify(self, cluster: str, claim: str = "") -> None:
        for handler in self._handlers:
            handler(cluster, claim)

    @property
    def has_synced(self) -> bool:
        return self.machine_state.has_synced and self._state.has_synced

    def supported_node_classes(self) -> tuple[NodeClassKind, ...]:
        return (NodeClassKind(NODE_CLASS_GROUP, NODE_CLASS_VERSION, NODE_CLASS),)

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return tuple(RepairPolicy(condition, status, UNHEALTHY_SECONDS) for condition, status in _UNHEALTHY)

    def instance_types(self, cluster: str, node_class: Object) -> InstanceTypes:
        groups = self.machine_state.node_groups(self._resolver.capi_cluster_of(cluster), node_class)
        claimed = self._claims_by_group(cluster, groups)
        types = instance_types(groups, claimed)
        return instance_types(groups, self._with_unassigned_claims(cluster, types, claimed)) if claimed[""] else types

    def node_class_error(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        capi_cluster = self._resolver.capi_cluster_of(cluster)
        if capi_cluster is None:
            return "NoCluster", "this cluster has no Cluster API Cluster"
        if self.machine_state.node_groups(capi_cluster, node_class):
            return None
        subject, members = (
            f"of Cluster {capi_cluster.namespace}/{capi_cluster.name}",
            self.machine_state.member_deployments(capi_cluster),
        )
        templates = machine_templates(node_class)
        if templates and not any(self.machine_state.infrastructure_template(capi_cluster, each) for each in templates):
            return (
                "NoMachineTemplates",
                f"no template of machineTemplates exists with the label {capi.KARPENTER_MEMBER}",
            )
        selected_members = [each for each in members if is_selected(each, node_class)]
        if not selected_members and not templates:
            if members:
                message = f"scalableResourceSelector matches none of the MachineDeployments {subject}"
                return "NoMachineDeployments", message
            return "NoMachineDeployments", f"no MachineDeployment {subject} has the label {capi.KARPENTER_MEMBER}"
        if templates:
            return "NoCapacityAnnounced", "no machine template declares its cpu and memory"
        return "NoCapacityAnnounced", f"no MachineDeployment {subject} declares its cpu and memory"

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        while True:
            match decide_launch(await self._launch_snapshot(cluster, claim)):
                case ChooseOffering():
                    claim = await self._choose(cluster, claim)
                case CreateMachine(offering):
                    self._check_limit(cluster, claim, offering)
                    claim = await self._standalone_machines.create(cluster, claim, offering)
                case WaitForMachine(message):
                    return LaunchPending(message)
                case FailLaunch(message):
                    raise InsufficientCapacity(message)
                case FinishLaunch(machine):
                    return self._instance(cluster, machine)

    async def _launch_snapshot(self, cluster: str, claim: Object) -> LaunchSnapshot:
        if annotation_of(claim, MACHINE_ANNOTATION):
            return LaunchSnapshot(claim, await self._machine(cluster, claim), "", has_node_group=True)
        rejection = self.rejected.get(claim["metadata"]["uid"], "")
        if not rejection and not self.has_synced:
            raise NotSynced("the MachineDeployments are not listed yet")
        return LaunchSnapshot(claim, None, rejection, self._node_group(cluster, claim) is not None)

    async def delete(self, cluster: str, claim: Object) -> None:
        self.rejected.pop(claim["metadata"]["uid"], None)
        machine = await self._machine(cluster, claim)
        if machine is None:
            raise NodeClaimNotFound(f"there is no Machine for NodeClaim {claim['metadata']['name']}")
        metadata, management = machine["metadata"], self._resolver.management_client
        if is_deleting(machine):
            return
        if not is_marked_for_deletion(machine):
            machine_annotations = {**SKIP_DRAIN_ANNOTATIONS, capi.DELETE_MACHINE: rfc3339(self._clock.now())}
            patch = {"metadata": {"uid": metadata["uid"], "annotations": machine_annotations}}
            marked = await management.merge_patch(MACHINES, metadata["name"], patch, metadata["namespace"])
            self.machine_state.machines.observe_write(marked)
        if self.machine_state.deployment(deployment_name(machine)) is None:
            await management.delete(MACHINES, metadata["name"], metadata["namespace"], uid=metadata["uid"])

    def get(self, cluster: str, claim: Object) -> Instance | None:
        machine = self.machine_state.machine_of(cluster, claim)
        return self._instance(cluster, machine) if machine is not None else None

    def list(self, cluster: str) -> Instances:
        capi_cluster = self._resolver.capi_cluster_of(cluster)
        return (
            [self._instance(cluster, each) for each in self.machine_state.claimed_machines(capi_cluster)]
            if capi_cluster is not None
            else []
        )

    def is_drifted(self, cluster: str, claim: Object) -> str:
        machine = self.machine_state.machine_of(cluster, claim)
        if machine is None:
            raise NodeClaimNotFound(f"there is no Machine for NodeClaim {claim['metadata']['name']}")
        if not self.has_synced:
            return ""
        template = annotation_of(claim, MACHINE_TEMPLATE_ANNOTATION)
        if template:
            try:
                current_hash = self._standalone_machines.template_hash(cluster, claim, template)
            except NotSynced:
                return ""
            return template_drift(annotation_of(machine, TEMPLATE_HASH), current_hash)
        deployment = self.machine_state.deployment(deployment_name(machine))
        sets = self.machine_state.machine_sets_of(deployment) if deployment is not None else []
        return deployment_drift(machine, deployment, sets, self._node_class(cluster, claim))

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        instance = self.get(cluster, claim)
        if instance is not None:
            return instance
        group = self._node_group(cluster, claim)
        if group is not None:
            return Instance("", group.labels, group.capacity, group.allocatable)
        best = self._cheapest_offering(cluster, claim)
        return Instance("", best[1].labels, best[0].capacity, best[0].allocatable) if best is not None else None

    async def _machine(self, cluster: str, claim: Object) -> Object | None:
        """Returns None only if the server confirms it: a missing Machine may not have reached the cache yet."""
        cached = self.machine_state.machine_of(cluster, claim)
        if cached is not None:
            return cached
        if not self.has_synced:
            raise NotSynced("the Machines are not listed yet")
        namespace, _, name = annotation_of(claim, MACHINE_ANNOTATION).partition("/")
        if not name:
            return (
                await self._standalone_machines.find(cluster, claim)
                if annotation_of(claim, MACHINE_TEMPLATE_ANNOTATION)
                else None
            )
        try:
            machine = await self._resolver.management_client.get(MACHINES, name, namespace)
        except NotFound as error:
            if error.kind != MACHINES.resource:
                raise
            return None
        if not self.machine_state.belongs_to(machine, cluster, claim):
            return None
        self.machine_state.machines.observe_write(
            machine
        )  # `get` must know it too: a launched NodeClaim without an instance is deleted
        return machine

    async def _choose(self, cluster: str, claim: Object) -> Object:
        if self._node_class(cluster, claim) is None:
            name = node_class_ref(claim["spec"]).get("name")
            raise NodeClassNotReady(f"there is no ClusterAPINodeClass {name!r}")
        best = self._cheapest_offering(cluster, claim)
        if best is None:
            raise InsufficientCapacity(
                "no MachineDeployment with remaining replicas satisfies the requirements and resource requests"
            )
        name, offering = claim["metadata"]["name"], best[1].name
        metadata = {
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "annotations": {
                MACHINE_TEMPLATE_ANNOTATION
                if is_template_offering(offering)
                else MACHINE_DEPLOYMENT_ANNOTATION: offering
            },
        }
        written = await self._resolver.client(cluster).merge_patch(NODE_CLAIMS, name, {"metadata": metadata})
        return self._state.node_claims.observe_write(written, cluster)

    def _cheapest_offering(self, cluster: str, claim: Object) -> tuple[InstanceType, Offering] | None:
        node_class = self._node_class(cluster, claim)
        if node_class is None:
            return None
        groups = self.machine_state.node_groups(self._resolver.capi_cluster_of(cluster), node_class)
        types = instance_types(groups, self._claims_by_group(cluster, groups))
        return cheapest(
            types if self._overlay_types is None else self._overlay_types(cluster, types, claim),
            *_requirements_of(claim),
        )

    def _check_limit(self, cluster: str, claim: Object, offering: str) -> None:
        """If more NodeClaims chose the template than its limit, those with a Machine win, then the oldest."""
        group = self._node_group(cluster, claim)
        if group is None or group.max_machines is None:
            return
        ahead = sum(
            self.machine_state.machine_of(cluster, each) is not None or _age_order(each) < _age_order(claim)
            for each in self._active_claims(cluster)
            if chosen_offering(each) == offering and each["metadata"]["uid"] != claim["metadata"]["uid"]
        )
        if ahead >= group.max_machines and self.machine_state.machine_of(cluster, claim) is None:
            raise InsufficientCapacity(f"machine template {offering} has reached its limit of {group.max_machines}")

    def _node_group(self, cluster: str, claim: Object) -> NodeGroup | None:
        """Node group chosen for the NodeClaim; None if none was chosen or it no longer exists."""
        capi_cluster, offering = self._resolver.capi_cluster_of(cluster), chosen_offering(claim)
        if capi_cluster is None or not offering:
            return None
        if not is_template_offering(offering):
            deployment = self.machine_state.deployment(offering)
            return (
                self.machine_state.group_of(deployment)
                if deployment is not None and capi_cluster_of(deployment) == capi_cluster
                else None
            )
        node_class = self._node_class(cluster, claim)
        entry = template_by_offering(node_class, offering) if node_class is not None else None
        return (
            self.machine_state.group_of_template(capi_cluster, node_class, entry)
            if node_class is not None and entry is not None
            else None
        )

    def _node_class(self, cluster: str, claim: Object) -> Object | None:
        node_class = self._state.node_classes.get((cluster, "", node_class_ref(claim["spec"]).get("name", "")))
        return None if node_class is None or is_deleting(node_class) else node_class

    def _active_claims(self, cluster: str) -> Iterable[Object]:
        """NodeClaims that have or need a Machine."""
        claims = self._state.node_claims.by_index(by_cluster, cluster)
        return (claim for claim in claims if needs_machine(claim, self.machine_state.machine_of(cluster, claim)))

    def _claims_by_group(self, cluster: str, groups: NodeGroups) -> Counter[str]:
        """Number of NodeClaims by node group; computed only if a group has a limit."""
        limited = any(group.max_machines is not None for group in groups)
        return Counter(chosen_offering(claim) for claim in self._active_claims(cluster)) if limited else Counter()

    def _with_unassigned_claims(self, cluster: str, types: InstanceTypes, claimed: Counter[str]) -> Counter[str]:
        """Adds NodeClaims without a choice to the group they would choose."""
        counts = Counter(claimed)
        for claim in self._active_claims(cluster):
            best = cheapest(types, *_requirements_of(claim)) if not chosen_offering(claim) else None
            if best is not None:
                counts[best[1].name] += 1
        return counts

    def _on_price_change(self, namespace: str) -> None:
        for cluster in self._state.clusters_in(self._state.node_classes):
            capi_cluster: CAPIClusterRef | None = self._resolver.capi_cluster_of(cluster)
            if capi_cluster is not None and namespace in ("", capi_cluster.namespace):
                self.notify(cluster)

    def _instance(self, cluster: str, machine: Object) -> Instance:
        """Builds the Instance from what is known; a malformed Machine yields little."""
        claim = self._state.node_claims.get((cluster, "", annotation_of(machine, NODE_CLAIM_ANNOTATION)))
        deployment = self.machine_state.deployment(deployment_name(machine))
        group = self.machine_state.group_of(deployment) if deployment is not None else None
        if group is None and claim is not None:
            group = self._node_group(cluster, claim)
        capacity, allocatable = (group.capacity, group.allocatable) if group is not None else ({}, {})
        spec = machine.get("spec") or {}
        return Instance(
            provider_id=str(spec.get("providerID") or ""),
            labels=group.labels if group is not None else {},
            capacity=capacity,
            allocatable=allocatable,
            deleting=is_deleting(machine),
            name=full_name(machine),
            claim=annotation_of(machine, NODE_CLAIM_ANNOTATION),
            claim_uid=annotation_of(machine, NODE_CLAIM_UID_ANNOTATION),
        )


def _requirements_of(claim: Object) -> tuple[Requirements, Resources, Sequence[Object]]:
    """Requirements, requests and allowed taints of a NodeClaim."""
    spec = claim["spec"]
    requests = parse_amounts((spec.get("resources") or {}).get("requests"))
    taints = [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())]
    return from_expressions(spec.get("requirements")), requests, taints


def _age_order(claim: Object) -> tuple[str, str]:
    return claim["metadata"].get("creationTimestamp", ""), claim["metadata"]["name"]
