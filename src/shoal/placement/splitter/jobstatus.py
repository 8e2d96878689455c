"""Aggregates the status of a Job from its leaves. Pure.

It is complete when all leaves are, and has failed when one has: then the others are stopped first, because a finished
Job runs nothing. Counts of finished pods never decrease, whatever happens to a leaf.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.jobs import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    is_finished,
    is_suspended,
)
from shoal.kinds.leaves import AWAY
from shoal.objects.conditions import condition_is, get_condition
from shoal.placement.splitter.outcome import Split

Object = dict[str, Any]

RUNNING, ENDED = ("active", "ready", "terminating"), ("succeeded", "failed")
PLACED = "Placed"
"""False while some of it has no cluster; absent otherwise."""


def job_status(root: Object, split: Split, registered: int, now: str) -> Object | None:
    """None: it is finished, and its status stays."""
    if is_finished(root):
        return None
    before: Object = root.get("status") or {}
    live = [leaf for leaf in split.leaves if AWAY not in (leaf["metadata"].get("annotations") or {})]
    status = {name: _sum(live, name) for name in RUNNING}
    status |= {name: max(_sum(split.leaves, name), before.get(name) or 0) for name in ENDED}
    conditions = _Conditions(before.get("conditions") or [], now)
    if split.unplaced:
        said = f"None of {registered} registered clusters takes the {split.unplaced} pods at a time that have no place."
        conditions.say(PLACED, "False", "NoReadyClusters" if registered else "NoRegisteredClusters", said)
    else:
        conditions.drop(PLACED)
    start = _suspended(root, live, before, conditions)
    done = ""
    failed = _failed(live)
    if failed is not None:
        conditions.say(FAILURE_TARGET, "True", *failed)
        if not status["active"] and not status["terminating"]:
            conditions.say(FAILED, "True", *failed)
            start = start or now
    elif live and split.is_done and not split.unplaced and all(condition_is(leaf, COMPLETE) for leaf in live):
        start = start or now
        done = max([start, *(str((leaf["status"]).get("completionTime") or now) for leaf in live)])
        said = "All leaves of the Job are complete."
        conditions.say(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", said)
        conditions.say(COMPLETE, "True", "CompletionsReached", said)
    found: Object = {name: count for name, count in status.items() if count}
    found |= {"startTime": start} if start else {}
    found |= {"completionTime": done} if done else {}
    kept: Object = {"uncountedTerminatedPods": {}} if "uncountedTerminatedPods" in before else {}
    return found | kept | ({"conditions": conditions.found} if conditions.found else {})


def _sum(leaves: Any, name: str) -> int:
    return sum(int((leaf.get("status") or {}).get(name) or 0) for leaf in leaves)


def _suspended(root: Object, live: list[Object], before: Object, conditions: _Conditions) -> str:
    """Returns the start time; a suspended Job starts anew."""
    if is_suspended(root) and live and all(condition_is(leaf, SUSPENDED) for leaf in live):
        conditions.say(SUSPENDED, "True", "JobSuspended", "Job suspended")
        return ""
    if not is_suspended(root) and any(one["type"] == SUSPENDED for one in conditions.found):
        conditions.say(SUSPENDED, "False", "JobResumed", "Job resumed")
    started = [str(leaf["status"]["startTime"]) for leaf in live if (leaf.get("status") or {}).get("startTime")]
    return str(before.get("startTime") or min(started, default=""))


def _failed(live: list[Object]) -> tuple[str, str] | None:
    """Returns reason and message of the first leaf that has failed, or is certain to."""
    for kind in (FAILED, FAILURE_TARGET):
        for leaf in live:
            said = get_condition(leaf, kind)
            if said is not None and said.get("status") == "True":
                return str(said.get("reason", "")), f"{leaf['metadata']['name']}: {said.get('message', '')}"
    return None


class _Conditions:
    def __init__(self, before: list[Object], now: str) -> None:
        self.found, self._now = list(before), now

    def say(self, kind: str, status: str, reason: str, message: str) -> None:
        old = next((one for one in self.found if one["type"] == kind), {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            return
        moved = old.get("lastTransitionTime", self._now) if old.get("status") == status else self._now
        times = {"lastProbeTime": self._now, "lastTransitionTime": moved}
        made = {"type": kind, "status": status, **times, "reason": reason, "message": message}
        self.found = [made if one is old else one for one in self.found] if old else [*self.found, made]

    def drop(self, kind: str) -> None:
        self.found = [one for one in self.found if one["type"] != kind]
