"""The webhooks of each logical cluster, read from the cache once per change. A cluster without webhooks costs two
lookups.

Upstream's order: configurations by name, and in each the webhooks as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.apiserver.cache import Cache, Change, Kind
from shoal.apiserver.lookers import Lookers
from shoal.apiserver.registry import Registry, Resource
from shoal.apiserver.webhooks.calling import Calls, Poster
from shoal.kinds.webhooks import EXEMPT, Hook, read_hooks


@dataclass(frozen=True, slots=True, eq=False)
class Invocation:
    hook: Hook
    index: int
    """Position among all webhooks of its type in the cluster, as counted in audit annotations."""
    shown: Resource
    """The resource version the object is sent in, whatever version was written."""


Wanted = tuple[tuple[Invocation, ...], tuple[Invocation, ...]]
"""Mutating and validating webhooks whose rules match a write."""
NOBODY: Wanted = ((), ())


class Hooks:
    def __init__(self, mutating: tuple[Hook, ...], validating: tuple[Hook, ...]) -> None:
        self.mutating, self.validating = mutating, validating
        self._lookers = Lookers(self._look)

    def find(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> Wanted:
        return NOBODY if resource.group == EXEMPT else self._lookers.by(registry, operation, resource, subresource)

    def _look(self, operation: str, resource: Resource, subresource: str, others: list[Resource]) -> Wanted:
        return (
            _matching(self.mutating, operation, resource, subresource, others),
            _matching(self.validating, operation, resource, subresource, others),
        )


class Webhooks:
    def __init__(self, cache: Cache, open_poster: Callable[[], Poster]) -> None:
        self.calls = Calls(cache, open_poster)
        self._mutating = cache.kind(EXEMPT, "mutatingwebhookconfigurations")
        self._validating = cache.kind(EXEMPT, "validatingwebhookconfigurations")
        self._read: dict[str, Hooks] = {}
        for kind in (self._mutating, self._validating):
            kind.listen("*", self._changed)

    def of(self, cluster: str) -> Hooks | None:
        """Returns None if the cluster has none."""
        if cluster not in self._mutating.tables and cluster not in self._validating.tables:
            return None
        found = self._read.get(cluster)
        if found is None:
            found = self._read[cluster] = Hooks(_hooks(self._mutating, cluster), _hooks(self._validating, cluster))
        return found if found.mutating or found.validating else None

    def forget(self, cluster: str) -> None:
        self._read.pop(cluster, None)
        self.calls.forget(cluster)

    def _changed(self, change: Change) -> None:
        self._read.pop(change.cluster, None)


def _hooks(kind: Kind, cluster: str) -> tuple[Hook, ...]:
    table = kind.tables.get(cluster)
    return tuple(hook for entry in table.select("") for hook in read_hooks(entry.object())) if table else ()


def _matching(
    hooks: tuple[Hook, ...], operation: str, resource: Resource, subresource: str, others: list[Resource]
) -> tuple[Invocation, ...]:
    found = []
    for index, hook in enumerate(hooks):
        shown = _shown(hook, operation, resource, subresource, others)
        if shown is not None:
            found.append(Invocation(hook, index, shown))
    return tuple(found)


def _shown(hook: Hook, operation: str, resource: Resource, subresource: str, others: list[Resource]) -> Resource | None:
    """The written version if a rule matches it; else the equivalent the first matching rule names."""
    for candidates in ([resource],) if hook.exact else ([resource], others):
        for rule in hook.rules:
            for each in candidates:
                if rule.matches(operation, each.group, each.version, each.plural, subresource, each.namespaced):
                    return each
    return None
