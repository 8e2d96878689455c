"""The informer of one placed kind, and which of its objects are roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload.followers import SelectionKey, is_follower_kind, selection_keys
from shoal.kinds.workload.leaf import is_root
from shoal.objects.ownership import controller_name, is_controlled_by
from shoal.placement.splitter.placeable import PlaceableKind
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]

UNSERVED_SECONDS = 0.05
"""Between checks of a kind that was announced, until the hub serves it."""


class PlacedKind:
    """One placed kind, with its informer and state."""

    def __init__(
        self, client: Client, clock: Clock, placeable_kind: PlaceableKind, enqueue: Callable[[tuple[str, Key]], None]
    ) -> None:
        self.placeable = placeable_kind
        self.title = f"{placeable_kind.name}.{placeable_kind.resource.group}"
        self.informer = Informer(
            client,
            placeable_kind.resource,
            clock,
            indexers=(by_controller,),
            poll_until_served=UNSERVED_SECONDS,
        )
        self.expectations: WriteExpectations[Key] = WriteExpectations(self.informer)
        self.roots: set[Key] = set()
        self.capacity_dependent_roots: set[Key] = set()
        """Roots for which added capacity somewhere may change something."""
        self.roots_by_conflicting_key: dict[Key, set[Key]] = {}
        """Roots by the objects that have the names of their leaves."""
        self._unsettled: set[Key] = set()
        """Roots that have not been reconciled since they were first seen: what follows them is not known."""
        self._roots_by_selection: dict[tuple[str, str, SelectionKey], set[Key]] = {}
        self._selections: dict[Key, frozenset[SelectionKey]] = {}
        self.is_follower = is_follower_kind(placeable_kind.name, placeable_kind.resource.group)
        self._enqueue = enqueue
        self.informer.add_event_handler(self._on_object)

    def _on_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        owner = (self.placeable.resource.group, self.placeable.name)
        old_root, new_root = controller_name(old, *owner), controller_name(new, *owner)
        if new is not None and is_root(new) and not new_root:
            if key not in self.roots:
                self._unsettled.add(key)
            self.roots.add(key)
        else:
            self.roots.discard(key)
            self._unsettled.discard(key)
            self.capacity_dependent_roots.discard(key)
            self._set_selections(key, frozenset())
        affected = {(key[0], key[1], name) for name in (old_root, new_root) if name}
        if not (new_root if new is not None else old_root):
            affected.add(key)
        for root in affected.union(self.roots_by_conflicting_key.pop(key, ())):
            self._enqueue((self.title, root))

    def settle(self, key: Key) -> None:
        """The root was reconciled: it is known what others follow."""
        self._unsettled.discard(key)

    def is_settled(self, namespace: str) -> bool:
        """Returns whether all roots of the namespace are known and were reconciled."""
        return self.informer.has_synced and not any(key[1] == namespace for key in self._unsettled)

    def roots_selecting(self, cluster: str, namespace: str, keys: Iterable[SelectionKey]) -> set[Key]:
        """Returns the roots that may select an object that has one of the keys."""
        return {root for key in keys for root in self._roots_by_selection.get((cluster, namespace, key), ())}

    def may_select(self, other: PlacedKind) -> bool:
        """Followers do not select each other, except that an Ingress routes to Services."""
        is_routed = (self.placeable.name, other.placeable.name) == ("Ingress", "Service")
        return is_routed or not (self.is_follower and other.is_follower)

    def select(self, root: Object, key: Key, terms: frozenset[SelectionKey]) -> None:
        """The root is reconciled when what it selects changes: by its kind, and by the terms of its Placement."""
        by_kind = selection_keys(self.placeable.name, root) if self.is_follower else ()
        self._set_selections(key, terms.union(by_kind) if key in self.roots else frozenset())

    def _set_selections(self, key: Key, selections: frozenset[SelectionKey]) -> None:
        previous = self._selections.pop(key, frozenset())
        if selections:
            self._selections[key] = selections
        for selection in previous ^ selections:
            entry = self._roots_by_selection.setdefault((key[0], key[1], selection), set())
            (entry.add if selection in selections else entry.discard)(key)
            if not entry:
                del self._roots_by_selection[key[0], key[1], selection]

    def root(self, key: Key) -> Object | None:
        obj = self.informer.get(key)
        return obj and {**obj, "apiVersion": self.placeable.api_version, "kind": self.placeable.name}


class NameConflicts:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, kind: PlacedKind, key: Key, root: Object) -> None:
        self._kind, self._key, self._root = kind, key, root

    def __contains__(self, name: object) -> bool:
        obj = self._kind.informer.get((self._key[0], self._key[1], str(name)))
        return obj is not None and not is_controlled_by(obj, self._root)
