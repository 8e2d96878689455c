"""Checks the heartbeats of syncers that run in other processes.

The time a new heartbeat was observed counts, by this process's own clock, not the time it carries: a wrong or jumping
clock on either side has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.clock import Clock
from shoal.kinds import workload
from shoal.sync.conditions import Condition

Object = dict[str, Any]

EVERY_SECONDS = 20.0
"""Between heartbeats."""
SILENT_SECONDS = 60.0
"""Without a heartbeat, after which it is reported."""
LOOK_SECONDS = 5.0


class Heartbeats:
    def __init__(self, clock: Clock, silent: Callable[[str], None]) -> None:
        self._clock, self._silent = clock, silent
        self._last: dict[str, tuple[str, float]] = {}
        """Latest heartbeat of each cluster, and when it was observed."""
        self._told: set[str] = set()

    def saw(self, name: str, cluster: Object | None) -> None:
        """None: the cluster is no longer tracked."""
        if cluster is None:
            self._last.pop(name, None)
            self._told.discard(name)
            return
        beat = str((cluster.get("status") or {}).get("lastSyncerHeartbeatTime") or "")
        if name not in self._last or self._last[name][0] != beat:
            self._last[name] = beat, self._clock.monotonic()
            self._told.discard(name)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for name in self._last:
                if name not in self._told and self._is_silent(name):
                    self._told.add(name)
                    self._silent(name)

    def _is_silent(self, name: str) -> bool:
        return self._clock.monotonic() - self._last[name][1] > SILENT_SECONDS

    def judge(self, name: str, expected: bool) -> list[Condition]:
        """Empty if heartbeats arrive, or none is `expected`: the syncer then reports itself."""
        beat = self._last.get(name, ("", 0.0))[0]
        if not beat:
            said = "No heartbeat yet seen"
            return [Condition(workload.HEARTBEAT_HEALTHY, "False", "ErrorHeartbeat", said)] if expected else []
        if not self._is_silent(name):
            return []
        return [Condition(workload.HEARTBEAT_HEALTHY, "False", "ErrorHeartbeat", f"No heartbeat since {beat}")]
