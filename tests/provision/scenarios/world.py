"""A cluster in memory: a planner places the pods, new nodes exist at once, and pods are bound to them.

Nodes come from the simulator's catalogue. As in Karpenter's suites, a new node is not initialized.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from shoal.apiserver.registry.schema import KindSchema
from shoal.fit.ports import HostPort, host_ports, ports_conflict
from shoal.fit.requirements import from_pod, required_terms
from shoal.fit.resources import fits, parse_amounts, pod_requests, total
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import INITIALIZED_LABEL, NODE_POOL_LABEL
from shoal.kinds.shoal_crds import shoal_crds
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.provisioning.existing_nodes import existing_nodes, pool_usage
from shoal.provision.provisioning.nodeclaim import new_node_claim
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput, Results, SchedulingInput
from shoal.provision.simulator.decide import (
    instance_of,
    launched_counts,
    matching_offerings,
    node_of,
    requirements_of,
    with_availability,
)

Object = dict[str, Any]
Planner = Callable[[SchedulingInput], Results]


@cache
def claim_schema() -> KindSchema:
    """Schema and rules of NodeClaims, as the server has them."""
    (definition,) = (each for each in shoal_crds("cluster") if each["spec"]["names"]["kind"] == "NodeClaim")
    return KindSchema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


OLD_TYPE = "beta.kubernetes.io/instance-type"
"""Simulated nodes have only the new label."""


@dataclass
class World:
    planner: Planner
    types: Sequence[InstanceType]
    pools: list[Object]
    exact: bool = True
    """Whether the planner is Karpenter's rule: then nodes and types are exactly as upstream has them."""
    types_of: dict[str, Sequence[InstanceType]] = field(default_factory=dict)
    """Of a NodePool, where they are not those of all."""
    daemons: list[Object] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of the questions."""
    nodes: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    bound: dict[str, Object] = field(default_factory=dict)
    """Pods by uid."""
    plan: Results = field(default_factory=Results)
    """The last."""
    question: SchedulingInput = field(default_factory=lambda: SchedulingInput(()))

    # --- what happens ---

    def provision(self, *pods: Object, **settings: Any) -> Results:
        self.question = self.ask(pods, **settings)
        self.plan = self.planner(self.question)
        for new in self.plan.new_node_claims:
            self.launch(new)
        for each, _, name in self.plan.nominations:
            self.bind(each, name)
        for new in self.plan.new_node_claims:
            self._check(new)
        return self.plan

    def ask(self, pods: Sequence[Object], **settings: Any) -> SchedulingInput:
        foreseen = {name: instance_of(self.nodes[name]) for name in self.claims if name in self.nodes}
        found = existing_nodes(
            self.nodes.values(), self.claims.values(), foreseen, self.daemons, self.pods_on, pod_requests
        )
        pools = []
        for each in self.pools:
            name = each["metadata"]["name"]
            limits = parse_amounts(each["spec"].get("limits"))
            pools.append(
                NodePoolInput(each, self.stock(name), pool_usage(self.claims.values(), name, foreseen), limits)
            )
        return SchedulingInput(
            tuple(pods),
            existing_nodes=tuple(found),
            node_pools=tuple(pools),
            daemon_sets=tuple(self.daemons),
            **self.settings,
            **settings,
        )

    def stock(self, pool: str) -> list[InstanceType]:
        types = self.types_of.get(pool, self.types)
        every = [*self.types, *(each for some in self.types_of.values() for each in some)]
        return with_availability(types, *launched_counts(list(self.nodes.values()), every), ())

    def launch(self, new: NewNodeClaim) -> None:
        owner = next(each for each in self.pools if each["metadata"]["name"] == new.pool)
        claim = new_node_claim(owner, new)
        errors = claim_schema().validate(claim, None, status=False)
        assert not errors, f"the API server would reject {new.name}: {errors}"
        claim["metadata"]["uid"] = f"uid-{new.name}"
        found = matching_offerings(self.stock(new.pool), *requirements_of(claim))
        assert found, f"nothing can be had for {new.name}"
        assert found[0][1].price <= new.price + 1e-9, "what was bought is dearer than the plan says"
        made = node_of(claim, *found[0])
        made["metadata"]["labels"] = {**made["metadata"]["labels"], **claim["metadata"]["labels"]}
        spec = claim["spec"]
        made["spec"]["taints"] += [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())]
        status = {"providerID": made["spec"]["providerID"], **made["status"]}
        self.claims[new.name] = {**claim, "status": status}
        self.nodes[new.name] = made
        for each in new.pods:
            self.bind(each, new.name)

    def _check(self, new: NewNodeClaim) -> None:
        """Every pod of it may be where it is: whatever planned it."""
        made = self.nodes[new.name]
        labels, room = made["metadata"]["labels"], parse_amounts(made["status"]["allocatable"])
        used, ports = total(pod_requests(each) for each in new.pods), set[HostPort]()
        assert fits(used, room), f"{new.name} has {room} for {used}"
        taints = [each for each in self.claims[new.name]["spec"].get("taints") or () if each["effect"] == "NoSchedule"]
        for each in new.pods:
            spec = each["spec"]
            terms = range(max(1, len(required_terms(spec))))
            wishes_ = [from_pod(spec, at) for at in terms if not _by_field(spec, at)]
            assert any(each.without(OLD_TYPE).matches(labels) for each in wishes_)
            assert first_untolerated(taints, spec.get("tolerations") or ()) is None
            assert not ports_conflict(host_ports(each), ports)
            ports |= host_ports(each)

    def bind(self, pod: Object, name: str) -> None:
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = name
        bound["status"] = {"phase": "Running"}
        self.bound[pod["metadata"]["uid"]] = bound

    def add(self, *nodes: Object) -> None:
        self.nodes |= {each["metadata"]["name"]: each for each in nodes}

    def remove(self, *pods: Object) -> None:
        for each in pods:
            self.bound.pop(each["metadata"]["uid"], None)

    def initialize(self, *names: str) -> None:
        for name in names or tuple(self.claims):
            conditions = [{"type": "Initialized", "status": "True"}]
            self.claims[name]["status"]["conditions"] = conditions
            self.nodes[name]["metadata"]["labels"][INITIALIZED_LABEL] = "true"
            self.nodes[name]["spec"]["taints"] = list(self.claims[name]["spec"].get("taints") or ())

    # --- what is seen ---

    def pods_on(self, name: str) -> list[Object]:
        return [each for each in self.bound.values() if each["spec"]["nodeName"] == name]

    def where(self, pod: Object) -> Object | None:
        found = self.bound.get(pod["metadata"]["uid"])
        return self.nodes[found["spec"]["nodeName"]] if found is not None else None

    def node_of(self, pod: Object) -> Object:
        found = self.where(pod)
        assert found is not None, f"{pod['metadata']['name']} has no node: {self.reason(pod)}"
        return found

    def labels_of(self, pod: Object) -> Mapping[str, str]:
        found: Mapping[str, str] = self.node_of(pod)["metadata"]["labels"]
        return found

    def name_of(self, pod: Object) -> str:
        return str(self.node_of(pod)["metadata"]["name"])

    def scheduled(self, pods: Sequence[Object]) -> int:
        return sum(self.where(each) is not None for each in pods)

    def reason(self, pod: Object) -> str:
        told = (*self.plan.failures, *self.plan.awaiting_reservation)
        return next((why for each, why in told if each["metadata"]["uid"] == pod["metadata"]["uid"]), "not asked")

    def skew(self, key: str, labels: Mapping[str, str] | None = None, namespace: str = "default") -> list[int]:
        """Pods with these labels by domain, as sorted numbers."""
        count: Counter[str] = Counter()
        for each in self.bound.values():
            metadata, name = each["metadata"], each["spec"]["nodeName"]
            domain = self.nodes[name]["metadata"]["labels"].get(key)
            same = all(metadata["labels"].get(one) == value for one, value in (labels or {}).items())
            if domain is not None and same and metadata["namespace"] == namespace:
                count[domain] += 1
        return sorted(count.values())

    def bought(self, pool: str = "") -> list[str]:
        """Names of the nodes that are NodeClaims'."""
        return [name for name, each in self.claims.items() if pool in ("", each["metadata"]["labels"][NODE_POOL_LABEL])]

    def types_bought(self) -> list[str]:
        labels = (self.nodes[name]["metadata"]["labels"] for name in self.claims)
        return sorted(each["node.kubernetes.io/instance-type"] for each in labels)


def _by_field(spec: Object, term: int) -> bool:
    terms = required_terms(spec)
    return bool(terms and terms[term].get("matchFields"))
