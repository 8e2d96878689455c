"""Stops a syncer that would delete a large share of its objects at once. Pure but for the given clock.

A person deletes a few objects; a broken script, a wrong backup or a bug deletes everything.
"""

from __future__ import annotations

from collections import deque

from shoal.clock import Clock

WINDOW_SECONDS = 60.0
FREE_DELETIONS = 20
"""Number of deletions that are always allowed."""
MAX_SHARE = 0.5
"""Maximum share of all downstream objects; more deletions at once are held."""


class DeletionGuard:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deletion_times: deque[float] = deque()
        self.is_confirmed = False
        """A person has confirmed the deletions."""
        self.is_stopped = False
        """Until confirmation nothing more is deleted, however few."""

    def allow(self, leaving: int, managed: int) -> bool:
        """Whether one more deletion is allowed: `leaving` objects must be deleted now, of `managed` existing ones."""
        if self.is_confirmed:
            self.is_stopped = False
            return True
        recent = self._recent()
        pending, total = recent + max(leaving, 1), recent + managed
        self.is_stopped = self.is_stopped or not (pending <= FREE_DELETIONS or pending <= MAX_SHARE * total)
        return not self.is_stopped

    def record_deletion(self) -> None:
        self._deletion_times.append(self._clock.monotonic())

    def _recent(self) -> int:
        until = self._clock.monotonic() - WINDOW_SECONDS
        while self._deletion_times and self._deletion_times[0] < until:
            self._deletion_times.popleft()
        return len(self._deletion_times)
