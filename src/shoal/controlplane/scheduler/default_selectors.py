"""Which pods are to be kept apart by default: the selectors of Services and of the controllers of pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from shoal.fit.default_spread import merged_selector, owner_reference, owner_selector
from shoal.objects.selectors import LabelSelector

Object = dict[str, Any]
ObjectKey = tuple[str, str]
"""Namespace and name."""
OwnerKey = tuple[str, str]
"""Resource and name of a pod's controller."""
MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DefaultSpread:
    """The pods that a pod is kept apart from. Compared by identity: equal ones share one instance."""

    namespace: str
    selector: LabelSelector


def owner_of(pod: Object) -> OwnerKey | None:
    """Returns the controller of the pod if its selector counts."""
    found = owner_reference(pod)
    return (found[0], str(found[1].get("name", ""))) if found is not None else None


class DefaultSelectors:
    """Services and controllers of one cluster."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes when the result for a pod may have changed."""
        self._service_selectors: dict[ObjectKey, dict[str, str]] = {}
        self._services_by_label: dict[tuple[str, str, str], set[str]] = {}
        """Names of Services by namespace and one of their labels."""
        self._owners: dict[tuple[str, ObjectKey], Object] = {}
        """Their selectors, which are parsed when a pod needs them."""
        self._found: dict[tuple[str, tuple[str, ...], OwnerKey | None], DefaultSpread | None] = {}
        """Results of `find` by namespace, names of the Services, and owner."""
        self._asked_owners: set[tuple[str, ObjectKey]] = set()
        self._interned: WeakValueDictionary[tuple[str, LabelSelector], DefaultSpread] = WeakValueDictionary()

    def put_service(self, key: ObjectKey, service: Object | None) -> None:
        selector = ((service.get("spec") or {}).get("selector") or {}) if service is not None else {}
        before = self._service_selectors.get(key, {})
        if selector == before:
            return
        namespace, name = key
        if before:
            label = namespace, *min(before.items())
            self._services_by_label[label].discard(name)
            if not self._services_by_label[label]:
                del self._services_by_label[label]
            del self._service_selectors[key]
        if selector:
            self._service_selectors[key] = selector
            self._services_by_label.setdefault((namespace, *min(selector.items())), set()).add(name)
        self._forget_results()

    def put_owner(self, resource: str, key: ObjectKey, owner: Object | None) -> None:
        owner_id = resource, key
        selector = ((owner.get("spec") or {}).get("selector") or {}) if owner is not None else None
        if selector == self._owners.get(owner_id):
            return
        if selector is None:
            del self._owners[owner_id]
        else:
            self._owners[owner_id] = selector
        # Most controllers are known before their pods: then no queued pod has to be looked at again.
        if owner_id in self._asked_owners:
            self._forget_results()

    def find(self, namespace: str, labels: Mapping[str, str], owner: OwnerKey | None) -> DefaultSpread | None:
        """Returns which pods a pod is kept apart from by default; None if nothing selects it."""
        services = tuple(sorted(self._services_of(namespace, labels)))
        if not services and owner is None:
            return None
        query = namespace, services, owner
        if query not in self._found:
            if len(self._found) >= MAX_CACHED:
                self._forget_results()
            self._found[query] = self._find(namespace, services, owner)
        return self._found[query]

    def _find(self, namespace: str, services: tuple[str, ...], owner: OwnerKey | None) -> DefaultSpread | None:
        selector_of_owner = None
        if owner is not None:
            owner_id = owner[0], (namespace, owner[1])
            self._asked_owners.add(owner_id)
            selector_of_owner = owner_selector(owner[0], self._owners.get(owner_id) or {})
        selectors = [self._service_selectors[namespace, name] for name in services]
        selector = merged_selector(selectors, selector_of_owner)
        if selector.is_empty:
            return None
        interned = self._interned.get((namespace, selector))
        if interned is None:
            interned = self._interned[namespace, selector] = DefaultSpread(namespace, selector)
        return interned

    def _services_of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[str]:
        for label, value in labels.items():
            for name in self._services_by_label.get((namespace, label, value), ()):
                selector = self._service_selectors[namespace, name]
                if all(labels.get(key) == wanted for key, wanted in selector.items()):
                    yield name

    def _forget_results(self) -> None:
        self.generation += 1
        self._found.clear()
        self._asked_owners.clear()
