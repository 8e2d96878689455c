"""The write fence: which hosted clusters a worker may write to right now. Checked for every write, below the API.

It is updated by Lease renewals, by the copies in the worker's own root, and by the migration controllers. No timer has
to fire for it to close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.fleet.worker.cluster_keys import ROOT, hosted_cluster_of
from shoal.fleet.worker.fence.decide import ClusterHold, LeaseState, hold_of_copy, write_denied_reason
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

STARTING = "the worker is starting"
_NO_HOLD = ClusterHold()


class WriteFence:
    def __init__(self, now: Callable[[], float], seconds: float = infrav1.LEASE_GRACE_SECONDS) -> None:
        self.now, self._seconds = now, seconds
        self.supports_fencing = True
        """A write that was checked is done, or has failed, right after."""
        self.owner_of_key: Callable[[str], str] = lambda key: ""
        """Returns the hosted cluster of an existing object of root, by its key."""
        self._lease = LeaseState()
        self._holds: dict[str, ClusterHold] = {}
        """Hosted clusters that are not simply writable."""
        self._has_synced = False
        self.on_lease_regained: Callable[[], None] = lambda: None
        """Called when the Lease is live again after it was not."""

    # --- called by the store's write gate ---

    def check_write(self, key: str, value: bytes | None) -> str:
        """Returns why the key may not be written; empty if it may."""
        if self._has_synced and not self._holds:
            return ""
        _, _, cluster, _ = key.split("/", 3)
        if cluster == ROOT:
            cluster = hosted_cluster_of(key, value) or self.owner_of_key(key)
        if not self._has_synced and cluster:
            return f"cluster {cluster} is read-only: {STARTING}"
        hold = self._holds.get(cluster)
        return "" if hold is None else write_denied_reason(cluster, hold, self._lease, self.now(), self._seconds)

    # --- updates ---

    def mark_synced(self) -> None:
        """All existing copies have been delivered: what belongs to none may be written."""
        self._has_synced = True

    def on_copy(self, hosted: str, copy: Object | None) -> None:
        self._set_hold(hosted, hold_of_copy(self.hold(hosted), copy, fences=self.supports_fencing))

    def on_lease_renewed(self, start: float) -> None:
        """A renewal of the Lease, begun at that time, has succeeded."""
        lapses = self._lease.lapses
        self._lease = self._lease.after_renewal(start, self.now(), self._seconds)
        if self._lease.lapses != lapses:
            self.on_lease_regained()

    def confirm(self, hosted: str, epoch: int, lapses: int) -> bool:
        """The hub has confirmed the assignment in that epoch, and was asked at that lapse count. Returns False if that
        is outdated.
        """
        hold = self.hold(hosted)
        if lapses != self._lease.lapses or not self.is_live or hold.epoch != epoch:
            return False
        self._set_hold(hosted, replace(hold, confirmed=(epoch, lapses)))
        return True

    def close(self, hosted: str, closer: str, reason: str) -> None:
        """Closes it until the same closer opens it, or the process ends."""
        hold = self.hold(hosted)
        self._set_hold(hosted, replace(hold, closures=(*_closures_of_others(hold, closer), (closer, reason))))

    def open(self, hosted: str, closer: str) -> None:
        hold = self.hold(hosted)
        self._set_hold(hosted, replace(hold, closures=_closures_of_others(hold, closer)))

    # --- called by controllers ---

    @property
    def is_live(self) -> bool:
        return self._lease.is_live(self.now(), self._seconds)

    @property
    def lapses(self) -> int:
        return self._lease.lapses

    def hold(self, hosted: str) -> ClusterHold:
        return self._holds.get(hosted, _NO_HOLD)

    def is_confirmed(self, hosted: str) -> bool:
        return self.hold(hosted).is_confirmed(self._lease)

    def write_denied_reason(self, hosted: str) -> str:
        """Returns why it cannot be written now; empty if it can."""
        return write_denied_reason(hosted, self.hold(hosted), self._lease, self.now(), self._seconds)

    def _set_hold(self, hosted: str, hold: ClusterHold) -> None:
        if hold.is_unrestricted:
            self._holds.pop(hosted, None)
        else:
            self._holds[hosted] = hold


def _closures_of_others(hold: ClusterHold, closer: str) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in hold.closures if each[0] != closer)
