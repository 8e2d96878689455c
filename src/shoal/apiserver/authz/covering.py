"""Whether rules cover others. Pure; it never builds all combinations of groups, resources, verbs and names.

Each value of a rule has the set of owned rules that cover it, as an integer with a bit per rule. A combination of
values is covered if its sets have a rule in common. Values with equal sets are tried once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shoal.apiserver.authz.rules import Rule, strings

MAX_STEPS = 200_000
"""Comparisons of one check: about 0.1 s."""

RuleSet = int
ValueSets = list[tuple[str, RuleSet]]
"""Values of one field of a rule, each with the owned rules that cover it."""


class TooManyCombinations(Exception):
    """Whether the rules are covered was not found out."""


def missing_rules(owned: Sequence[Rule], required: Iterable[Rule]) -> Iterator[Rule]:
    """Yields the single-verb, single-resource parts of `required` that no rule of `owned` covers. Raises
    TooManyCombinations if that takes too long.
    """
    index = _OwnedRules(owned)
    steps = _StepLimit()
    for rule in required:
        verbs = index.values("verbs", strings(rule, "verbs"))
        groups = index.values("apiGroups", strings(rule, "apiGroups"))
        fields = (groups, index.resources(rule), verbs, index.names(rule))
        for group, resource, verb, *name in _Combinations(fields, steps).find_missing(-1):
            part: dict[str, Any] = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            yield {**part, "resourceNames": name} if strings(rule, "resourceNames") else part
        for url, verb in _Combinations((index.urls(rule), verbs), steps).find_missing(index.nameless):
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def covers(owned: Sequence[Rule], required: Iterable[Rule]) -> bool:
    return next(missing_rules(owned, required), None) is None


class _OwnedRules:
    """Looks up which owned rules cover a value."""

    def __init__(self, owned: Sequence[Rule]) -> None:
        self.nameless: RuleSet = 0
        """Rules for objects of any name."""
        self._rules: defaultdict[tuple[str, str], RuleSet] = defaultdict(int)
        self._url_prefixes: defaultdict[str, RuleSet] = defaultdict(int)
        for position, rule in enumerate(owned):
            bit = 1 << position
            for field in ("apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"):
                for value in strings(rule, field):
                    self._rules[field, value] |= bit
            for url in strings(rule, "nonResourceURLs"):
                if url.endswith("*"):
                    self._url_prefixes[url.rstrip("*")] |= bit
            if not strings(rule, "resourceNames"):
                self.nameless |= bit
        self._prefix_lengths = sorted({len(prefix) for prefix in self._url_prefixes})

    def values(self, field: str, values: Iterable[str]) -> ValueSets:
        every = self._rules.get((field, "*"), 0)
        return [(value, self._rules.get((field, value), 0) | every) for value in values]

    def resources(self, rule: Rule) -> ValueSets:
        found = []
        for resource, rules in self.values("resources", strings(rule, "resources")):
            _, slash, subresource = resource.partition("/")
            found.append((resource, rules | self._rules.get(("resources", f"*/{subresource}"), 0) if slash else rules))
        return found

    def names(self, rule: Rule) -> ValueSets:
        names = strings(rule, "resourceNames")
        if not names:
            return [("", self.nameless)]
        return [(name, self._rules.get(("resourceNames", name), 0) | self.nameless) for name in names]

    def urls(self, rule: Rule) -> ValueSets:
        found = []
        for url in strings(rule, "nonResourceURLs"):
            rules = self._rules.get(("nonResourceURLs", url), 0)
            for length in self._prefix_lengths:
                if length > len(url):
                    break
                rules |= self._url_prefixes.get(url[:length], 0)
            found.append((url, rules))
        return found


class _StepLimit:
    def __init__(self) -> None:
        self.left = MAX_STEPS

    def count(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooManyCombinations


class _Combinations:
    """Combinations of one value of each field."""

    def __init__(self, fields: tuple[ValueSets, ...], steps: _StepLimit) -> None:
        self._fields = fields if all(fields) else ()
        self._distinct = [{rules for _, rules in field} for field in self._fields]
        self._steps = steps
        self._known: dict[tuple[int, RuleSet], bool] = {}

    def find_missing(self, rules: RuleSet, *chosen: str) -> Iterator[tuple[str, ...]]:
        """Yields those that no rule covers. `rules` cover the values chosen of the first fields."""
        depth = len(chosen)
        if depth == len(self._fields):
            if depth:
                yield chosen
            return
        for value, covering in self._fields[depth]:
            self._steps.count(1)
            if not self._covers_rest(depth + 1, rules & covering):
                yield from self.find_missing(rules & covering, *chosen, value)

    def _covers_rest(self, depth: int, rules: RuleSet) -> bool:
        if not rules or depth == len(self._fields):
            return bool(rules)
        known = self._known.get((depth, rules))
        if known is None:
            self._steps.count(len(self._distinct[depth]))
            known = all(self._covers_rest(depth + 1, rules & covering) for covering in self._distinct[depth])
            self._known[depth, rules] = known
        return known
