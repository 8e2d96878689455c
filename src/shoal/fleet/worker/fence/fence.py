"""The write fence: which hosted clusters a worker may write to right now. Checked for every write, below the API.

It is updated by Lease renewals, by the copies in the worker's own root, and by the migration controllers. No timer has
to fire for it to close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.fleet.worker.contents import ROOT, hosted_of
from shoal.fleet.worker.fence.decide import Hold, Lease, of_copy, refusal
from shoal.kinds import fleet

Object = dict[str, Any]

STARTING = "the worker is starting"
_NOTHING = Hold()


class Fence:
    def __init__(self, now: Callable[[], float], seconds: float = fleet.SILENCE_SECONDS) -> None:
        self.now, self._seconds = now, seconds
        self.fences = True
        """A write that was checked is done, or has failed, right after."""
        self.owner: Callable[[str], str] = lambda key: ""
        """Returns the hosted cluster of an existing object of root, by its key."""
        self._lease = Lease()
        self._holds: dict[str, Hold] = {}
        """Hosted clusters that are not simply writable."""
        self._begun = False
        self.on_lapse: Callable[[], None] = lambda: None
        """Called when the Lease is live again after it was not."""

    # --- called by the store's write gate ---

    def judge(self, key: str, value: bytes | None) -> str:
        """Returns why the key may not be written; empty if it may."""
        if self._begun and not self._holds:
            return ""
        _, _, cluster, _ = key.split("/", 3)
        if cluster == ROOT:
            cluster = hosted_of(key, value) or self.owner(key)
        if not self._begun and cluster:
            return f"cluster {cluster} is read-only: {STARTING}"
        hold = self._holds.get(cluster)
        return "" if hold is None else refusal(cluster, hold, self._lease, self.now(), self._seconds)

    # --- updates ---

    def begin(self) -> None:
        """All existing copies have been delivered: what belongs to none may be written."""
        self._begun = True

    def copy_changed(self, hosted: str, copy: Object | None) -> None:
        self._keep(hosted, of_copy(self.hold(hosted), copy, fences=self.fences))

    def renewed(self, start: float) -> None:
        """A renewal of the Lease, begun at that time, has succeeded."""
        lapses = self._lease.lapses
        self._lease = self._lease.after_renewal(start, self.now(), self._seconds)
        if self._lease.lapses != lapses:
            self.on_lapse()

    def confirm(self, hosted: str, epoch: int, lapses: int) -> bool:
        """The hub has confirmed the assignment in that epoch, and was asked at that lapse count. Returns False if that
        is outdated.
        """
        hold = self.hold(hosted)
        if lapses != self._lease.lapses or not self.is_live or hold.epoch != epoch:
            return False
        self._keep(hosted, replace(hold, confirmed=(epoch, lapses)))
        return True

    def close(self, hosted: str, by: str, why: str) -> None:
        """Closes it until the same closer opens it, or the process ends."""
        hold = self.hold(hosted)
        self._keep(hosted, replace(hold, closed=(*_others(hold, by), (by, why))))

    def open(self, hosted: str, by: str) -> None:
        hold = self.hold(hosted)
        self._keep(hosted, replace(hold, closed=_others(hold, by)))

    # --- called by controllers ---

    @property
    def is_live(self) -> bool:
        return self._lease.is_live(self.now(), self._seconds)

    @property
    def lapses(self) -> int:
        return self._lease.lapses

    def hold(self, hosted: str) -> Hold:
        return self._holds.get(hosted, _NOTHING)

    def is_confirmed(self, hosted: str) -> bool:
        return self.hold(hosted).is_confirmed(self._lease)

    def why_not(self, hosted: str) -> str:
        """Returns why it cannot be written now; empty if it can."""
        return refusal(hosted, self.hold(hosted), self._lease, self.now(), self._seconds)

    def _keep(self, hosted: str, hold: Hold) -> None:
        if hold.is_free:
            self._holds.pop(hosted, None)
        else:
            self._holds[hosted] = hold


def _others(hold: Hold, by: str) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in hold.closed if each[0] != by)
