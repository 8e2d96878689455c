"""All topology groups of a scheduling input, with existing pods counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import HOSTNAME, nodepool_template_labels, nodepool_template_spec
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelRequirement, LabelSelector, from_label_selector
from shoal.provision.simulation.model import ExistingNode, NodePoolInput, SchedulingInput
from shoal.provision.simulation.preferences import PodData, Preferences, normalize, term_requirements
from shoal.provision.simulation.topology_group import (
    AFFINITY,
    ALL_EFFECTS,
    ALL_NODES,
    ANTI_AFFINITY,
    SPREAD,
    SpreadLimits,
    TopologyGroup,
    TopologyNodeFilter,
)

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


PeerKey = tuple[str, frozenset[tuple[str, str]]]
"""Namespace and selectable labels of a pod."""


class Topology:
    def __init__(self, inputs: SchedulingInput, nodes: Sequence[ExistingNode], keys: Collection[str]) -> None:
        """`nodes`: existing nodes in the order of their bits. `keys`: pod labels that selectors use."""
        self._inputs, self._nodes, self._keys = inputs, (*nodes, *inputs.draining_nodes), keys
        self._rescheduled = {pod["metadata"]["uid"] for pod in inputs.pods}
        self._bit_index = {id(node): number for number, node in enumerate(nodes)}
        self._domains = _possible_domains(inputs.node_pools)
        self._groups_by_key: dict[Any, TopologyGroup] = {}
        self._inverse_groups: dict[Any, TopologyGroup] = {}
        self.groups: list[TopologyGroup] = []
        """Groups of the pods to place. Grows as pods relax preferences."""
        self._record_inverse_groups()

    @cached_property
    def _peers(self) -> list[tuple[ExistingNode, Counter[PeerKey]]]:
        """Pods that stay on their node, grouped by what selectors can distinguish."""
        return [(node, Counter(self._peer_key(pod) for pod in node.pods if self._stays(pod))) for node in self._nodes]

    @cached_property
    def _namespaces(self) -> dict[str, Mapping[str, str]]:
        names = {pod["metadata"].get("namespace", "") for pod in self._inputs.pods}
        names |= {namespace for _, peers in self._peers for namespace, _ in peers}
        return {**{name: {} for name in names}, **self._inputs.namespaces}

    def _peer_key(self, pod: Object) -> PeerKey:
        metadata = pod["metadata"]
        return metadata.get("namespace", ""), selected_labels(metadata.get("labels"), self._keys)

    def _stays(self, pod: Object) -> bool:
        is_terminal = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return (
            not is_terminal
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["uid"] not in self._rescheduled
        )

    @property
    def inverse_groups(self) -> Iterable[TopologyGroup]:
        """Inverse anti-affinity groups: they count the pods that declare the term, and pods they select must keep
        away.
        """
        return self._inverse_groups.values()

    def groups_of(self, pod_data: PodData, preferences: Preferences) -> tuple[TopologyGroup, ...]:
        """Groups that constrain a pod with these relaxed preferences."""
        groups = [self._spread_group(pod_data, preferences, each) for each in preferences.spreads]
        affinities = [
            *pod_data.required_affinity,
            *(each.get("podAffinityTerm") or {} for each in preferences.pod_affinity),
        ]
        anti_affinities = [
            *pod_data.required_anti_affinity,
            *(each.get("podAffinityTerm") or {} for each in preferences.pod_anti_affinity),
        ]
        groups += [self._affinity_group(AFFINITY, each, pod_data.namespace) for each in affinities]
        groups += [self._affinity_group(ANTI_AFFINITY, each, pod_data.namespace) for each in anti_affinities]
        return tuple(dict.fromkeys(groups))

    def inverse_groups_of(self, pod_data: PodData) -> tuple[TopologyGroup, ...]:
        """Inverse groups of a pod's required anti-affinity."""
        return tuple(
            dict.fromkeys(self._inverse_group(each, pod_data.namespace) for each in pod_data.required_anti_affinity)
        )

    def _spread_group(self, pod_data: PodData, preferences: Preferences, constraint: Object) -> TopologyGroup:
        tolerations = preferences.tolerations if constraint.get("nodeTaintsPolicy") == "Honor" else None
        alternatives: tuple[Requirements, ...] = ()
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
            node_selector = normalize(from_labels(pod_data.node_selector).values())
            alternatives = tuple(node_selector.union(term_requirements(term)) for term in preferences.node_terms) or (
                (node_selector,) if node_selector else ()
            )
        key = constraint.get("topologyKey", "")
        selector = _spread_selector(constraint, pod_data.labels)
        max_skew, min_domains = int(constraint.get("maxSkew", 1)), int(constraint.get("minDomains") or 0)
        group_key = (
            *(SPREAD, key, pod_data.namespace, selector, max_skew, min_domains),
            frozenset(frozenset(each.values()) for each in alternatives),
            tolerations if tolerations is None else orjson.dumps(tolerations, option=orjson.OPT_SORT_KEYS),
        )
        group = self._groups_by_key.get(group_key)
        if group is None:
            node_filter = (
                TopologyNodeFilter(alternatives, tolerations) if alternatives or tolerations is not None else ALL_NODES
            )
            namespaces = frozenset((pod_data.namespace,))
            limits = SpreadLimits(max_skew, min_domains, node_filter)
            group = TopologyGroup(len(self.groups), SPREAD, key, namespaces, selector, limits)
            self._add_group(group_key, group, tolerations)
        return group

    def _affinity_group(self, kind: str, term: Object, namespace: str) -> TopologyGroup:
        key, namespaces, selector = term.get("topologyKey", ""), self._namespaces_of(term, namespace), _selector(term)
        group_key = (kind, key, namespaces, selector)
        group = self._groups_by_key.get(group_key)
        if group is None:
            group = TopologyGroup(len(self.groups), kind, key, namespaces, selector)
            self._add_group(group_key, group, None)
        return group

    def _inverse_group(self, term: Object, namespace: str) -> TopologyGroup:
        key, namespaces, selector = term.get("topologyKey", ""), self._namespaces_of(term, namespace), _selector(term)
        group_key = (key, namespaces, selector)
        group = self._inverse_groups.get(group_key)
        if group is None:
            group = self._inverse_groups[group_key] = TopologyGroup(
                -1 - len(self._inverse_groups), ANTI_AFFINITY, key, namespaces, selector
            )
            group.register(self._domains.get(key, {}))
        return group

    def _add_group(self, name: object, group: TopologyGroup, tolerations: Sequence[Object] | None) -> None:
        """Registers a group with its existing and possible domains and counts the pods in them."""
        self._groups_by_key[name] = group
        self.groups.append(group)
        for domain, taints in self._domains.get(group.key, {}).items():
            if tolerations is None or any(first_untolerated(each, tolerations, ALL_EFFECTS) is None for each in taints):
                group.register((domain,))
        selected: dict[PeerKey, bool] = {}
        for node, peers in self._peers:
            value = _domain(node, group.key)
            if value is None or not (group.filter is ALL_NODES or _is_counted(group, node)):
                continue
            if node.kind == "Node" and id(node) in self._bit_index:
                group.register((value,))
            for peer, count in peers.items():
                if peer not in selected:
                    selected[peer] = group.selects(peer[0], dict(peer[1]))
                if selected[peer]:
                    self._record(group, node, value, count)

    def _record(self, group: TopologyGroup, node: ExistingNode, domain: str, pods: int = 1) -> None:
        if group.by_host and id(node) in self._bit_index:
            group.record_host(domain, 0, 1 << self._bit_index[id(node)], pods)
        else:
            group.record(domain, pods)

    def _record_inverse_groups(self) -> None:
        for node in self._nodes:
            for pod in node.pods:
                terms = anti_affinity_terms(pod)
                if not terms or not self._stays(pod):
                    continue
                for term in terms:
                    group = self._inverse_group(term, pod["metadata"].get("namespace", ""))
                    domain = _domain(node, group.key)
                    if domain is not None:
                        self._record(group, node, domain)

    def _namespaces_of(self, term: Object, namespace: str) -> frozenset[str]:
        listed, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if selector is None:
            return frozenset(listed or (namespace,))
        chosen = _selector({"labelSelector": selector})
        return frozenset(listed) | {name for name, labels in self._namespaces.items() if chosen.matches(labels)}


