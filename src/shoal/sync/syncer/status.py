"""Builds a syncer's conditions of its workload Cluster. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.sync.conditions import SyncCondition
from shoal.sync.syncer.health import GRACE_SECONDS, HealthStatus

Object = dict[str, Any]

ORPHANS, HUB_CHANGED, DELETIONS_HELD, NOT_SYNCED = "Orphans", "HubChanged", "DeletionsHeld", "NotSynced"
NOT_MIRRORED = "NotShown"
MAX_TITLES = 5


class ObjectSet:
    """Titles of objects that a condition lists. `on_change` is called on changes."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._titles: dict[object, str] = {}

    def update(self, key: object, title: str) -> None:
        """An empty title removes the object."""
        if self._titles.get(key, "") == title:
            return
        if title:
            self._titles[key] = title
        else:
            del self._titles[key]
        self._on_change()

    def __len__(self) -> int:
        return len(self._titles)

    def titles(self) -> list[str]:
        return sorted(self._titles.values())

    def keys(self) -> list[Any]:
        return list(self._titles)


def titles_text(titles: list[str]) -> str:
    more = f" and {len(titles) - MAX_TITLES} more" if len(titles) > MAX_TITLES else ""
    return ", ".join(titles[:MAX_TITLES]) + more


def list_condition(type_: str, reason: str, titles: list[str], message: str) -> SyncCondition:
    """A condition that exists only if there are titles."""
    return SyncCondition(type_, "True", reason if titles else "", f"{message}: {titles_text(titles)}")


class SyncerStatus:
    def __init__(self, on_change: Callable[[], None]) -> None:
        self.orphans, self.foreign_copies, self.held_deletions, self.problems, self.not_mirrored = (
            ObjectSet(on_change) for _ in range(5)
        )

    def conditions(self, hub: str) -> list[SyncCondition]:
        return [
            list_condition(
                ORPHANS,
                "HubObjectsMissing",
                self.orphans.titles(),
                "copies without an object on this hub, left unchanged",
            ),
            list_condition(
                HUB_CHANGED,
                "CopiesOfOthers",
                self.foreign_copies.titles(),
                f"copies made by another hub or for another registration, left unchanged (this hub is {hub}; annotate "
                f"this Cluster {workloadcluster.ADOPT_FROM_ANNOTATION}=HUB to adopt the copies of that hub)",
            ),
            list_condition(
                DELETIONS_HELD,
                "TooManyAtOnce",
                self.held_deletions.titles(),
                f"{len(self.held_deletions)} copies would be deleted at once, which "
                "is a large share of all copies; annotate this "
                f"Cluster {workloadcluster.ALLOW_DELETIONS_ANNOTATION}=true to allow it",
            ),
            list_condition(NOT_SYNCED, "Refused", self.problems.titles(), "not synced to the cluster"),
            list_condition(
                NOT_MIRRORED, "HubHasPods", self.not_mirrored.titles(), "requested by spec.mirror but not mirrored"
            ),
        ]


class SyncerReadiness:
    """Tolerates being not ready for a while after being ready: a restart or another kind is no failure."""

    def __init__(self, clock: Clock, was_ready: bool) -> None:
        self._clock, self._was_ready = clock, was_ready
        self.not_ready_since: float | None = None
        """When it became not ready; None: it is ready."""

    def conditions(self, complete: bool, unsynced: Iterable[str]) -> list[SyncCondition]:
        """`unsynced`: kinds that are not listed yet on either side. `complete`: no more kinds are expected."""
        kinds = sorted(set(unsynced))
        if complete and not kinds:
            self._was_ready, self.not_ready_since = True, None
            return [SyncCondition(workloadcluster.SYNCER_READY, "True", "Syncing")]
        now = self._clock.monotonic()
        if self.not_ready_since is None:
            self.not_ready_since = now
        if self._was_ready and now - self.not_ready_since < GRACE_SECONDS:
            return []
        message = f"informers have not synced yet: {', '.join(kinds)}"
        if not complete:
            message = "the APIs of the cluster are not discovered yet"
        return [SyncCondition(workloadcluster.SYNCER_READY, "False", "WorkloadClusterStatusUnknown", message)]


def heartbeat_conditions(health: HealthStatus | None) -> list[SyncCondition]:
    if health is None:
        return []
    status = "True" if health.healthy else "False"
    return [SyncCondition(workloadcluster.HEARTBEAT_HEALTHY, status, health.reason, health.message)]
