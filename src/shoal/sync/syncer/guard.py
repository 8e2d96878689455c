"""Stops a syncer that would delete a large share of its objects at once. Pure but for the given clock.

A person deletes a few objects; a broken script, a wrong backup or a bug deletes everything.
"""

from __future__ import annotations

from collections import deque

from shoal.clock import Clock

WINDOW_SECONDS = 60.0
FEW = 20
"""Number of deletions that are always allowed."""
SHARE = 0.5
"""Maximum share of all downstream objects; more deletions at once are held."""


class Guard:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deleted: deque[float] = deque()
        self.allowed = False
        """A person has confirmed the deletions."""
        self.stopped = False
        """Until confirmation nothing more is deleted, however few."""

    def admits(self, leaving: int, managed: int) -> bool:
        """Whether one more deletion is allowed: `leaving` objects must be deleted now, of `managed` existing ones."""
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
