"""All topology groups of a scheduling input, with existing pods counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import HOSTNAME, template_labels, template_spec
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, Requirement, from_label_selector
from shoal.provision.simulation.asking import Asking, Wishes, expressed, normalized
from shoal.provision.simulation.groups import ALL, APART, EVERY, SPREAD, TOGETHER, Filter, Group
from shoal.provision.simulation.model import Place, Pool, Question

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


Peer = tuple[str, frozenset[tuple[str, str]]]
"""Namespace and selectable labels of a pod."""


class Topology:
    def __init__(self, question: Question, places: Sequence[Place], keys: Collection[str]) -> None:
        """`nodes`: existing nodes in the order of their bits. `keys`: pod labels that selectors use."""
        self._question, self._places, self._keys = question, (*places, *question.others), keys
        self._moving = {pod["metadata"]["uid"] for pod in question.pods}
        self._sides = {id(place): number for number, place in enumerate(places)}
        self._universe = _universe(question.pools)
        self._known: dict[Any, Group] = {}
        self._inverse: dict[Any, Group] = {}
        self.groups: list[Group] = []
        """Groups of the pods to place. Grows as pods relax preferences."""
        self._record_opponents()

    @cached_property
    def _peers(self) -> list[tuple[Place, Counter[Peer]]]:
        """Pods that stay on their node, grouped by what selectors can distinguish."""
        return [(place, Counter(self._peer(pod) for pod in place.pods if self._stays(pod))) for place in self._places]

    @cached_property
    def _namespaces(self) -> dict[str, Mapping[str, str]]:
        names = {pod["metadata"].get("namespace", "") for pod in self._question.pods}
        names |= {namespace for _, peers in self._peers for namespace, _ in peers}
        return {**{name: {} for name in names}, **self._question.namespaces}

    def _peer(self, pod: Object) -> Peer:
        metadata = pod["metadata"]
        return metadata.get("namespace", ""), signature(metadata.get("labels"), self._keys)

    def _stays(self, pod: Object) -> bool:
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return not ended and "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["uid"] not in self._moving

    @property
    def inverse(self) -> Iterable[Group]:
        """Inverse anti-affinity groups: they count the pods that declare the term, and pods they select must keep
        away.
        """
        return self._inverse.values()

    def owned(self, asking: Asking, wishes: Wishes) -> tuple[Group, ...]:
        """Groups that constrain a pod with these relaxed preferences."""
        found = [self._spread(asking, wishes, each) for each in wishes.spreads]
        near = [*asking.together, *(each.get("podAffinityTerm") or {} for each in wishes.near)]
        far = [*asking.apart, *(each.get("podAffinityTerm") or {} for each in wishes.far)]
        found += [self._term(TOGETHER, each, asking.namespace) for each in near]
        found += [self._term(APART, each, asking.namespace) for each in far]
        return tuple(dict.fromkeys(found))

    def opposing(self, asking: Asking) -> tuple[Group, ...]:
        """Inverse groups of a pod's required anti-affinity."""
        return tuple(dict.fromkeys(self._opponent(each, asking.namespace) for each in asking.apart))

    def _spread(self, asking: Asking, wishes: Wishes, constraint: Object) -> Group:
        tolerations = wishes.tolerations if constraint.get("nodeTaintsPolicy") == "Honor" else None
        alternatives: tuple[Requirements, ...] = ()
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
            own = normalized(from_labels(asking.selector).values())
            alternatives = tuple(own.union(expressed(term)) for term in wishes.terms) or ((own,) if own else ())
        key = constraint.get("topologyKey", "")
        selector = _selected(constraint, asking.labels)
        skew, least = int(constraint.get("maxSkew", 1)), int(constraint.get("minDomains") or 0)
        name = (
            *(SPREAD, key, asking.namespace, selector, skew, least),
            frozenset(frozenset(each.values()) for each in alternatives),
            tolerations if tolerations is None else orjson.dumps(tolerations, option=orjson.OPT_SORT_KEYS),
        )
        found = self._known.get(name)
        if found is None:
            only = Filter(alternatives, tolerations) if alternatives or tolerations is not None else ALL
            namespaces = frozenset((asking.namespace,))
            found = Group(len(self.groups), SPREAD, key, namespaces, selector, skew, least, only)
            self._add(name, found, tolerations)
        return found

    def _term(self, kind: str, term: Object, namespace: str) -> Group:
        key, namespaces, selector = term.get("topologyKey", ""), self._named(term, namespace), _selector(term)
        name = (kind, key, namespaces, selector)
        found = self._known.get(name)
        if found is None:
            found = Group(len(self.groups), kind, key, namespaces, selector)
            self._add(name, found, None)
        return found

    def _opponent(self, term: Object, namespace: str) -> Group:
        key, namespaces, selector = term.get("topologyKey", ""), self._named(term, namespace), _selector(term)
        name = (key, namespaces, selector)
        found = self._inverse.get(name)
        if found is None:
            found = self._inverse[name] = Group(-1 - len(self._inverse), APART, key, namespaces, selector)
            found.know(self._universe.get(key, {}))
        return found

    def _add(self, name: object, group: Group, tolerations: Sequence[Object] | None) -> None:
        """Registers a group with its existing and possible domains and counts the pods in them."""
        self._known[name] = group
        self.groups.append(group)
        for domain, taints in self._universe.get(group.key, {}).items():
            if tolerations is None or any(untolerated(each, tolerations, EVERY) is None for each in taints):
                group.know((domain,))
        selected: dict[Peer, bool] = {}
        for place, peers in self._peers:
            value = _domain(place, group.key)
            if value is None or not (group.filter is ALL or _counts(group, place)):
                continue
            if place.kind == "Node" and id(place) in self._sides:
                group.know((value,))
            for peer, count in peers.items():
                if peer not in selected:
                    selected[peer] = group.selects(peer[0], dict(peer[1]))
                if selected[peer]:
                    self._record(group, place, value, count)

    def _record(self, group: Group, place: Place, domain: str, pods: int = 1) -> None:
        if group.by_host and id(place) in self._sides:
            group.record_host(domain, 0, 1 << self._sides[id(place)], pods)
        else:
            group.record(domain, pods)

    def _record_opponents(self) -> None:
        for place in self._places:
            for pod in place.pods:
                terms = opposing_terms(pod)
                if not terms or not self._stays(pod):
                    continue
                for term in terms:
                    group = self._opponent(term, pod["metadata"].get("namespace", ""))
                    domain = _domain(place, group.key)
                    if domain is not None:
                        self._record(group, place, domain)

    def _named(self, term: Object, namespace: str) -> frozenset[str]:
        listed, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if selector is None:
            return frozenset(listed or (namespace,))
        chosen = _selector({"labelSelector": selector})
        return frozenset(listed) | {name for name, labels in self._namespaces.items() if chosen.matches(labels)}


