"""Builds a syncer's conditions of its workload Cluster. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.clock import Clock
from shoal.kinds import workload
from shoal.sync.conditions import Condition
from shoal.sync.syncer.health import GRACE_SECONDS, Verdict

Object = dict[str, Any]

ORPHANS, HUB_CHANGED, DELETIONS_HELD, NOT_SYNCED = "Orphans", "HubChanged", "DeletionsHeld", "NotSynced"
NOT_SHOWN = "NotShown"
MOST_NAMED = 5


class Ledger:
    """Titles of objects that a condition lists. `on_change` is called on changes."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._found: dict[object, str] = {}

    def note(self, key: object, title: str) -> None:
        """An empty title removes the object."""
        if self._found.get(key, "") == title:
            return
        if title:
            self._found[key] = title
        else:
            del self._found[key]
        self._told()

    def __len__(self) -> int:
        return len(self._found)

    def titles(self) -> list[str]:
        return sorted(self._found.values())

    def about(self) -> list[Any]:
        return list(self._found)


def named(titles: list[str]) -> str:
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return ", ".join(titles[:MOST_NAMED]) + more


def about(type_: str, reason: str, titles: list[str], message: str) -> Condition:
    """A condition that exists only if there are titles."""
    return Condition(type_, "True", reason if titles else "", f"{message}: {named(titles)}")


class Ledgers:
    def __init__(self, told: Callable[[], None]) -> None:
        self.orphans, self.foreign, self.held, self.problems, self.unshown = (Ledger(told) for _ in range(5))

    def conditions(self, hub: str) -> list[Condition]:
        return [
            about(ORPHANS, "HubObjectsMissing", self.orphans.titles(), "without an object on this hub, left alone"),
            about(
                HUB_CHANGED,
                "CopiesOfOthers",
                self.foreign.titles(),
                f"made by another hub or for another registration, left alone (this hub is {hub}; annotate "
                f"this Cluster {workload.ADOPT}=HUB to take over that hub's)",
            ),
            about(
                DELETIONS_HELD,
                "TooManyAtOnce",
                self.held.titles(),
                f"{len(self.held)} copies are to be deleted at once, which is much of what is there; annotate this "
                f"Cluster {workload.ALLOW_DELETIONS}=true if that is meant",
            ),
            about(NOT_SYNCED, "Refused", self.problems.titles(), "not in the cluster"),
            about(NOT_SHOWN, "HubHasPods", self.unshown.titles(), "of what spec.mirror asks for is not shown"),
        ]


class Readiness:
    """Tolerates being not ready for a while after being ready: a restart or another kind is no failure."""

    def __init__(self, clock: Clock, was_ready: bool) -> None:
        self._clock, self._was_ready = clock, was_ready
        self.since: float | None = None
        """When it became not ready; None: it is ready."""

    def judge(self, complete: bool, missing: Iterable[str]) -> list[Condition]:
        """`unsynced`: kinds that are not listed yet on either side. `complete`: no more kinds are expected."""
        kinds = sorted(set(missing))
        if complete and not kinds:
            self._was_ready, self.since = True, None
            return [Condition(workload.SYNCER_READY, "True", "Syncing")]
        now = self._clock.monotonic()
        if self.since is None:
            self.since = now
        if self._was_ready and now - self.since < GRACE_SECONDS:
            return []
        said = f"not listed yet: {', '.join(kinds)}"
        if not complete:
            said = "it is not known yet which APIs the cluster offers"
        return [Condition(workload.SYNCER_READY, "False", "WorkloadClusterStatusUnknown", said)]


def heartbeat(verdict: Verdict | None) -> list[Condition]:
    if verdict is None:
        return []
    status = "True" if verdict.healthy else "False"
    return [Condition(workload.HEARTBEAT_HEALTHY, status, verdict.reason, verdict.message)]
