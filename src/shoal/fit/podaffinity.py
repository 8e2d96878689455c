"""Pod affinity and anti-affinity: which pods a pod wants around it, or not, and which do not want it. Pure.

`Neighbours` counts the pods that matter to one pod, by topology domain: a value of a node's label. Whoever keeps it
adds what each node holds and takes it away again, so that after a change only the nodes that changed are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]
NamespaceLabels = Callable[[str], Mapping[str, str]]
"""The labels of a namespace; none where it is not known."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD_WEIGHT = 1
"""How much a pod is drawn to where others require such as it."""

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
    """Of one pod; compared by identity."""

    together: tuple[Term, ...] = ()
    """Required: a pod that all of these match is in the domain of each."""
    apart: tuple[Term, ...] = ()
    """Required: no pod that one of these matches is in its domain."""
    liked: tuple[tuple[Term, int], ...] = ()
    """Preferred, by weight; of anti-affinity the weight is negative."""

    def every(self) -> tuple[Term, ...]:
        return (*self.together, *self.apart, *(term for term, _ in self.liked))

    def by_namespaces(self) -> bool:
        """Whether labels of namespaces are asked for."""
        return any(not term.namespace_selector.nothing and term.namespace_selector for term in self.every())

    def concern(self, peer: Peer, namespace_labels: NamespaceLabels) -> bool:
        """Whether the pod that says this makes any difference to the other."""
        return any(term.matches(peer, namespace_labels) for term in self.every())


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Peer:
    """A pod as other pods see it. Compared by identity: keep one for pods that are alike."""

    namespace: str
    labels: Mapping[str, str]
    terms: Terms | None = None
    leaving: bool = False
    """It is being deleted."""


def terms(spec: Object, namespace: str) -> Terms | None:
    """None: the pod says nothing of other pods."""
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
    """`matchLabelKeys` are part of the selector already: the API server put them there."""
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
"""What is counted, the topology key and its value."""
Share = dict[Domain, int]
"""What one node adds to the counts."""

_TOGETHER, _APART, _UNWANTED, _LIKED = "together", "apart", "unwanted", "liked"


class Neighbours:
    def __init__(self, me: Peer, namespace_labels: NamespaceLabels) -> None:
        self._me, self._namespace_labels = me, namespace_labels
        mine = me.terms or Terms()
        self._mine = mine
        self._first = bool(mine.together) and self._all_match(me)
        self._counts: Share = {}
        self._together = 0
        """How many domains have a pod that matches all terms of affinity."""
        self._effects: dict[Peer, tuple[tuple[str, str, int], ...]] = {}
        self.keys = {term.topology for term in mine.every()}
        """Labels of nodes that make a difference; grows with what others ask."""
        self.touched: set[tuple[str, str]] = set()
        """Where something was counted anew: labels and their values. Whoever keeps up with it empties it."""

    @property
    def first(self) -> bool:
        """It may be the first of several that want to be together, wherever that is."""
        return self._first and not self._together

    def add(self, labels: Mapping[str, str], peers: Mapping[Peer, int]) -> Share:
        """Counts the pods of a node with these labels; the answer is for `take`."""
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
        """Why the pod cannot go to a node with these labels; "" if it can. Only NOT_TOGETHER is beyond preemption."""
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
        """How much the pod is drawn to such a node by the pods around; less than 0: rather not."""
        counts = self._counts
        if not counts:
            return 0
        return sum(counts.get((_LIKED, key, labels[key]), 0) for key in self.keys if key in labels)

    def concerns(self, peer: Peer) -> bool:
        """Whether the other pod makes any difference."""
        return bool(self._effect(peer))

    def _is_together(self, labels: Mapping[str, str]) -> bool:
        found = True
        for term in self._mine.together:
            value = labels.get(term.topology)
            if value is None:
                return False
            found = found and self._counts.get((_TOGETHER, term.topology, value), 0) > 0
        # Otherwise the first of several that want to be together would wait for ever.
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
        """What one such pod adds: of what, by which label of its node, how much."""
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
