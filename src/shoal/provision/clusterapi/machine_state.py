"""Informers and indexes of the management side: Machines, MachineDeployments, templates and prices.

Machines are indexed by their own labels and annotations.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.clusterapi import capi
from shoal.kinds.karpenter.karpenter import NODE_CLAIM_UID_ANNOTATION, annotation_of
from shoal.provision.clusterapi.decide import is_claimed_by
from shoal.provision.clusterapi.nodegroups import (
    NodeGroup,
    full_name,
    group_of_deployment,
    group_of_entry,
    infrastructure_reference,
    is_buyable,
    is_member,
    is_selected,
    is_usable_template,
    machine_templates,
)
from shoal.provision.clusterapi.optional_informers import NamespaceHandler, OptionalInformer, TemplateInformers
from shoal.provision.clusterapi.price_list import CONFIG_MAP_NAME, PriceList, parse_price_list
from shoal.provision.management import CAPIClusterRef, ManagementResolver
from shoal.runtime.informer import Informer

Object = dict[str, Any]
log = logging.getLogger("shoal.provision")

MACHINES = GroupVersionResource(capi.GROUP, capi.VERSION, "machines")
MACHINE_DEPLOYMENTS = GroupVersionResource(capi.GROUP, capi.VERSION, "machinedeployments")
MACHINE_SETS = GroupVersionResource(capi.GROUP, capi.VERSION, "machinesets")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
MANAGEMENT_CLUSTER = ""
"""Logical cluster in the keys of the management side."""


class MachineState:
    def __init__(self, resolver: ManagementResolver, clock: Clock, on_change: NamespaceHandler) -> None:
        """`on_change` is called with a namespace whose templates or prices changed."""
        management_client, self._resolver = resolver.management_client, resolver
        self.machines = Informer(
            management_client, MACHINES, clock, indexers=(by_deployment, by_claim_uid, claimed_by_capi_cluster)
        )
        self.deployments = Informer(
            management_client, MACHINE_DEPLOYMENTS, clock, labels=capi.KARPENTER_MEMBER, indexers=(by_capi_cluster,)
        )
        self.machine_sets = Informer(
            management_client, MACHINE_SETS, clock, labels=capi.DEPLOYMENT_NAME, indexers=(by_deployment,)
        )
        self.templates = TemplateInformers(management_client, clock, on_change)
        self._prices = OptionalInformer(
            management_client, CONFIG_MAPS, clock, on_change, fields=f"metadata.name={CONFIG_MAP_NAME}"
        )
        self._price_lists: dict[str, tuple[Object, PriceList]] = {}
        self.deployments.add_event_handler(self._on_deployment)
        self.sources = [
            self.machines.run,
            self.deployments.run,
            self.machine_sets.run,
            self.templates.run,
            self._prices.run,
        ]

    @property
    def has_synced(self) -> bool:
        informers = (self.machines, self.deployments, self.machine_sets)
        return all(each.has_synced for each in informers) and self._prices.is_settled and self.templates.is_settled

    def machine_of(self, cluster: str, claim: Object) -> Object | None:
        """Trusts the Machine's annotation: a workload cluster writes its NodeClaims and could name a Machine of another
        cluster.
        """
        machines = self.machines.by_index(by_claim_uid, claim["metadata"]["uid"])
        return next((machine for machine in machines if self.belongs_to(machine, cluster, claim)), None)

    def belongs_to(self, machine: Object, cluster: str, claim: Object) -> bool:
        return capi_cluster_of(machine) == self._resolver.capi_cluster_of(cluster) and is_claimed_by(machine, claim)

    def claimed_machines(self, capi_cluster: CAPIClusterRef) -> list[Object]:
        """Machines of a Cluster that NodeClaims have or had."""
        return self.machines.by_index(claimed_by_capi_cluster, capi_cluster)

    def machines_of(self, deployment: str) -> list[Object]:
        """Machines of a MachineDeployment, given as namespace/name; with an empty name, those of the namespace without
        one.
        """
        return self.machines.by_index(by_deployment, deployment)

    def deployment(self, name: str) -> Object | None:
        """Member MachineDeployment by namespace/name."""
        namespace, _, short_name = name.partition("/")
        return self.deployments.get((MANAGEMENT_CLUSTER, namespace, short_name))

    def machine_sets_of(self, deployment: Object) -> list[Object]:
        return self.machine_sets.by_index(by_deployment, full_name(deployment))

    def member_deployments(self, capi_cluster: CAPIClusterRef) -> list[Object]:
        """Member MachineDeployments of a Cluster."""
        return [each for each in self.deployments.by_index(by_capi_cluster, capi_cluster) if is_member(each)]

    def node_groups(self, capi_cluster: CAPIClusterRef | None, node_class: Object) -> list[NodeGroup]:
        """Node groups that the node class can buy from."""
        if capi_cluster is None:
            return []
        members = [
            each for each in self.member_deployments(capi_cluster) if is_buyable(each) and is_selected(each, node_class)
        ]
        groups = [self.group_of(each) for each in members]
        groups += [
            each
            for entry in machine_templates(node_class)
            if (each := self.group_of_template(capi_cluster, node_class, entry)) is not None
        ]
        return [group for group in groups if group.capacity]

    def group_of(self, deployment: Object) -> NodeGroup:
        namespace = deployment["metadata"]["namespace"]
        template = self.templates.get(namespace, infrastructure_reference(deployment))
        return group_of_deployment(deployment, template, self.price_list(namespace))

    def group_of_template(self, capi_cluster: CAPIClusterRef, node_class: Object, entry: Object) -> NodeGroup | None:
        """None if its template is missing or not a member."""
        template = self.infrastructure_template(capi_cluster, entry)
        return (
            None
            if template is None
            else group_of_entry(node_class, entry, template, self.price_list(capi_cluster.namespace))
        )

    def infrastructure_template(self, capi_cluster: CAPIClusterRef, entry: Object) -> Object | None:
        """Infrastructure template of a machine template, if Machines may be created from it."""
        template = self.templates.get(capi_cluster.namespace, entry.get("infrastructureRef") or {})
        return template if is_usable_template(template, capi_cluster.name) else None

    def price_list(self, namespace: str) -> PriceList:
        config_map = self._prices.get(namespace, CONFIG_MAP_NAME)
        if config_map is None:
            return PriceList()
        cached = self._price_lists.get(namespace)
        if cached is None or cached[0] is not config_map:
            cached = self._price_lists[namespace] = (config_map, parse_price_list(config_map))
            for problem in cached[1].errors:
                log.warning("ignoring ConfigMap %s/%s: %s", namespace, CONFIG_MAP_NAME, problem)
        return cached[1]

    def _on_deployment(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.templates.get(key[1], infrastructure_reference(new))  # starts the informer of the template


def deployment_name(machine: Object) -> str:
    """namespace/name of the MachineDeployment of a Machine or MachineSet."""
    return f"{machine['metadata']['namespace']}/{capi.labels_of(machine).get(capi.DEPLOYMENT_NAME, '')}"


def capi_cluster_of(obj: Object) -> CAPIClusterRef:
    """Cluster API Cluster of a Machine or MachineDeployment."""
    return CAPIClusterRef(obj["metadata"]["namespace"], capi.cluster_name(obj))


def by_deployment(key: Key, obj: Object) -> tuple[str]:
    """Index of Machines and MachineSets by MachineDeployment."""
    return (deployment_name(obj),)


def by_claim_uid(key: Key, machine: Object) -> tuple[str, ...]:
    """Index by the uid of the NodeClaim that the Machine names."""
    uid = annotation_of(machine, NODE_CLAIM_UID_ANNOTATION)
    return (uid,) if uid else ()


def by_capi_cluster(key: Key, obj: Object) -> tuple[CAPIClusterRef]:
    """Index by Cluster API Cluster."""
    return (capi_cluster_of(obj),)


def claimed_by_capi_cluster(key: Key, machine: Object) -> tuple[CAPIClusterRef, ...]:
    """Index of the Machines that name a NodeClaim, by Cluster API Cluster."""
    return (capi_cluster_of(machine),) if annotation_of(machine, NODE_CLAIM_UID_ANNOTATION) else ()
