"""What copies are called where that is not the name of their object on the hub: known by what they say themselves.

A copy keeps the name it was made with. Whoever wants a name that another object's copy has waits until that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.runtime.loop import Later
from shoal.sync.syncer.decide import is_ours
from shoal.sync.syncer.hub import Synced, Work
from shoal.sync.syncer.travelling import called, object_named

Object = dict[str, Any]
Place = tuple[Synced, str, str]
"""A kind, a namespace and a name in the cluster."""


class Names:
    """Of one cluster. Works are by the hub's namespaces, places by the cluster's."""

    def __init__(self, hub: str, copies: Mapping[Synced, Reflector]) -> None:
        self._hub, self._seen = hub, copies
        self._objects: dict[Place, str] = {}
        """Of copies with another name: what their object is called."""
        self._copies: dict[Place, set[str]] = {}
        """The reverse, by namespace there and name on the hub."""
        self._waiting: dict[Place, set[Work]] = {}
        self._busy: set[Place] = set()

    def saw(self, synced: Synced, key: Key, copy: Object | None) -> str:
        """A copy as it is now; answers the name of its object, also when it has just gone."""
        place = (synced, key[1], key[2])
        before = self._objects.pop(place, "")
        if before:
            self._copies[synced, key[1], before].discard(key[2])
            if not self._copies[synced, key[1], before]:
                del self._copies[synced, key[1], before]
        if copy is None:
            return before or key[2]
        name = object_named(copy) if is_ours(copy, self._hub) else key[2]
        if name != key[2]:
            self._objects[place] = name
            self._copies.setdefault((synced, key[1], name), set()).add(key[2])
        return name

    def of(self, work: Work, namespace: str, obj: Object | None) -> str:
        """What the copy of an object is called in that namespace, or is to be called."""
        wanted = called(obj) if obj is not None else work.name
        found = self._copies.get((work.synced, namespace, work.name), set())
        seen = self._seen.get(work.synced)
        plain = seen.objects.get(("", namespace, work.name)) if seen is not None else None
        if plain is not None and is_ours(plain, self._hub) and object_named(plain) == work.name:
            found = {*found, work.name}
        return wanted if not found or wanted in found else min(found)

    def waits(self, work: Work, namespace: str, name: str) -> None:
        self._waiting.setdefault((work.synced, namespace, name), set()).add(work)

    def waiting(self, synced: Synced, key: Key) -> set[Work]:
        """Who waits for the name of a copy; they are asked once."""
        return self._waiting.pop((synced, key[1], key[2]), set())

    @contextmanager
    def in_hand(self, work: Work, namespace: str, name: str) -> Iterator[None]:
        """Two objects that want one name are looked at one after the other, so that the second sees the first's."""
        place = (work.synced, namespace, name)
        if place in self._busy:
            raise Later(f"another object that is called {name} there is being looked at")
        self._busy.add(place)
        try:
            yield
        finally:
            self._busy.discard(place)
