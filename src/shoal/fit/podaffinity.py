"""Inter-pod affinity and anti-affinity. Pure.

`AffinityCounts` counts, for one pod, the relevant pods by topology domain (a value of a node label). The caller adds
and subtracts the share of each node, so that a change recounts only the changed nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]
NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Returns the labels of a namespace; empty if unknown."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD_WEIGHT = 1
"""Weight of a required affinity term of an existing pod that matches this pod."""

NOT_TOGETHER = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
NOT_WANTED = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class Term:
    topology: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    def matches(self, peer: Peer, namespace_labels: NamespaceLabels) -> bool:
        if not self.selector.matches(peer.labels):
            return False
        if peer.namespace in self.namespaces or self.namespace_selector.empty:
            return True
        return not self.namespace_selector.nothing and self.namespace_selector.matches(namespace_labels(peer.namespace))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Terms:
    """Terms of one pod; compared by identity."""

    together: tuple[Term, ...] = ()
    """Required affinity: each domain must contain a pod that matches all of these."""
    apart: tuple[Term, ...] = ()
    """Required anti-affinity: no domain may contain a pod that matches one of these."""
    liked: tuple[tuple[Term, int], ...] = ()
    """Preferred terms with weights; those of anti-affinity are negative."""

    def every(self) -> tuple[Term, ...]:
        return (*self.together, *self.apart, *(term for term, _ in self.liked))

    def by_namespaces(self) -> bool:
        """Returns whether a term selects namespaces by label."""
        return any(not term.namespace_selector.nothing and term.namespace_selector for term in self.every())

    def concern(self, peer: Peer, namespace_labels: NamespaceLabels) -> bool:
        """Returns whether any term matches the other pod."""
        return any(term.matches(peer, namespace_labels) for term in self.every())


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Peer:
    """A pod as seen by other pods' terms. Compared by identity: share one instance between equal pods."""

    namespace: str
    labels: Mapping[str, str]
    terms: Terms | None = None
    leaving: bool = False
    """It is being deleted."""


def terms(spec: Object, namespace: str) -> Terms | None:
    """Returns None if the pod has no inter-pod terms."""
    affinity = spec.get("affinity")
    if not affinity:
        return None
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    found = Terms(
        tuple(_term(each, namespace) for each in near.get(REQUIRED) or ()),
        tuple(_term(each, namespace) for each in far.get(REQUIRED) or ()),
        (*_weighted(near, namespace, 1), *_weighted(far, namespace, -1)),
    )
    return found if found.together or found.apart or found.liked else None


def _weighted(rules: Object, namespace: str, sign: int) -> Iterable[tuple[Term, int]]:
    for each in rules.get(PREFERRED) or ():
        yield _term(each.get("podAffinityTerm") or {}, namespace), sign * int(each.get("weight", 0))


def _term(term: Object, namespace: str) -> Term:
    """The API server has already merged `matchLabelKeys` into the selector."""
    named = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if not named and selector is None:
        named = frozenset((namespace,))
    return Term(term.get("topologyKey", ""), _selector(term.get("labelSelector")), named, _selector(selector))


def _selector(selector: Object | None) -> LabelSelector:
    try:
        return from_label_selector(selector)
    except BadRequest:
        return NOTHING


Domain = tuple[str, str, str]
"""Counter, topology key and value."""
Share = dict[Domain, int]
"""Contribution of one node to the counts."""

_TOGETHER, _APART, _UNWANTED, _LIKED = "together", "apart", "unwanted", "liked"


