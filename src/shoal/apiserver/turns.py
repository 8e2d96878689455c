"""One write at a time in a namespace with a quota: the next one is checked against what the last has stored.

A write that others have queued before it is not in the cache yet, so two that fit alone could pass together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.apiserver.admission.quotas import is_charged, is_measured
from shoal.apiserver.core import Call, Core
from shoal.objects.wire import Answer

Place = tuple[str, str]
"""Logical cluster, namespace."""


def takes_turns(core: Core, call: Call) -> bool:
    """Whether a quota of the namespace may look at the write."""
    if not call.namespace or call.verb not in ("create", "update", "patch") or not is_charged(core, call):
        return False
    if call.verb == "create":
        return not call.target.subresource
    # What is only counted changes nothing by a change; but a PUT or an apply may create.
    return call.target.subresource in ("", "resize") and (is_measured(call) or call.entry() is None)


class Turns:
    def __init__(self) -> None:
        self._locks: dict[Place, asyncio.Lock] = {}
        self._waiting: dict[Place, int] = {}

    async def take(
        self, place: Place, write: Callable[[Core, Call], Awaitable[Answer]], core: Core, call: Call
    ) -> Answer:
        """Carries the write out when it is its turn, until it is durable and in the cache."""
        lock = self._locks.setdefault(place, asyncio.Lock())
        self._waiting[place] = self._waiting.get(place, 0) + 1
        try:
            async with lock:
                return await write(core, call)
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place], self._locks[place]
