"""The kind clusters and images that the container engine has, as of the last look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.errors import KindError, unexpected_error
from shoal.capi.providers.kind.steps import EngineImages

log = logging.getLogger("shoal.capi.kind")


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
        except Exception as error:
            log.exception("list of kind clusters failed")
            return InventoryList(number, frozenset(), unexpected_error(error))

    async def inspect_images(self, names: Sequence[str]) -> EngineImages:
        try:
            return EngineImages(await self._command.image_ids(names), None)
        except KindError as problem:
            return EngineImages({}, problem)
