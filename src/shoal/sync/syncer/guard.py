"""Stops a syncer that is about to delete much of what it manages at once. Pure but for the clock it is given.

A person deletes a few things; a script gone wrong, a wrong backup or a bug of ours deletes everything.
"""

from __future__ import annotations

from collections import deque

from shoal.clock import Clock

WINDOW_SECONDS = 60.0
FEW = 20
"""So many are deleted without a question."""
SHARE = 0.5
"""Of all copies: more of them at once are held."""


class Guard:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deleted: deque[float] = deque()
        self.allowed = False
        """Somebody has said that it is meant."""
        self.stopped = False
        """Until then, nothing more is deleted, be it little."""

    def admits(self, leaving: int, managed: int) -> bool:
        """Whether one more may go: `leaving` are those that have to go now, of `managed` that are there."""
        if self.allowed:
            self.stopped = False
            return True
        recent = self._recent()
        about, total = recent + max(leaving, 1), recent + managed
        self.stopped = self.stopped or not (about <= FEW or about <= SHARE * total)
        return not self.stopped

    def deleted(self) -> None:
        self._deleted.append(self._clock.monotonic())

    def _recent(self) -> int:
        until = self._clock.monotonic() - WINDOW_SECONDS
        while self._deleted and self._deleted[0] < until:
            self._deleted.popleft()
        return len(self._deleted)
