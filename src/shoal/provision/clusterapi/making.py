"""Creates standalone Machines, without a MachineDeployment, and the objects they reference.

The order is Machine, bootstrap configuration, infrastructure, then the NodeClaim that names the Machine. After an
interruption the next attempt continues from there. Existing objects are left unchanged.
"""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Kind
from shoal.kinds.karpenter import MACHINE, class_ref, is_going
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.provision.cloudprovider import CreateError, InsufficientCapacity, NotYet
from shoal.provision.clusterapi.copies import kind_of
from shoal.provision.clusterapi.decide import is_claimed_by
from shoal.provision.clusterapi.ownerless import bootstrap_reference, clone, fingerprint, machine_name, machine_of
from shoal.provision.clusterapi.sellers import entries, entry_of, full_name, usable
from shoal.provision.clusterapi.stock import AT_HOME, MACHINES, Stock
from shoal.provision.homes import Home, Homes
from shoal.provision.view import CLAIMS, View

Object = dict[str, Any]


class Making:
    def __init__(self, stock: Stock, homes: Homes, view: View) -> None:
        self._stock, self._homes, self._view = stock, homes, view
        self._kinds: dict[tuple[str, str], Kind] = {}

    def ask(self, node_class: Object) -> None:
        """Starts to watch the templates of a node class, so that they are cached when needed."""
        for entry in entries(node_class):
            for reference in (entry.get("infrastructureRef"), bootstrap_reference(entry)):
                self._stock.templates.knows(reference or {})

    async def make(self, cluster: str, claim: Object, chosen: str) -> Object:
        """Returns the NodeClaim with its Machine. `offering`: name of the offering."""
        home, (entry, template, bootstrap) = self._home(cluster), self._sources(cluster, claim, chosen)
        wanted = machine_of(home, claim, entry, template, bootstrap)
        machine = await self._machine(wanted, claim)
        reference = bootstrap_reference(entry)
        if reference is not None and bootstrap is not None:
            await self._clone(clone(bootstrap, reference, machine))
        await self._clone(clone(template, entry["infrastructureRef"], machine))
        metadata = {"uid": claim["metadata"]["uid"], "annotations": {MACHINE: full_name(machine)}}
        written = await self._homes.client(cluster).merge(CLAIMS, claim["metadata"]["name"], {"metadata": metadata})
        return self._view.claims.learn(cluster, written)

    async def find(self, cluster: str, claim: Object) -> Object | None:
        """Returns the Machine that would have been created; None only if the server confirms that it does not exist."""
        home = self._home(cluster)
        try:
            found = await self._homes.management.get(MACHINES, machine_name(home, claim), home.namespace)
        except NotFound as error:
            if error.kind != MACHINES.plural:
                raise
            return None
        return found if self._stock.belongs(found, cluster, claim) else None

    def fingerprint(self, cluster: str, claim: Object, chosen: str) -> str | None:
        """Current template hash; None if the templates were deleted. Raises LaunchPending while the templates are
        unknown.
        """
        node_class = self._view.classes.get(cluster, class_ref(claim["spec"]).get("name", ""))
        entry = entry_of(node_class, chosen) if node_class is not None else None
        references = [entry["infrastructureRef"], bootstrap_reference(entry)] if entry is not None else []
        unknown = any(each is not None and not self._stock.templates.knows(each) for each in references)
        if node_class is None or unknown:
            raise NotYet("the templates are not known")
        try:
            return fingerprint(*self._sources(cluster, claim, chosen))
        except InsufficientCapacity:
            return None

    def _home(self, cluster: str) -> Home:
        home = self._homes.of(cluster)
        if home is None:
            raise InsufficientCapacity("no Cluster API Cluster stands behind this cluster")
        return home

    def _sources(self, cluster: str, claim: Object, chosen: str) -> tuple[Object, Object, Object | None]:
        """Returns the machine template of the node class, the infrastructure template and the bootstrap template."""
        home = self._home(cluster)
        node_class = self._view.classes.get(cluster, class_ref(claim["spec"]).get("name", ""))
        entry = entry_of(node_class, chosen) if node_class is not None else None
        if entry is None:
            raise InsufficientCapacity(f"there is no machine template {chosen} any more")
        template = self._stock.template(home, entry)
        if template is None:
            raise InsufficientCapacity(f"the infrastructure template of {chosen} is not there or does not take part")
        reference = bootstrap_reference(entry)
        bootstrap = self._stock.templates.get(home.namespace, reference) if reference is not None else None
        if reference is not None and not usable(bootstrap, home.name):
            if not self._stock.templates.answered:
                raise NotYet("the bootstrap templates are not known yet")
            raise InsufficientCapacity(f"the bootstrap template of {chosen} is not there or does not take part")
        return entry, template, bootstrap

    async def _machine(self, wanted: Object, claim: Object) -> Object:
        metadata, management = wanted["metadata"], self._homes.management
        found = self._stock.machines.get(AT_HOME, metadata["name"], metadata["namespace"])
        if found is None:
            try:
                found = await management.create(MACHINES, wanted, metadata["namespace"])
            except AlreadyExists:
                found = await management.get(MACHINES, metadata["name"], metadata["namespace"])
            self._stock.learn(found)
        if not is_claimed_by(found, claim):
            raise CreateError("MachineNameTaken", f"Machine {full_name(found)} is another's")
        if is_going(found):
            raise InsufficientCapacity(f"Machine {full_name(found)} has gone")
        return found

    async def _clone(self, wanted: Object) -> None:
        group, _, version = wanted["apiVersion"].rpartition("/")
        kind = self._kinds.get((wanted["apiVersion"], wanted["kind"]))
        if kind is None:
            kind = await kind_of(self._homes.management, group, wanted["kind"], version)
            if kind is None:
                raise CreateError("KindNotServed", f"nobody serves {wanted['kind']} of {wanted['apiVersion']}")
            self._kinds[wanted["apiVersion"], wanted["kind"]] = kind
        try:
            await self._homes.management.create(kind, wanted, wanted["metadata"]["namespace"], brief=True)
        except AlreadyExists:
            return
