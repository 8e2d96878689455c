"""Matching of one policy rule, and its text.

Pure functions over the wire form of a rule (`apiGroups`, `resources`, `verbs`, `resourceNames`, `nonResourceURLs`).
`rbac` resolves which rules a user has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
        merged_rule["verbs"] += strings(rule, "verbs")
    return sorted(compact | {_compact(rule) for rule in merged.values()})


def strings(rule: Rule, key: str) -> Sequence[str]:
    """A list field of a rule; absent and null are empty."""
    return rule.get(key) or ()


def quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def quote_list(values: Iterable[str]) -> str:
    """A list as Go prints it with %q: `["a" "b"]`."""
    return "[" + " ".join(map(quote, values)) + "]"


def _url_covers(owned: str, path: str) -> bool:
    return owned == path or (owned.endswith("*") and path.startswith(owned.rstrip("*")))


def _compact(rule: Rule) -> str:
    parts = (f"{title}:{quote_list(strings(rule, key))}" for title, key in _COMPACT_FIELDS if strings(rule, key))
    return "{" + ", ".join(parts) + "}"
