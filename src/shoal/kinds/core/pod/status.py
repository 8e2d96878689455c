"""Pod state for controllers: active, terminating, ready, available, and since when. Pure."""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

TERMINAL_PHASES = ("Succeeded", "Failed")


def is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


def is_active(pod: Object) -> bool:
    """Reports whether the pod is neither terminal nor being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and not is_terminal(pod)


def is_terminating(pod: Object) -> bool:
    """Reports whether the pod is being deleted and not terminal yet."""
    return "deletionTimestamp" in pod["metadata"] and not is_terminal(pod)


def is_ready(pod: Object) -> bool:
    condition = get_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Object) -> float | None:
    """None: it is not ready, or the transition time is unknown."""
    condition = get_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return parse_time(condition.get("lastTransitionTime"))


def is_available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    """Reports whether the pod has been ready for `min_ready_seconds`."""
    if not min_ready_seconds:
        return is_ready(pod)
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def seconds_to_next_available(pods: list[Object], min_ready_seconds: int, now: float) -> float | None:
    """Returns seconds until the next ready pod becomes available; None: none will by waiting."""
    if not min_ready_seconds:
        return None
    since = (ready_since(pod) for pod in pods)
    remaining = [moment + min_ready_seconds - now for moment in since if moment is not None]
    return min((seconds for seconds in remaining if seconds > 0), default=None)
