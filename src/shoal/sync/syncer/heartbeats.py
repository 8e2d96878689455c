"""Checks the heartbeats of syncers that run in other processes.

The time a new heartbeat was observed counts, by this process's own clock, not the time it carries: a wrong or jumping
clock on either side has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.sync.conditions import SyncCondition

Object = dict[str, Any]

INTERVAL_SECONDS = 20.0
"""Between heartbeats."""
SILENT_SECONDS = 60.0
"""Without a heartbeat, after which it is reported."""
CHECK_SECONDS = 5.0


class SyncerHeartbeats:
    def __init__(self, clock: Clock, on_silent: Callable[[str], None]) -> None:
        self._clock, self._on_silent = clock, on_silent
        self._last: dict[str, tuple[str, float]] = {}
        """Latest heartbeat of each cluster, and when it was observed."""
        self._reported: set[str] = set()

    def observe(self, name: str, cluster: Object | None) -> None:
        """None: the cluster is no longer tracked."""
        if cluster is None:
            self._last.pop(name, None)
            self._reported.discard(name)
            return
        beat = str((cluster.get("status") or {}).get("lastSyncerHeartbeatTime") or "")
        if name not in self._last or self._last[name][0] != beat:
            self._last[name] = beat, self._clock.monotonic()
            self._reported.discard(name)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            for name in self._last:
                if name not in self._reported and self._is_silent(name):
                    self._reported.add(name)
                    self._on_silent(name)

    def _is_silent(self, name: str) -> bool:
        return self._clock.monotonic() - self._last[name][1] > SILENT_SECONDS

    def conditions(self, name: str, expected: bool) -> list[SyncCondition]:
        """Empty if heartbeats arrive, or none is `expected`: the syncer then reports itself."""
        beat = self._last.get(name, ("", 0.0))[0]
        if not beat:
            message = "No heartbeat yet seen"
            return (
                [SyncCondition(workloadcluster.HEARTBEAT_HEALTHY, "False", "ErrorHeartbeat", message)]
                if expected
                else []
            )
        if not self._is_silent(name):
            return []
        return [
            SyncCondition(workloadcluster.HEARTBEAT_HEALTHY, "False", "ErrorHeartbeat", f"No heartbeat since {beat}")
        ]
