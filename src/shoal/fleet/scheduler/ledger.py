"""Who is hosted where, and what that leaves free: kept from the objects as they are seen, never counted up or down.

Every question is answered from sets of keys, so that an event seen twice, late or not at all leaks no slot.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from shoal.client.reflector import Key
from shoal.fleet.scheduler.decide import Candidate, candidate, in_order, opens
from shoal.kinds import fleet

Object = dict[str, Any]


class Ledger:
    def __init__(self) -> None:
        self.managed: dict[Key, Object] = {}
        self.workers: dict[Key, Object] = {}
        self._candidates: dict[str, Candidate] = {}
        """By name; names of Workers are unique on a hub, and the ones that joined are those that count."""
        self._hosted: dict[str, set[Key]] = {}
        self._bound: dict[Key, str] = {}
        self._waiting: set[Key] = set()

    def note_managed(self, key: Key, obj: Object | None) -> bool:
        """Tells whether a slot has become free that somebody could take.

        A state older than the one known is passed over: the scheduler knows what it wrote before the watch does.
        """
        known = self.managed.get(key)
        if obj is None:
            self.managed.pop(key, None)
        elif known is not None and _revision(known) > _revision(obj):
            return False
        else:
            self.managed[key] = obj
        bound = fleet.assigned_worker(obj) if obj is not None else ""
        if obj is not None and not bound and not fleet.is_deleting(obj):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        before = self._bound.pop(key, "")
        if bound:
            self._bound[key] = bound
        if before == bound:
            return False
        if before:
            self._hosted[before].discard(key)
        if bound:
            self._hosted.setdefault(bound, set()).add(key)
        self._recount(bound)
        return self._recount(before)

    def note_worker(self, key: Key, obj: Object | None) -> bool:
        """Tells whether what scheduling looks at is different now."""
        if obj is None:
            self.workers.pop(key, None)
        else:
            self.workers[key] = obj
        if key[1] != fleet.NAMESPACE:
            return False
        name = key[2]
        before = self._candidates.pop(name, None)
        if obj is not None:
            self._candidates[name] = candidate(obj, self.used(name))
        return self._candidates.get(name) != before

    def _recount(self, name: str) -> bool:
        before = self._candidates.get(name)
        if before is None:
            return False
        after = self._candidates[name] = replace(before, used=self.used(name))
        return opens(before, after)

    def used(self, worker: str) -> int:
        return len(self._hosted.get(worker, ()))

    def candidates(self) -> Collection[Candidate]:
        return self._candidates.values()

    def waiting(self) -> list[Key]:
        found = in_order(self.managed[key] for key in self._waiting)
        return [("", obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in found]


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
