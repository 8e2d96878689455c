"""Caches which webhooks and policies match (operation, resource, subresource). Invalidated when the registry
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from shoal.apiserver.registry.registry import Registry, Resource

T = TypeVar("T")
MatchFunction = Callable[[str, Resource, str, list[Resource]], T]
"""Arguments: operation, resource, subresource and the equivalents of the resource."""
EVENTS = ("", "events"), ("events.k8s.io", "events")


class RuleMatchCache(Generic[T]):
    def __init__(self, match: MatchFunction[T]) -> None:
        self._match = match
        self._registry: Registry | None = None
        """The registry the matches belong to. Another version of a CRD makes other equivalents."""
        self._matches: dict[tuple[str, str, str, str, str], T] = {}

    def get(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> T:
        if registry is not self._registry:
            self._registry, self._matches = registry, {}
        key = operation, resource.group, resource.version, resource.plural, subresource
        matched = self._matches.get(key)
        if matched is None:
            matched = self._matches[key] = self._match(
                operation, resource, subresource, equivalent_resources(registry, resource)
            )
        return matched


def equivalent_resources(registry: Registry, resource: Resource) -> list[Resource]:
    """Other resources that serve the same objects: other versions of a custom resource, and the other group of
    Events.
    """
    if resource.custom:
        versions = (
            registry.find(resource.group, version, resource.plural) for version in registry.versions(resource.group)
        )
        return [each for each in versions if each is not None and each.version != resource.version]
    here = resource.group, resource.plural
    other = next((each for each in EVENTS if each != here), None) if here in EVENTS else None
    equivalent = registry.find(other[0], "v1", other[1]) if other is not None else None
    return [equivalent] if equivalent is not None else []