def hostname_of(node: ExistingNode) -> str:
    return node.labels.get(HOSTNAME) or node.name


def selected_labels(labels: Mapping[str, str] | None, keys: Collection[str]) -> frozenset[tuple[str, str]]:
    """Returns the labels that any selector uses."""
    if not labels or not keys:
        return frozenset()
    if len(keys) < len(labels):
        return frozenset([(key, labels[key]) for key in keys if key in labels])
    return frozenset([each for each in labels.items() if each[0] in keys])


def selector_keys(inputs: SchedulingInput) -> frozenset[str]:
    """Pod labels that any selector of the input uses."""
    placed_pods = (pod for node in (*inputs.existing_nodes, *inputs.draining_nodes) for pod in node.pods)
    keys = {key for pod in inputs.pods for key in pod_selector_keys(pod.get("spec") or {})}
    return frozenset(keys | {key for pod in placed_pods for key in term_keys(anti_affinity_terms(pod))})


def anti_affinity_terms(pod: Object) -> Sequence[Object]:
    """Required anti-affinity terms of a pod."""
    affinity = (pod.get("spec") or {}).get("affinity")
    return ((affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()) if affinity else ()


def term_keys(terms: Iterable[Object]) -> Iterable[str]:
    for term in terms:
        yield from _keys(term.get("labelSelector"))


def pod_selector_keys(spec: Object) -> Iterable[str]:
    """Pod labels by which a pod selects others."""
    affinity = spec.get("affinity") or {}
    for rules in (affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}):
        yield from term_keys(rules.get(REQUIRED) or ())
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield from _keys((weighted.get("podAffinityTerm") or {}).get("labelSelector"))
    for constraint in spec.get("topologySpreadConstraints") or ():
        yield from _keys(constraint.get("labelSelector"))
        yield from constraint.get("matchLabelKeys") or ()


