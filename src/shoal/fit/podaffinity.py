"""Inter-pod affinity and anti-affinity. Pure.

`AffinityCounts` counts, for one pod, the relevant pods by topology domain (a value of a node label). The caller adds
and subtracts the share of each node, so that a change recounts only the changed nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]
NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Returns the labels of a namespace; empty if unknown."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED_AFFINITY_WEIGHT = 1
"""Weight of a required affinity term of an existing pod that matches this pod."""

AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_MISMATCH = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = SELECT_NOTHING

    def matches(self, peer: PeerPod, namespace_labels: NamespaceLabels) -> bool:
        if not self.selector.matches(peer.labels):
            return False
        if peer.namespace in self.namespaces or self.namespace_selector.is_empty:
            return True
        return not self.namespace_selector.selects_nothing and self.namespace_selector.matches(
            namespace_labels(peer.namespace)
        )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerms:
    """Terms of one pod; compared by identity."""

    affinity: tuple[AffinityTerm, ...] = ()
    """Required affinity: each domain must contain a pod that matches all of these."""
    anti_affinity: tuple[AffinityTerm, ...] = ()
    """Required anti-affinity: no domain may contain a pod that matches one of these."""
    preferred: tuple[tuple[AffinityTerm, int], ...] = ()
    """Preferred terms with weights; those of anti-affinity are negative."""

    def all_terms(self) -> tuple[AffinityTerm, ...]:
        return (*self.affinity, *self.anti_affinity, *(term for term, _ in self.preferred))

    def uses_namespace_selector(self) -> bool:
        """Returns whether a term selects namespaces by label."""
        return any(not term.namespace_selector.selects_nothing and term.namespace_selector for term in self.all_terms())

    def matches_any(self, peer: PeerPod, namespace_labels: NamespaceLabels) -> bool:
        """Returns whether any term matches the other pod."""
        return any(term.matches(peer, namespace_labels) for term in self.all_terms())


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PeerPod:
    """A pod as seen by other pods' terms. Compared by identity: share one instance between equal pods."""

    namespace: str
    labels: Mapping[str, str]
    terms: AffinityTerms | None = None
    is_terminating: bool = False
    """It is being deleted."""


def affinity_terms(spec: Object, namespace: str) -> AffinityTerms | None:
    """Returns None if the pod has no inter-pod terms."""
    affinity = spec.get("affinity")
    if not affinity:
        return None
    pod_affinity, pod_anti_affinity = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    result = AffinityTerms(
        tuple(_term(each, namespace) for each in pod_affinity.get(REQUIRED) or ()),
        tuple(_term(each, namespace) for each in pod_anti_affinity.get(REQUIRED) or ()),
        (*_preferred_terms(pod_affinity, namespace, 1), *_preferred_terms(pod_anti_affinity, namespace, -1)),
    )
    return result if result.affinity or result.anti_affinity or result.preferred else None


def _preferred_terms(rules: Object, namespace: str, sign: int) -> Iterable[tuple[AffinityTerm, int]]:
    for each in rules.get(PREFERRED) or ():
        yield _term(each.get("podAffinityTerm") or {}, namespace), sign * int(each.get("weight", 0))


def _term(term: Object, namespace: str) -> AffinityTerm:
    """The API server has already merged `matchLabelKeys` into the selector."""
    namespaces = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = frozenset((namespace,))
    return AffinityTerm(
        term.get("topologyKey", ""), _selector(term.get("labelSelector")), namespaces, _selector(selector)
    )


def _selector(selector: Object | None) -> LabelSelector:
    try:
        return from_label_selector(selector)
    except BadRequest:
        return SELECT_NOTHING


CountedDomain = tuple[str, str, str]
"""Counter, topology key and value."""
AffinityShare = dict[CountedDomain, int]
"""Contribution of one node to the counts."""

_AFFINITY, _ANTI_AFFINITY, _EXISTING_ANTI_AFFINITY, _PREFERRED = "together", "apart", "unwanted", "liked"


