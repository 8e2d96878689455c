"""The kind clusters of this machine, listed once for all who ask."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shoal.capi.providers.kind.answers import Problem
from shoal.capi.providers.kind.command import Kind


@dataclass(frozen=True, slots=True)
class Listed:
    number: int
    """Higher: begun later."""
    names: frozenset[str]
    problem: Problem | None


class Inventory:
    def __init__(self, command: Kind) -> None:
        self._command = command
        self.begun = 0
        """How many lists were begun; a list with a higher number tells what happened since."""
        self.last: Listed | None = None
        self._turn = asyncio.Lock()

    async def look(self, after: int) -> Listed:
        """A list that was begun after that many; those who wait for one share the next."""
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
