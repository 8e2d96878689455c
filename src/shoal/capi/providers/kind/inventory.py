"""Lists the kind clusters of this machine, once for all waiting reconciles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.errors import KindError


@dataclass(frozen=True, slots=True)
class InventoryList:
    number: int
    """A higher number started later."""
    names: frozenset[str]
    error: KindError | None


class KindInventory:
    def __init__(self, command: KindRunner) -> None:
        self._command = command
        self.started = 0
        """Number of lists started. A list with a higher number reflects everything since."""
        self.last: InventoryList | None = None
        self._lock = asyncio.Lock()

    async def list_after(self, after: int) -> InventoryList:
        """Returns a list that started after the given number. Concurrent callers share the next one."""
        async with self._lock:
            if self.last is None or self.last.number <= after:
                self.started += 1
                self.last = await self._list(self.started)
            return self.last

    async def _list(self, number: int) -> InventoryList:
        try:
            return InventoryList(number, await self._command.clusters(), None)
        except KindError as problem:
            return InventoryList(number, frozenset(), problem)