def host_name(place: Place) -> str:
    return place.labels.get(HOSTNAME) or place.name


def signature(labels: Mapping[str, str] | None, keys: Collection[str]) -> frozenset[tuple[str, str]]:
    """Returns the labels that any selector uses."""
    if not labels or not keys:
        return frozenset()
    if len(keys) < len(labels):
        return frozenset([(key, labels[key]) for key in keys if key in labels])
    return frozenset([each for each in labels.items() if each[0] in keys])


def selector_keys(question: Question) -> frozenset[str]:
    """Pod labels that any selector of the input uses."""
    there = (pod for place in (*question.places, *question.others) for pod in place.pods)
    keys = {key for pod in question.pods for key in selecting_keys(pod.get("spec") or {})}
    return frozenset(keys | {key for pod in there for key in term_keys(opposing_terms(pod))})


def opposing_terms(pod: Object) -> Sequence[Object]:
    """Required anti-affinity terms of a pod."""
    affinity = (pod.get("spec") or {}).get("affinity")
    return ((affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()) if affinity else ()


def term_keys(terms: Iterable[Object]) -> Iterable[str]:
    for term in terms:
        yield from _keys(term.get("labelSelector"))


def selecting_keys(spec: Object) -> Iterable[str]:
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


def _universe(pools: Iterable[Pool]) -> Mapping[str, Mapping[str, list[Sequence[Object]]]]:
    """Possible domains of new nodes by label, each with the taints of the pools that have it."""
    found: dict[str, dict[str, list[Sequence[Object]]]] = {}
    for pool in pools:
        spec = template_spec(pool.pool)
        taints = tuple(spec.get("taints") or ())
        own = normalized(from_expressions(spec.get("requirements")).values())
        own = own.union(from_labels(template_labels(pool.pool)))
        values: dict[str, set[str]] = {}
        for each in own.values():
            if not each.complement:
                values.setdefault(each.key, set()).update(each.values)
        seen = set()
        for kind in pool.types:
            for key, each in kind.requirements.items():
                if each in seen:
                    continue
                seen.add(each)
                both = each if key not in own else each.intersection(own[key])
                if not both.complement:
                    values.setdefault(key, set()).update(both.values)
        for key, domains in values.items():
            for domain in domains:
                found.setdefault(key, {}).setdefault(domain, []).append(taints)
    return found


def _domain(place: Place, key: str) -> str | None:
    return host_name(place) if key == HOSTNAME else place.labels.get(key)


def _counts(group: Group, place: Place) -> bool:
    only = group.filter
    if only.alternatives and not any(each.matches(place.labels) for each in only.alternatives):
        return False
    return only.tolerations is None or untolerated(place.taints, only.tolerations, EVERY) is None


def _selected(constraint: Object, labels: Mapping[str, str]) -> LabelSelector:
    selector = _selector(constraint)
    more = [Requirement(key, "in", (labels[key],)) for key in constraint.get("matchLabelKeys") or () if key in labels]
    return LabelSelector([*selector.requirements, *more]) if more and not selector.nothing else selector


def _selector(term: Object) -> LabelSelector:
    try:
        return from_label_selector(term.get("labelSelector"))
    except BadRequest:
        return NOTHING
