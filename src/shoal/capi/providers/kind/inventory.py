"""Lists the kind clusters of this machine, once for all waiting reconciles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shoal.capi.providers.kind.answers import Problem
from shoal.capi.providers.kind.command import Kind


@dataclass(frozen=True, slots=True)
class Listed:
    number: int
    """A higher number started later."""
    names: frozenset[str]
    problem: Problem | None


class Inventory:
    def __init__(self, command: Kind) -> None:
        self._command = command
        self.begun = 0
        """Number of lists started. A list with a higher number reflects everything since."""
        self.last: Listed | None = None
        self._turn = asyncio.Lock()

    async def look(self, after: int) -> Listed:
        """Returns a list that started after the given number. Concurrent callers share the next one."""
        async with self._turn:
            if self.last is None or self.last.number <= after:
                self.begun += 1
                self.last = await self._list(self.begun)
            return self.last

    async def _list(self, number: int) -> Listed:
        try:
            return Listed(number, await self._command.clusters(), None)
        except Problem as problem:
            return Listed(number, frozenset(), problem)
