"""What a controller of pods asks of one: is it active, ready, available, and since when. Pure."""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

TERMINAL = ("Succeeded", "Failed")


def is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def is_active(pod: Object) -> bool:
    """It runs or will: it has neither ended nor been asked to."""
    return "deletionTimestamp" not in pod["metadata"] and not is_terminal(pod)


def is_terminating(pod: Object) -> bool:
    """It was asked to end and has not."""
    return "deletionTimestamp" in pod["metadata"] and not is_terminal(pod)


def is_ready(pod: Object) -> bool:
    condition = get_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Object) -> float | None:
    """None: it is not ready, or nobody wrote down when it became so."""
    condition = get_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return parse_time(condition.get("lastTransitionTime"))


def is_available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    """Ready for long enough."""
    if not min_ready_seconds:
        return is_ready(pod)
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def next_availability(pods: list[Object], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next of the ready pods has been so for long enough; None: no time will change anything."""
    if not min_ready_seconds:
        return None
    since = (ready_since(pod) for pod in pods)
    left = [moment + min_ready_seconds - now for moment in since if moment is not None]
    return min((seconds for seconds in left if seconds > 0), default=None)
