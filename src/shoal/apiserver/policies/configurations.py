"""Which policies a logical cluster has, read and compiled once per change; a cluster without any costs two looks.

Policies are asked in the order of their names, and of each the bindings likewise. A policy without a binding is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.apiserver.cache import Cache, Change, Kind
from shoal.apiserver.lookers import Lookers
from shoal.apiserver.registry import Registry, Resource
from shoal.kinds.webhooks import EXEMPT

if TYPE_CHECKING:
    from shoal.kinds.policies.reading import Binding, Match, NamedRule, Policy

Object = dict[str, Any]
OWN = frozenset({
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
})  # fmt: skip
"""Whoever wrote a policy that refuses everything can still take it back."""


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """What of a match is settled by what is written, before the object is seen."""

    match: Match
    included: tuple[tuple[Resource, frozenset[str]], ...]
    """In which version the object is shown, and of which names the rule is (empty: of any)."""
    excluded: tuple[frozenset[str], ...]

    def shown(self, name: str) -> Resource | None:
        """None: the object is not meant."""
        if any(not names or name in names for names in self.excluded):
            return None
        return next((shown for shown, names in self.included if not names or name in names), None)


@dataclass(frozen=True, slots=True, eq=False)
class Concerned:
    policy: Policy
    aim: Aim
    bindings: tuple[tuple[Binding, Aim | None], ...]


Wanted = tuple[tuple[Concerned, ...], tuple[Concerned, ...]]
"""Mutating and validating policies that a rule makes look at a write."""
NOBODY: Wanted = ((), ())


class Found:
    def __init__(self, mutating: tuple[Policy, ...], validating: tuple[Policy, ...]) -> None:
        self.mutating, self.validating = mutating, validating
        self._lookers = Lookers(self._look)

    def find(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> Wanted:
        if resource.group == EXEMPT and resource.plural in OWN:
            return NOBODY
        return self._lookers.by(registry, operation, resource, subresource)

    def _look(self, operation: str, resource: Resource, subresource: str, others: list[Resource]) -> Wanted:
        look = _Look(operation, resource, subresource, others)
        # There is nothing to change in a deletion.
        mutating = () if operation == "DELETE" else look.concerned(self.mutating)
        return mutating, look.concerned(self.validating)


class Policies:
    def __init__(self, cache: Cache) -> None:
        self._kinds = [
            (cache.kind(EXEMPT, f"{sort}admissionpolicies"), cache.kind(EXEMPT, f"{sort}admissionpolicybindings"))
            for sort in ("mutating", "validating")
        ]
        self._bound = [bindings for _, bindings in self._kinds]
        self._read: dict[str, Found] = {}
        for pair in self._kinds:
            for kind in pair:
                kind.listen("*", self._changed)

    def of(self, cluster: str) -> Found | None:
        """None where there are none."""
        mutating, validating = self._bound
        if cluster not in mutating.tables and cluster not in validating.tables:
            return None
        found = self._read.get(cluster)
        if found is None:
            changing, checking = (_policies(*pair, cluster) for pair in self._kinds)
            found = self._read[cluster] = Found(changing, checking)
        return found if found.mutating or found.validating else None

    def forget(self, cluster: str) -> None:
        self._read.pop(cluster, None)

    def _changed(self, change: Change) -> None:
        self._read.pop(change.cluster, None)


def _policies(policies: Kind, bindings: Kind, cluster: str) -> tuple[Policy, ...]:
    table, bound = policies.tables.get(cluster), bindings.tables.get(cluster)
    if not table or not bound or not bound.entries:
        return ()
    # Only clusters with policies need CEL; a server without any starts without it.
    from shoal.kinds.policies.reading import read_binding, read_policy  # noqa: PLC0415

    by_policy: dict[str, list[Binding]] = {}
    for entry in bound.select(""):
        binding = entry.object()
        by_policy.setdefault(binding["spec"]["policyName"], []).append(read_binding(binding))
    return tuple(
        read_policy(entry.object(), tuple(by_policy[entry.name]))
        for entry in table.select("")
        if entry.name in by_policy
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    operation: str
    resource: Resource
    subresource: str
    others: list[Resource]

    def concerned(self, policies: Sequence[Policy]) -> tuple[Concerned, ...]:
        found = []
        for policy in policies:
            aim = self._aim(policy.match)
            if aim is None:
                continue
            aims = [(each, self._aim(each.match) if each.match is not None else None) for each in policy.bindings]
            bindings = tuple((each, its) for each, its in aims if its is not None or each.match is None)
            if bindings:
                found.append(Concerned(policy, aim, bindings))
        return tuple(found)

    def _aim(self, match: Match) -> Aim | None:
        included = self._matching(match.rules, match.exact) if match.rules else ((self.resource, frozenset[str]()),)
        excluded = tuple(names for _, names in self._matching(match.excluded, match.exact))
        if not included or not all(excluded):
            return None
        return Aim(match, included, excluded)

    def _matching(self, rules: tuple[NamedRule, ...], exact: bool) -> tuple[tuple[Resource, frozenset[str]], ...]:
        """As it was written first; then as the rules that are about an equivalent have it."""
        found = []
        for candidates in ([self.resource],) if exact else ([self.resource], self.others):
            for named in rules:
                for each in candidates:
                    if named.rule.matches(
                        self.operation, each.group, each.version, each.plural, self.subresource, each.namespaced
                    ):
                        found.append((each, named.names))
        return tuple(found)
