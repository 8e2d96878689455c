"""Matching of one policy rule, and whether a set of rules covers another.

Pure functions over the wire form of a rule (`apiGroups`, `resources`, `verbs`, `resourceNames`, `nonResourceURLs`).
`rbac` resolves which rules a user has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Rule = Mapping[str, Any]

_COMPACT_FIELDS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def matches_resource(rule: Rule, verb: str, group: str, resource: str, subresource: str) -> bool:
    """Reports whether the rule matches this resource. The caller checks `resourceNames`."""
    verbs, groups, resources = strings(rule, "verbs"), strings(rule, "apiGroups"), strings(rule, "resources")
    if not ("*" in verbs or verb in verbs) or not ("*" in groups or group in groups):
        return False
    if "*" in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def matches_path(rule: Rule, verb: str, path: str) -> bool:
    verbs = strings(rule, "verbs")
    return ("*" in verbs or verb in verbs) and any(_url_covers(url, path) for url in strings(rule, "nonResourceURLs"))


def missing_rules(owned: Sequence[Rule], required: Iterable[Rule]) -> list[Rule]:
    """The single-verb, single-resource parts of `required` that no rule of `owned` covers."""
    return [part for rule in required for part in _parts(rule) if not any(_rule_covers(owner, part) for owner in owned)]


def covers(owned: Sequence[Rule], required: Iterable[Rule]) -> bool:
    return not missing_rules(owned, required)


def describe(rules: Iterable[Rule]) -> list[str]:
    """Rules as in escalation messages: verbs of one resource joined, sorted, without duplicates."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    compact: set[str] = set()
    for rule in rules:
        groups, resources, names = (strings(rule, key) for key in ("apiGroups", "resources", "resourceNames"))
        if len(groups) != 1 or len(resources) != 1 or len(names) > 1 or strings(rule, "nonResourceURLs"):
            compact.add(_compact(rule))
            continue
        merged_rule = merged.setdefault((groups[0], resources[0], *names), {**rule, "verbs": []})
        merged_rule["verbs"] = [*merged_rule["verbs"], *strings(rule, "verbs")]
    return sorted(compact | {_compact(rule) for rule in merged.values()})


def strings(rule: Rule, key: str) -> Sequence[str]:
    """A list field of a rule; absent and null are empty."""
    return rule.get(key) or ()


def quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def quote_list(values: Iterable[str]) -> str:
    """A list as Go prints it with %q: `["a" "b"]`."""
    return "[" + " ".join(map(quote, values)) + "]"


def _parts(rule: Rule) -> Iterator[Rule]:
    verbs, names = strings(rule, "verbs"), strings(rule, "resourceNames")
    for group in strings(rule, "apiGroups"):
        for resource in strings(rule, "resources"):
            for verb in verbs:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if not names:
                    yield part
                for name in names:
                    yield {**part, "resourceNames": [name]}
    for url in strings(rule, "nonResourceURLs"):
        for verb in verbs:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _rule_covers(owner: Rule, part: Rule) -> bool:
    names, required_names = strings(owner, "resourceNames"), strings(part, "resourceNames")
    if names and (not required_names or any(name not in names for name in required_names)):
        return False
    return (
        _has_all(strings(owner, "verbs"), strings(part, "verbs"))
        and _has_all(strings(owner, "apiGroups"), strings(part, "apiGroups"))
        and _resources_cover(strings(owner, "resources"), strings(part, "resources"))
        and all(
            any(_url_covers(url, wanted) for url in strings(owner, "nonResourceURLs"))
            for wanted in strings(part, "nonResourceURLs")
        )
    )


def _has_all(owned: Sequence[str], required: Sequence[str]) -> bool:
    return "*" in owned or all(value in owned for value in required)


def _resources_cover(owned: Sequence[str], required: Sequence[str]) -> bool:
    if "*" in owned:
        return True
    for resource in required:
        _, slash, subresource = resource.partition("/")
        if resource not in owned and not (slash and f"*/{subresource}" in owned):
            return False
    return True


def _url_covers(owned: str, path: str) -> bool:
    return owned == path or (owned.endswith("*") and path.startswith(owned.rstrip("*")))


def _compact(rule: Rule) -> str:
    parts = (f"{title}:{quote_list(strings(rule, key))}" for title, key in _COMPACT_FIELDS if strings(rule, key))
    return "{" + ", ".join(parts) + "}"
