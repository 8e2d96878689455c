"""Informers and indexes of the management side: Machines, MachineDeployments, templates and prices.

Machines are indexed by their own labels and annotations. Responses of writes are added at once.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Kind
from shoal.clock import Clock
from shoal.kinds import capi
from shoal.kinds.karpenter import CLAIMED_BY_UID, annotation
from shoal.provision.clusterapi.copies import Copy, Templates, Told
from shoal.provision.clusterapi.decide import is_claimed_by
from shoal.provision.clusterapi.prices import NAME, PriceList, price_list
from shoal.provision.clusterapi.sellers import (
    Seller,
    entries,
    infrastructure,
    is_open,
    of_deployment,
    of_entry,
    selected,
    takes_part,
    usable,
)
from shoal.provision.homes import Home, Homes
from shoal.provision.shelf import Shelf

Object = dict[str, Any]
log = logging.getLogger("shoal.provision")

MACHINES = Kind(capi.GROUP, capi.VERSION, "machines")
DEPLOYMENTS = Kind(capi.GROUP, capi.VERSION, "machinedeployments")
SETS = Kind(capi.GROUP, capi.VERSION, "machinesets")
CONFIG_MAPS = Kind("", "v1", "configmaps")
AT_HOME = ""
"""Logical cluster in the keys of the management side."""


class Stock:
    def __init__(self, homes: Homes, clock: Clock, told: Told) -> None:
        """`on_change` is called with a namespace whose templates or prices changed."""
        management, self._homes = homes.management, homes
        self.machines = Shelf(management, MACHINES, clock)
        self.deployments = Shelf(management, DEPLOYMENTS, clock, labels=capi.KARPENTER_MEMBER)
        self.sets = Shelf(management, SETS, clock, labels=capi.DEPLOYMENT_NAME)
        self.templates = Templates(management, clock, told)
        self._prices = Copy(management, CONFIG_MAPS, clock, told, fields=f"metadata.name={NAME}")
        self._lists: dict[str, tuple[Object, PriceList]] = {}
        self._filed: dict[tuple[str, str], tuple[str, str]] = {}
        """By namespace and name of a Machine: its MachineDeployment and the uid of its NodeClaim in the indexes."""
        self._of_deployment: dict[str, set[tuple[str, str]]] = {}
        self._of_claim: dict[str, tuple[str, str]] = {}
        """By NodeClaim uid: the Machine that names it."""
        self.machines.listen(self._machine_changed)
        self.deployments.listen(self._deployment_changed)
        self.sources = [self.machines.run, self.deployments.run, self.sets.run, self.templates.run, self._prices.run]

    @property
    def synced(self) -> bool:
        shelves = (self.machines, self.deployments, self.sets)
        return all(each.synced for each in shelves) and self._prices.answered and self.templates.answered

    def machine_of(self, cluster: str, claim: Object) -> Object | None:
        """Trusts the Machine's annotation: a workload cluster writes its NodeClaims and could name a Machine of another
        cluster.
        """
        place = self._of_claim.get(claim["metadata"]["uid"])
        found = self.machines.get(AT_HOME, place[1], place[0]) if place is not None else None
        return found if found is not None and self.belongs(found, cluster, claim) else None

    def belongs(self, machine: Object, cluster: str, claim: Object) -> bool:
        return home_of(machine) == self._homes.of(cluster) and is_claimed_by(machine, claim)

    def claimed(self, home: Home) -> list[Object]:
        """Machines of a Cluster that NodeClaims have or had."""
        places = self._of_claim.values()
        found = (
            self.machines.get(AT_HOME, name, namespace) for namespace, name in places if namespace == home.namespace
        )
        return [machine for machine in found if machine is not None and home_of(machine) == home]

    def machines_of(self, deployment: str) -> list[Object]:
        """Machines of a MachineDeployment, given as namespace/name; with an empty name, those of the namespace without
        one.
        """
        places = self._of_deployment.get(deployment, ())
        found = (self.machines.get(AT_HOME, name, namespace) for namespace, name in sorted(places))
        return [machine for machine in found if machine is not None]

    def deployment(self, name: str) -> Object | None:
        """Member MachineDeployment by namespace/name."""
        namespace, _, own = name.partition("/")
        return self.deployments.get(AT_HOME, own, namespace)

    def sets_of(self, deployment: Object) -> list[Object]:
        metadata = deployment["metadata"]
        here = (each for each in self.sets.of(AT_HOME) if each["metadata"]["namespace"] == metadata["namespace"])
        return [each for each in here if capi.labels_of(each).get(capi.DEPLOYMENT_NAME) == metadata["name"]]

    def members(self, home: Home) -> list[Object]:
        """Member MachineDeployments of a Cluster."""
        return [each for each in self.deployments.of(AT_HOME) if home_of(each) == home and takes_part(each)]

    def sellers(self, home: Home | None, node_class: Object) -> list[Seller]:
        """Node groups that the node class can buy from."""
        if home is None:
            return []
        members = [each for each in self.members(home) if is_open(each) and selected(each, node_class)]
        found = [self.seller(each) for each in members]
        found += [each for entry in entries(node_class) if (each := self.entry(home, node_class, entry)) is not None]
        return [seller for seller in found if seller.capacity]

    def seller(self, deployment: Object) -> Seller:
        namespace = deployment["metadata"]["namespace"]
        template = self.templates.get(namespace, infrastructure(deployment))
        return of_deployment(deployment, template, self.prices(namespace))

    def entry(self, home: Home, node_class: Object, entry: Object) -> Seller | None:
        """None if its template is missing or not a member."""
        template = self.template(home, entry)
        return None if template is None else of_entry(node_class, entry, template, self.prices(home.namespace))

    def template(self, home: Home, entry: Object) -> Object | None:
        """Infrastructure template of a machine template, if Machines may be created from it."""
        found = self.templates.get(home.namespace, entry.get("infrastructureRef") or {})
        return found if usable(found, home.name) else None

    def prices(self, namespace: str) -> PriceList:
        config_map = self._prices.get(namespace, NAME)
        if config_map is None:
            return PriceList()
        known = self._lists.get(namespace)
        if known is None or known[0] is not config_map:
            known = self._lists[namespace] = (config_map, price_list(config_map))
            for problem in known[1].problems:
                log.warning("ConfigMap %s/%s: %s", namespace, NAME, problem)
        return known[1]

    def _deployment_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.templates.get(key[1], infrastructure(new))  # starts the informer of the template

    def learn(self, machine: Object) -> None:
        """Adds the response of a Machine write."""
        self.machines.learn(AT_HOME, machine)
        self._file((machine["metadata"]["namespace"], machine["metadata"]["name"]))

    def _machine_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._file((key[1], key[2]))

    def _file(self, place: tuple[str, str]) -> None:
        """Indexes the cached version: an event may be older than an observed write."""
        deployment, owner = self._filed.pop(place, ("", ""))
        self._of_deployment.get(deployment, set()).discard(place)
        if self._of_claim.get(owner) == place:
            del self._of_claim[owner]
        machine = self.machines.get(AT_HOME, place[1], place[0])
        if machine is None:
            return
        deployment, owner = self._filed[place] = deployment_name(machine), annotation(machine, CLAIMED_BY_UID)
        self._of_deployment.setdefault(deployment, set()).add(place)
        if owner:
            self._of_claim[owner] = place


def deployment_name(machine: Object) -> str:
    """namespace/name of the Machine's MachineDeployment."""
    return f"{machine['metadata']['namespace']}/{capi.labels_of(machine).get(capi.DEPLOYMENT_NAME, '')}"


def home_of(obj: Object) -> Home:
    """Cluster API Cluster of a Machine or MachineDeployment."""
    return Home(obj["metadata"]["namespace"], capi.cluster_name(obj))
