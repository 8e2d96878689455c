"""Creates standalone Machines, without a MachineDeployment, and the objects they reference.

The order is Machine, bootstrap configuration, infrastructure, then the NodeClaim that names the Machine. After an
interruption the next attempt continues from there. Existing objects are left unchanged.
"""

from __future__ import annotations

from typing import Any

from shoal.client.rest import GroupVersionResource
from shoal.kinds.karpenter.karpenter import MACHINE_ANNOTATION, is_deleting, node_class_ref
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.provision.cloudprovider.types import CreateError, InsufficientCapacity, NotSynced
from shoal.provision.clusterapi.decide import is_claimed_by
from shoal.provision.clusterapi.machine_state import MACHINES, MANAGEMENT_CLUSTER, MachineState
from shoal.provision.clusterapi.nodegroups import full_name, is_usable_template, machine_templates, template_by_offering
from shoal.provision.clusterapi.optional_informers import resolve_kind
from shoal.provision.clusterapi.standalone_machine import (
    bootstrap_reference,
    clone_template,
    machine_name,
    new_machine,
    template_hash,
)
from shoal.provision.management import CAPIClusterRef, ManagementResolver
from shoal.provision.state import NODE_CLAIMS, ClusterState

Object = dict[str, Any]


class StandaloneMachineClient:
    def __init__(self, machine_state: MachineState, resolver: ManagementResolver, state: ClusterState) -> None:
        self._machine_state, self._resolver, self._state = machine_state, resolver, state
        self._resources: dict[tuple[str, str], GroupVersionResource] = {}

    def watch_templates(self, node_class: Object) -> None:
        """Starts to watch the templates of a node class, so that they are cached when needed."""
        for entry in machine_templates(node_class):
            for reference in (entry.get("infrastructureRef"), bootstrap_reference(entry)):
                self._machine_state.templates.has_synced(reference or {})

    async def create(self, cluster: str, claim: Object, offering: str) -> Object:
        """Returns the NodeClaim with its Machine. `offering`: name of the offering."""
        capi_cluster, (entry, template, bootstrap) = (
            self._capi_cluster(cluster),
            self._templates(cluster, claim, offering),
        )
        desired = new_machine(capi_cluster, claim, entry, template, bootstrap)
        machine = await self._create_machine(desired, claim)
        reference = bootstrap_reference(entry)
        if reference is not None and bootstrap is not None:
            await self._create_clone(clone_template(bootstrap, reference, machine))
        await self._create_clone(clone_template(template, entry["infrastructureRef"], machine))
        metadata = {"uid": claim["metadata"]["uid"], "annotations": {MACHINE_ANNOTATION: full_name(machine)}}
        written = await self._resolver.client(cluster).merge_patch(
            NODE_CLAIMS, claim["metadata"]["name"], {"metadata": metadata}
        )
        return self._state.node_claims.observe_write(written, cluster)

    async def find(self, cluster: str, claim: Object) -> Object | None:
        """Returns the Machine that would have been created; None only if the server confirms that it does not exist."""
        capi_cluster = self._capi_cluster(cluster)
        try:
            machine = await self._resolver.management_client.get(
                MACHINES, machine_name(capi_cluster, claim), capi_cluster.namespace
            )
        except NotFound as error:
            if error.kind != MACHINES.resource:
                raise
            return None
        return machine if self._machine_state.belongs_to(machine, cluster, claim) else None

    def template_hash(self, cluster: str, claim: Object, offering: str) -> str | None:
        """Current template hash; None if the templates were deleted. Raises NotSynced while the templates are
        unknown.
        """
        node_class = self._state.node_classes.get((cluster, "", node_class_ref(claim["spec"]).get("name", "")))
        entry = template_by_offering(node_class, offering) if node_class is not None else None
        references = [entry["infrastructureRef"], bootstrap_reference(entry)] if entry is not None else []
        unknown = any(each is not None and not self._machine_state.templates.has_synced(each) for each in references)
        if node_class is None or unknown:
            raise NotSynced("the templates are not listed yet")
        try:
            return template_hash(*self._templates(cluster, claim, offering))
        except InsufficientCapacity:
            return None

    def _capi_cluster(self, cluster: str) -> CAPIClusterRef:
        capi_cluster = self._resolver.capi_cluster_of(cluster)
        if capi_cluster is None:
            raise InsufficientCapacity("this cluster has no Cluster API Cluster")
        return capi_cluster

    def _templates(self, cluster: str, claim: Object, offering: str) -> tuple[Object, Object, Object | None]:
        """Returns the machine template of the node class, the infrastructure template and the bootstrap template."""
        capi_cluster = self._capi_cluster(cluster)
        node_class = self._state.node_classes.get((cluster, "", node_class_ref(claim["spec"]).get("name", "")))
        entry = template_by_offering(node_class, offering) if node_class is not None else None
        if entry is None:
            raise InsufficientCapacity(f"machine template {offering} no longer exists")
        template = self._machine_state.infrastructure_template(capi_cluster, entry)
        if template is None:
            raise InsufficientCapacity(f"the infrastructure template of {offering} does not exist or is not selected")
        reference = bootstrap_reference(entry)
        bootstrap = (
            self._machine_state.templates.get(capi_cluster.namespace, reference) if reference is not None else None
        )
        if reference is not None and not is_usable_template(bootstrap, capi_cluster.name):
            if not self._machine_state.templates.is_settled:
                raise NotSynced("the bootstrap templates are not listed yet")
            raise InsufficientCapacity(f"the bootstrap template of {offering} does not exist or is not selected")
        return entry, template, bootstrap

    async def _create_machine(self, desired: Object, claim: Object) -> Object:
        metadata, management = desired["metadata"], self._resolver.management_client
        machine = self._machine_state.machines.get((MANAGEMENT_CLUSTER, metadata["namespace"], metadata["name"]))
        if machine is None:
            try:
                machine = await management.create(MACHINES, desired, metadata["namespace"])
            except AlreadyExists:
                machine = await management.get(MACHINES, metadata["name"], metadata["namespace"])
            self._machine_state.machines.observe_write(machine)
        if not is_claimed_by(machine, claim):
            raise CreateError("MachineNameTaken", f"Machine {full_name(machine)} belongs to another NodeClaim")
        if is_deleting(machine):
            raise InsufficientCapacity(f"Machine {full_name(machine)} is being deleted")
        return machine

    async def _create_clone(self, desired: Object) -> None:
        group, _, version = desired["apiVersion"].rpartition("/")
        kind = self._resources.get((desired["apiVersion"], desired["kind"]))
        if kind is None:
            kind = await resolve_kind(self._resolver.management_client, group, desired["kind"], version)
            if kind is None:
                raise CreateError(
                    "KindNotServed",
                    f"the management cluster does not serve {desired['kind']} of {desired['apiVersion']}",
                )
            self._resources[desired["apiVersion"], desired["kind"]] = kind
        try:
            await self._resolver.management_client.create(
                kind, desired, desired["metadata"]["namespace"], metadata_only=True
            )
        except AlreadyExists:
            return