class AffinityCounts:
    def __init__(self, pod: PeerPod, namespace_labels: NamespaceLabels) -> None:
        self._pod, self._namespace_labels = pod, namespace_labels
        pod_terms = pod.terms or AffinityTerms()
        self._terms = pod_terms
        self._matches_itself = bool(pod_terms.affinity) and self._matches_all_affinity(pod)
        self._counts: AffinityShare = {}
        self._matching_domains = 0
        """Number of domains with a pod that matches all affinity terms."""
        self._effects: dict[PeerPod, tuple[tuple[str, str, int], ...]] = {}
        self.topology_keys = {term.topology_key for term in pod_terms.all_terms()}
        """Node labels that matter; grows with the terms of other pods."""
        self.changed_domains: set[tuple[str, str]] = set()
        """Labels and values whose counts changed. The reader clears it."""

    @property
    def is_first_of_group(self) -> bool:
        """Whether the pod may be the first of a group that requires affinity to itself, in any domain."""
        return self._matches_itself and not self._matching_domains

    def add(self, labels: Mapping[str, str], peers: Mapping[PeerPod, int]) -> AffinityShare:
        """Counts the pods of a node with these labels. The result is passed to `subtract` later."""
        share: AffinityShare = {}
        for peer, number in peers.items():
            for counter, key, weight in self._cached_effects(peer):
                value = labels.get(key)
                if value is not None:
                    domain = counter, key, value
                    share[domain] = share.get(domain, 0) + weight * number
        self._change(share, 1)
        return share

    def subtract(self, share: AffinityShare) -> None:
        self._change(share, -1)

    def reject_reason(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can. Preemption can resolve all but
        AFFINITY_MISMATCH.
        """
        counts, pod_terms = self._counts, self._terms
        if pod_terms.affinity and not self._satisfies_affinity(labels):
            return AFFINITY_MISMATCH
        if not counts:
            return ""
        for term in pod_terms.anti_affinity:
            key = term.topology_key
            if key in labels and counts.get((_ANTI_AFFINITY, key, labels[key]), 0) > 0:
                return ANTI_AFFINITY_MISMATCH
        for key in self.topology_keys:
            if key in labels and counts.get((_EXISTING_ANTI_AFFINITY, key, labels[key]), 0) > 0:
                return EXISTING_ANTI_AFFINITY_MISMATCH
        return ""

    def score(self, labels: Mapping[str, str]) -> int:
        """Returns the preference for such a node by existing pods; negative means avoid."""
        counts = self._counts
        if not counts:
            return 0
        return sum(counts.get((_PREFERRED, key, labels[key]), 0) for key in self.topology_keys if key in labels)

    def is_affected_by(self, peer: PeerPod) -> bool:
        """Returns whether the other pod matters."""
        return bool(self._cached_effects(peer))

    def _satisfies_affinity(self, labels: Mapping[str, str]) -> bool:
        has_match = True
        for term in self._terms.affinity:
            value = labels.get(term.topology_key)
            if value is None:
                return False
            has_match = has_match and self._counts.get((_AFFINITY, term.topology_key, value), 0) > 0
        # Otherwise the first pod of a group with affinity to itself would wait for ever.
        return has_match or self.is_first_of_group

    def _change(self, share: AffinityShare, sign: int) -> None:
        counts = self._counts
        for domain, number in share.items():
            before = counts.get(domain, 0)
            after = before + sign * number
            if after:
                counts[domain] = after
            else:
                counts.pop(domain, None)
            if domain[0] is _AFFINITY:
                self._matching_domains += (after > 0) - (before > 0)
            self.changed_domains.add(domain[1:])

    def _cached_effects(self, peer: PeerPod) -> tuple[tuple[str, str, int], ...]:
        """Returns the contributions of one such pod: counter, topology key and weight."""
        cached = self._effects.get(peer)
        if cached is None:
            cached = self._effects[peer] = tuple(self._effects_of(peer))
            self.topology_keys.update(key for _, key, _ in cached)
        return cached

    def _effects_of(self, peer: PeerPod) -> Iterable[tuple[str, str, int]]:
        own_terms, namespace_labels = self._terms, self._namespace_labels
        if own_terms.affinity and self._matches_all_affinity(peer):
            yield from ((_AFFINITY, term.topology_key, 1) for term in own_terms.affinity)
        yield from (
            (_ANTI_AFFINITY, term.topology_key, 1)
            for term in own_terms.anti_affinity
            if term.matches(peer, namespace_labels)
        )
        yield from (
            (_PREFERRED, term.topology_key, weight)
            for term, weight in own_terms.preferred
            if term.matches(peer, namespace_labels)
        )
        if peer.terms is not None:
            pod, peer_terms = self._pod, peer.terms
            yield from (
                (_EXISTING_ANTI_AFFINITY, term.topology_key, 1)
                for term in peer_terms.anti_affinity
                if term.matches(pod, namespace_labels)
            )
            yield from (
                (_PREFERRED, term.topology_key, REQUIRED_AFFINITY_WEIGHT)
                for term in peer_terms.affinity
                if term.matches(pod, namespace_labels)
            )
            yield from (
                (_PREFERRED, term.topology_key, weight)
                for term, weight in peer_terms.preferred
                if term.matches(pod, namespace_labels)
            )

    def _matches_all_affinity(self, peer: PeerPod) -> bool:
        return all(term.matches(peer, self._namespace_labels) for term in self._terms.affinity)
