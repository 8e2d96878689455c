"""Prepares a scheduler run: groups pods with equal constraints and orders existing nodes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson

from shoal.fit.attachments import Attachment
from shoal.fit.requirements import Requirement
from shoal.kinds.karpenter.karpenter import HOSTNAME
from shoal.provision.simulation.model import ExistingNode, SchedulingInput
from shoal.provision.simulation.nodes import SimulatedNode
from shoal.provision.simulation.preferences import LABEL_ALIASES, PodData, new_pod_data
from shoal.provision.simulation.requirement_state import ExistingNodeOrigin, RequirementState, shared_existing_origin
from shoal.provision.simulation.topology import Topology, hostname_of

Object = dict[str, Any]

_SCHEDULING_FIELDS = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("overhead", "resources", "resourceClaims"),
)


def pod_data_by_uid(inputs: SchedulingInput, keys: Collection[str]) -> dict[str, PodData]:
    """Returns PodData by pod uid. `keys`: pod labels that any selector uses."""
    by_signature: dict[tuple[bytes, str, tuple[frozenset[Requirement], ...], frozenset[Attachment]], PodData] = {}
    by_uid = {}
    for pod in inputs.pods:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key in keys}
        volumes, error = inputs.volume_requirements.get(uid, ()), inputs.pod_errors.get(uid, "")
        signature = (
            _signature(pod, labels),
            error,
            tuple(frozenset(each.values()) for each in volumes),
            inputs.attachments.get(uid, frozenset()),
        )
        pod_data = by_signature.get(signature)
        if pod_data is None:
            pod_data = by_signature[signature] = new_pod_data(pod, labels, volumes, inputs.preference_policy, error)
        by_uid[uid] = pod_data
    return by_uid


def scheduling_order(nodes: Iterable[ExistingNode]) -> list[ExistingNode]:
    """Initialized nodes first, then by name."""
    return sorted(nodes, key=lambda place: (not place.initialized, place.name))


class SimulatedNodes:
    """Existing nodes in the order in which they are tried."""

    def __init__(self, nodes: Sequence[ExistingNode], pod_data: Iterable[PodData], topology: Topology) -> None:
        keys = frozenset(
            key for each in {id(each): each for each in pod_data}.values() for key in _node_label_keys(each)
        )
        keys |= {group.key for group in topology.inverse_groups}
        origins: dict[Any, ExistingNodeOrigin] = {}
        self.all: list[SimulatedNode] = []
        self.by_state: dict[RequirementState, int] = {}
        """Bit set of the nodes in each state. A node with negative free resources accepts nothing and is left out."""
        self.by_name: dict[str, SimulatedNode] = {}
        self.pending_pods_only = 0
        for number, existing_node in enumerate(nodes):
            state = shared_existing_origin(existing_node.labels, existing_node.taints, keys - {HOSTNAME}, origins).state
            node = SimulatedNode(number, existing_node, hostname_of(existing_node), state)
            self.all.append(node)
            if all(amount >= 0 for amount in existing_node.free.values()):
                self.by_state[state] = self.by_state.get(state, 0) | node.bit
            if existing_node.pending_pods_only:
                self.pending_pods_only |= node.bit
            for name in (existing_node.name, existing_node.node_claim):
                if name:
                    self.by_name[name] = node


def _signature(pod: Object, labels: Mapping[str, str]) -> bytes:
    """Pods with equal signatures have equal constraints."""
    spec = pod.get("spec") or {}
    fields: Object = {name: spec[name] for name in _SCHEDULING_FIELDS if name in spec}
    for field in ("containers", "initContainers"):
        fields[field] = [
            (each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in spec.get(field) or ()
        ]
    fields["labels"] = labels
    fields["namespace"] = pod["metadata"].get("namespace")
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def _node_label_keys(pod_data: PodData) -> Iterable[str]:
    """Node labels that the pod's constraints refer to."""
    preferences = pod_data.preferences
    yield from (LABEL_ALIASES.get(key, key) for key in pod_data.node_selector)
    terms = [*preferences.node_terms, *(each.get("preference") or {} for each in preferences.node_preferences)]
    for term in terms:
        for each in term.get("matchExpressions") or ():
            yield LABEL_ALIASES.get(each.get("key", ""), each.get("key", ""))
    for requirements in pod_data.volumes:
        yield from requirements
    peers = [*pod_data.required_affinity, *pod_data.required_anti_affinity]
    peers += [each.get("podAffinityTerm") or {} for each in (*preferences.pod_affinity, *preferences.pod_anti_affinity)]
    yield from (each.get("topologyKey", "") for each in (*peers, *preferences.spreads))