class Neighbours:
    def __init__(self, me: Peer, namespace_labels: NamespaceLabels) -> None:
        self._me, self._namespace_labels = me, namespace_labels
        mine = me.terms or Terms()
        self._mine = mine
        self._first = bool(mine.together) and self._all_match(me)
        self._counts: Share = {}
        self._together = 0
        """Number of domains with a pod that matches all affinity terms."""
        self._effects: dict[Peer, tuple[tuple[str, str, int], ...]] = {}
        self.keys = {term.topology for term in mine.every()}
        """Node labels that matter; grows with the terms of other pods."""
        self.touched: set[tuple[str, str]] = set()
        """Labels and values whose counts changed. The reader clears it."""

    @property
    def first(self) -> bool:
        """Whether the pod may be the first of a group that requires affinity to itself, in any domain."""
        return self._first and not self._together

    def add(self, labels: Mapping[str, str], peers: Mapping[Peer, int]) -> Share:
        """Counts the pods of a node with these labels. The result is passed to `subtract` later."""
        share: Share = {}
        for peer, number in peers.items():
            for what, key, weight in self._effect(peer):
                value = labels.get(key)
                if value is not None:
                    domain = what, key, value
                    share[domain] = share.get(domain, 0) + weight * number
        self._change(share, 1)
        return share

    def take(self, share: Share) -> None:
        self._change(share, -1)

    def obstacle(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can. Preemption can resolve all but
        AFFINITY_MISMATCH.
        """
        counts, mine = self._counts, self._mine
        if mine.together and not self._is_together(labels):
            return NOT_TOGETHER
        if not counts:
            return ""
        for term in mine.apart:
            key = term.topology
            if key in labels and counts.get((_APART, key, labels[key]), 0) > 0:
                return NOT_APART
        for key in self.keys:
            if key in labels and counts.get((_UNWANTED, key, labels[key]), 0) > 0:
                return NOT_WANTED
        return ""

    def score(self, labels: Mapping[str, str]) -> int:
        """Returns the preference for such a node by existing pods; negative means avoid."""
        counts = self._counts
        if not counts:
            return 0
        return sum(counts.get((_LIKED, key, labels[key]), 0) for key in self.keys if key in labels)

    def concerns(self, peer: Peer) -> bool:
        """Returns whether the other pod matters."""
        return bool(self._effect(peer))

    def _is_together(self, labels: Mapping[str, str]) -> bool:
        found = True
        for term in self._mine.together:
            value = labels.get(term.topology)
            if value is None:
                return False
            found = found and self._counts.get((_TOGETHER, term.topology, value), 0) > 0
        # Otherwise the first pod of a group with affinity to itself would wait for ever.
        return found or self.first

    def _change(self, share: Share, sign: int) -> None:
        counts = self._counts
        for domain, number in share.items():
            before = counts.get(domain, 0)
            after = before + sign * number
            if after:
                counts[domain] = after
            else:
                counts.pop(domain, None)
            if domain[0] is _TOGETHER:
                self._together += (after > 0) - (before > 0)
            self.touched.add(domain[1:])

    def _effect(self, peer: Peer) -> tuple[tuple[str, str, int], ...]:
        """Returns the contributions of one such pod: counter, topology key and weight."""
        known = self._effects.get(peer)
        if known is None:
            known = self._effects[peer] = tuple(self._effects_of(peer))
            self.keys.update(key for _, key, _ in known)
        return known

    def _effects_of(self, peer: Peer) -> Iterable[tuple[str, str, int]]:
        mine, of = self._mine, self._namespace_labels
        if mine.together and self._all_match(peer):
            yield from ((_TOGETHER, term.topology, 1) for term in mine.together)
        yield from ((_APART, term.topology, 1) for term in mine.apart if term.matches(peer, of))
        yield from ((_LIKED, term.topology, weight) for term, weight in mine.liked if term.matches(peer, of))
        if peer.terms is not None:
            me, its = self._me, peer.terms
            yield from ((_UNWANTED, term.topology, 1) for term in its.apart if term.matches(me, of))
            yield from ((_LIKED, term.topology, HARD_WEIGHT) for term in its.together if term.matches(me, of))
            yield from ((_LIKED, term.topology, weight) for term, weight in its.liked if term.matches(me, of))

    def _all_match(self, peer: Peer) -> bool:
        return all(term.matches(peer, self._namespace_labels) for term in self._mine.together)
