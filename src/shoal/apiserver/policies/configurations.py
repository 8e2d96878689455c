"""The admission policies of each logical cluster, compiled once per change. A cluster without policies costs two
lookups.

Policies run in the order of their names, and so do the bindings of each. A policy without a binding is ignored.
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
"""Exempt from policies, so that a policy that denies everything can still be removed."""


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """The part of a match that depends only on operation and resource, before the object is known."""

    match: Match
    included: tuple[tuple[Resource, frozenset[str]], ...]
    """The resource version the object is shown in, and the names the rule covers (empty: any)."""
    excluded: tuple[frozenset[str], ...]

    def shown(self, name: str) -> Resource | None:
        """Returns None if the object does not match."""
        if any(not names or name in names for names in self.excluded):
            return None
        return next((shown for shown, names in self.included if not names or name in names), None)


@dataclass(frozen=True, slots=True, eq=False)
class Concerned:
    policy: Policy
    aim: Aim
    bindings: tuple[tuple[Binding, Aim | None], ...]


Wanted = tuple[tuple[Concerned, ...], tuple[Concerned, ...]]
"""Mutating and validating policies whose rules match a write."""
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
        # A deletion has no object to mutate.
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
        """Returns None if the cluster has none."""
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
    # CEL is imported only for clusters with policies.
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
        """The written version first, then the equivalents that rules match."""
        found = []
        for candidates in ([self.resource],) if exact else ([self.resource], self.others):
            for named in rules:
                for each in candidates:
                    if named.rule.matches(
                        self.operation, each.group, each.version, each.plural, self.subresource, each.namespaced
                    ):
                        found.append((each, named.names))
        return tuple(found)
