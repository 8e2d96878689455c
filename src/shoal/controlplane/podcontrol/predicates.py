"""Predicates on changes of pod owners and of orphaned pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.objects.ownership import controller_of, selector_of
from shoal.objects.selectors import LabelSelector
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace

Object = dict[str, Any]


def spec_or_metadata_changed(before: Object | None, now: Object | None) -> bool:
    """Returns whether more than the owner's status changed, so that the owner should be reconciled without delay."""
    if before is None or now is None:
        return True
    return _relevant_metadata(before["metadata"]) != _relevant_metadata(now["metadata"])


def matching_owners(
    key: Key, pod: Object | None, owners: Informer, selector: Callable[[Object], LabelSelector] = selector_of
) -> Iterator[Key]:
    """Yields the owners whose selector matches the pod of that key, if it has no controller. `owners` is indexed by
    namespace.
    """
    if pod is not None and controller_of(pod) is None:
        labels = pod["metadata"].get("labels")
        for owner in owners.by_index(by_namespace, key[:2]):
            if selector(owner).matches(labels):
                yield key_of(owner)


def _relevant_metadata(metadata: Object) -> tuple[object, ...]:
    fields = ("uid", "generation", "deletionTimestamp", "labels", "annotations")
    return tuple(metadata.get(field) for field in fields)
