"""Maps hub names to downstream names where they differ, from the annotations of the downstream objects.

A downstream object keeps the name it was created with. An object whose desired name is used by another object waits
until that is gone.
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
"""Resource, namespace and name in the cluster."""


class Names:
    """Of one cluster. SyncKeys have hub namespaces, DownstreamKeys the cluster's."""

    def __init__(self, hub: str, copies: Mapping[Synced, Reflector]) -> None:
        self._hub, self._seen = hub, copies
        self._objects: dict[Place, str] = {}
        """Hub names of downstream objects with another name."""
        self._copies: dict[Place, set[str]] = {}
        """The reverse, by downstream namespace and hub name."""
        self._waiting: dict[Place, set[Work]] = {}
        self._busy: set[Place] = set()

    def saw(self, synced: Synced, key: Key, copy: Object | None) -> str:
        """Records a downstream object and returns its hub name, also when it was just deleted."""
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
        """The current or desired downstream name of an object in that namespace."""
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
        """Removes and returns the keys that wait for the name."""
        return self._waiting.pop((synced, key[1], key[2]), set())

    @contextmanager
    def in_hand(self, work: Work, namespace: str, name: str) -> Iterator[None]:
        """Serialises objects that want the same name, so that the second sees the first's downstream object."""
        place = (work.synced, namespace, name)
        if place in self._busy:
            raise Later(f"another object that is called {name} there is being looked at")
        self._busy.add(place)
        try:
            yield
        finally:
            self._busy.discard(place)
