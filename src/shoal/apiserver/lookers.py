"""Caches which webhooks and policies match (operation, resource, subresource). Invalidated when the registry
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from shoal.apiserver.registry import Registry, Resource

T = TypeVar("T")
Find = Callable[[str, Resource, str, list[Resource]], T]
"""Arguments: operation, resource, subresource and the equivalents of the resource."""
EVENTS = ("", "events"), ("events.k8s.io", "events")


class Lookers(Generic[T]):
    def __init__(self, find: Find[T]) -> None:
        self._find = find
        self._registry: Registry | None = None
        """The registry the matches belong to. Another version of a CRD makes other equivalents."""
        self._found: dict[tuple[str, str, str, str, str], T] = {}

    def by(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> T:
        if registry is not self._registry:
            self._registry, self._found = registry, {}
        key = operation, resource.group, resource.version, resource.plural, subresource
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(operation, resource, subresource, equivalents(registry, resource))
        return found


def equivalents(registry: Registry, resource: Resource) -> list[Resource]:
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
    found = registry.find(other[0], "v1", other[1]) if other is not None else None
    return [found] if found is not None else []
