"""The rules of one role, as stored bytes that are decoded only if they can match.

A tenant may have thousands of large roles. One search in the bytes rules most of them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import orjson

from shoal.apiserver.authz.rules import Rule, matches_path, matches_resource


class RoleRules:
    """`data` is the JSON of an object with `rules`."""

    __slots__ = ("_rules", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._rules: Sequence[Rule] | None = None

    @property
    def rules(self) -> Sequence[Rule]:
        """In their order. Decoded on first use."""
        if self._rules is None:
            role: dict[str, Any] = orjson.loads(self.data)
            self._rules = role.get("rules") or ()
        return self._rules

    def matching_resource(self, verb: str, group: str, resource: str, subresource: str) -> Iterator[Rule]:
        """Yields the rules that match this resource. The caller checks `resourceNames`."""
        data = self.data
        for name in _quoted_names(resource, subresource):
            if name in data:
                break
        else:
            return
        for rule in self.rules:
            if matches_resource(rule, verb, group, resource, subresource):
                yield rule

    def matching_path(self, verb: str, path: str) -> Iterator[Rule]:
        if b'"nonResourceURLs"' in self.data:
            for rule in self.rules:
                if matches_path(rule, verb, path):
                    yield rule


@lru_cache(maxsize=1024)
def _quoted_names(resource: str, subresource: str) -> tuple[bytes, ...]:
    """A rule that matches the resource has one of these."""
    names = ("*", f"{resource}/{subresource}", f"*/{subresource}") if subresource else ("*", resource)
    return tuple(orjson.dumps(name) for name in names)