def _keys(selector: Object | None) -> Iterable[str]:
    yield from ((selector or {}).get("matchLabels") or {})
    yield from (each.get("key", "") for each in (selector or {}).get("matchExpressions") or ())


def _possible_domains(pools: Iterable[NodePoolInput]) -> Mapping[str, Mapping[str, list[Sequence[Object]]]]:
    """Possible domains of new nodes by label, each with the taints of the pools that have it."""
    domains_by_key: dict[str, dict[str, list[Sequence[Object]]]] = {}
    for pool in pools:
        spec = nodepool_template_spec(pool.node_pool)
        taints = tuple(spec.get("taints") or ())
        pool_requirements = normalize(from_expressions(spec.get("requirements")).values())
        pool_requirements = pool_requirements.union(from_labels(nodepool_template_labels(pool.node_pool)))
        values: dict[str, set[str]] = {}
        for each in pool_requirements.values():
            if not each.complement:
                values.setdefault(each.key, set()).update(each.values)
        seen = set()
        for kind in pool.types:
            for key, each in kind.requirements.items():
                if each in seen:
                    continue
                seen.add(each)
                both = each if key not in pool_requirements else each.intersection(pool_requirements[key])
                if not both.complement:
                    values.setdefault(key, set()).update(both.values)
        for key, domains in values.items():
            for domain in domains:
                domains_by_key.setdefault(key, {}).setdefault(domain, []).append(taints)
    return domains_by_key


def _domain(node: ExistingNode, key: str) -> str | None:
    return hostname_of(node) if key == HOSTNAME else node.labels.get(key)


def _is_counted(group: TopologyGroup, node: ExistingNode) -> bool:
    node_filter = group.filter
    if node_filter.alternatives and not any(each.matches(node.labels) for each in node_filter.alternatives):
        return False
    return (
        node_filter.tolerations is None or first_untolerated(node.taints, node_filter.tolerations, ALL_EFFECTS) is None
    )


def _spread_selector(constraint: Object, labels: Mapping[str, str]) -> LabelSelector:
    selector = _selector(constraint)
    more = [
        LabelRequirement(key, "in", (labels[key],)) for key in constraint.get("matchLabelKeys") or () if key in labels
    ]
    return LabelSelector([*selector.requirements, *more]) if more and not selector.selects_nothing else selector


def _selector(term: Object) -> LabelSelector:
    try:
        return from_label_selector(term.get("labelSelector"))
    except BadRequest:
        return SELECT_NOTHING
