"""Checks whether a cluster ever had two writable copies, from acknowledged writes and their times. Pure.

All times are from one monotonic clock, the test's. An acknowledged write happened between its start and its end; a
worker holds the cluster from when the hub was seen to say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Given:
    """The hub gave it to a worker."""

    epoch: int
    worker: str
    seen: float


@dataclass(frozen=True, slots=True)
class Written:
    """A worker acknowledged a write."""

    worker: str
    began: float
    ended: float


def conflict(given: Iterable[Given], written: Iterable[Written]) -> Written | None:
    """The first write that no order of holds explains: an epoch has one worker, a later write is never of an earlier
    epoch, and no write begins in an epoch that the hub was seen to have ended."""
    holds = sorted(given, key=lambda each: each.epoch)
    done: list[tuple[float, int]] = []
    for write in sorted(written, key=lambda each: each.began):
        least = max((epoch for ended, epoch in done if ended < write.began), default=0)
        least = max([least, *(each.epoch for each in holds if each.seen < write.began)])
        possible = [each.epoch for each in holds if each.worker == write.worker and each.epoch >= least]
        if not possible:
            return write
        done.append((write.ended, possible[0]))
    return None
