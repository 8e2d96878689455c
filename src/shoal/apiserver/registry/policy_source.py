"""The admission policies of each logical cluster, compiled once per change. A cluster without policies costs two
lookups.

Policies run in the order of their names, and so do the bindings of each. A policy without a binding is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.apiserver.cache.cacher import CacheEvent, ResourceCache, WatchCache
from shoal.apiserver.registry.matching import RuleMatchCache
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.kinds.admissionregistration.webhook_client import EXEMPT_GROUP

if TYPE_CHECKING:
    from shoal.kinds.admissionregistration.policies.compilation import (
        AdmissionPolicy,
        MatchResources,
        NamedRuleWithOperations,
        PolicyBinding,
    )

Object = dict[str, Any]
POLICY_RESOURCES = frozenset({
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
})  # fmt: skip
"""Exempt from policies, so that a policy that denies everything can still be removed."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchedRules:
    """The part of a match that depends only on operation and resource, before the object is known."""

    match: MatchResources
    included: tuple[tuple[Resource, frozenset[str]], ...]
    """The resource version the object is shown in, and the names the rule covers (empty: any)."""
    excluded: tuple[frozenset[str], ...]

    def resource_for(self, name: str) -> Resource | None:
        """Returns None if the object does not match."""
        if any(not names or name in names for names in self.excluded):
            return None
        return next((resource for resource, names in self.included if not names or name in names), None)


@dataclass(frozen=True, slots=True, eq=False)
class MatchedPolicy:
    policy: AdmissionPolicy
    rules: MatchedRules
    bindings: tuple[tuple[PolicyBinding, MatchedRules | None], ...]


MatchedPolicies = tuple[tuple[MatchedPolicy, ...], tuple[MatchedPolicy, ...]]
"""Mutating and validating policies whose rules match a write."""
NO_POLICIES: MatchedPolicies = ((), ())


class ClusterPolicies:
    def __init__(self, mutating: tuple[AdmissionPolicy, ...], validating: tuple[AdmissionPolicy, ...]) -> None:
        self.mutating, self.validating = mutating, validating
        self._match_cache = RuleMatchCache(self._match_rules)

    def match(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> MatchedPolicies:
        if resource.group == EXEMPT_GROUP and resource.plural in POLICY_RESOURCES:
            return NO_POLICIES
        return self._match_cache.get(registry, operation, resource, subresource)

    def _match_rules(
        self, operation: str, resource: Resource, subresource: str, others: list[Resource]
    ) -> MatchedPolicies:
        matcher = _RuleMatcher(operation, resource, subresource, others)
        # A deletion has no object to mutate.
        mutating = () if operation == "DELETE" else matcher.match_policies(self.mutating)
        return mutating, matcher.match_policies(self.validating)


class PolicySource:
    def __init__(self, cache: WatchCache) -> None:
        self._kinds = [
            (
                cache.resource_cache(EXEMPT_GROUP, f"{sort}admissionpolicies"),
                cache.resource_cache(EXEMPT_GROUP, f"{sort}admissionpolicybindings"),
            )
            for sort in ("mutating", "validating")
        ]
        self._bindings = [bindings for _, bindings in self._kinds]
        self._clusters: dict[str, ClusterPolicies] = {}
        for pair in self._kinds:
            for kind in pair:
                kind.add_event_handler("*", self._on_policy)

    def for_cluster(self, cluster: str) -> ClusterPolicies | None:
        """Returns None if the cluster has none."""
        mutating, validating = self._bindings
        if cluster not in mutating.tables and cluster not in validating.tables:
            return None
        policies = self._clusters.get(cluster)
        if policies is None:
            mutating_policies, validating_policies = (_compile_policies(*pair, cluster) for pair in self._kinds)
            policies = self._clusters[cluster] = ClusterPolicies(mutating_policies, validating_policies)
        return policies if policies.mutating or policies.validating else None

    def forget(self, cluster: str) -> None:
        self._clusters.pop(cluster, None)

    def _on_policy(self, event: CacheEvent) -> None:
        self._clusters.pop(event.cluster, None)


def _compile_policies(policies: ResourceCache, bindings: ResourceCache, cluster: str) -> tuple[AdmissionPolicy, ...]:
    table, bound = policies.tables.get(cluster), bindings.tables.get(cluster)
    if not table or not bound or not bound.entries:
        return ()
    # CEL is imported only for clusters with policies.
    from shoal.kinds.admissionregistration.policies.compilation import binding_of, policy_of  # noqa: PLC0415

    by_policy: dict[str, list[PolicyBinding]] = {}
    for entry in bound.select(""):
        binding = entry.object()
        by_policy.setdefault(binding["spec"]["policyName"], []).append(binding_of(binding))
    return tuple(
        policy_of(entry.object(), tuple(by_policy[entry.name])) for entry in table.select("") if entry.name in by_policy
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RuleMatcher:
    operation: str
    resource: Resource
    subresource: str
    others: list[Resource]

    def match_policies(self, policies: Sequence[AdmissionPolicy]) -> tuple[MatchedPolicy, ...]:
        matched = []
        for policy in policies:
            rules = self._match_rules(policy.match)
            if rules is None:
                continue
            binding_rules = [
                (each, self._match_rules(each.match) if each.match is not None else None) for each in policy.bindings
            ]
            bindings = tuple((each, its) for each, its in binding_rules if its is not None or each.match is None)
            if bindings:
                matched.append(MatchedPolicy(policy, rules, bindings))
        return tuple(matched)

    def _match_rules(self, match: MatchResources) -> MatchedRules | None:
        included = (
            self._matching_resources(match.rules, match.exact_match)
            if match.rules
            else ((self.resource, frozenset[str]()),)
        )
        excluded = tuple(names for _, names in self._matching_resources(match.excluded_rules, match.exact_match))
        if not included or not all(excluded):
            return None
        return MatchedRules(match, included, excluded)

    def _matching_resources(
        self, rules: tuple[NamedRuleWithOperations, ...], exact: bool
    ) -> tuple[tuple[Resource, frozenset[str]], ...]:
        """The written version first, then the equivalents that rules match."""
        matching = []
        for candidates in ([self.resource],) if exact else ([self.resource], self.others):
            for named in rules:
                for each in candidates:
                    if named.rule.matches(
                        self.operation, each.group, each.version, each.plural, self.subresource, each.namespaced
                    ):
                        matching.append((each, named.resource_names))
        return tuple(matching)
