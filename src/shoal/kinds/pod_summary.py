"""The printed columns READY, STATUS and RESTARTS of `kubectl get pods`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import human, parse_time

Object = dict[str, Any]


@dataclass(slots=True)
class Summary:
    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: float = 0.0

    def count(self, container: Object) -> None:
        """Adds a container's restarts."""
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        self.last_restart = max(self.last_restart, parse_time(ended) or 0.0)

    def restarts_text(self, now: float) -> str:
        if not self.restarts or not self.last_restart:
            return str(self.restarts)
        return f"{self.restarts} ({human(now - self.last_restart)} ago)"


def summarize(pod: Object) -> Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase") or ""
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    found = Summary(status.get("reason") or phase, len(spec.get("containers") or ()) + len(sidecars))
    if (get_condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        found.reason = "SchedulingGated"
    initializing = _initialize(found, status, sidecars, len(spec.get("initContainers") or ()))
    if not initializing or condition_is(pod, "Initialized"):
        found.restarts, found.last_restart = 0, 0.0
        for container in status.get("initContainerStatuses") or ():
            if container.get("name") in sidecars:
                found.count(container)
        _run(found, pod, status)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            found.reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            found.reason = "Terminating"
    return found


def _initialize(found: Summary, status: Object, sidecars: set[str], total: int) -> bool:
    """Reports whether an init container blocks the containers; the summary then says which and why."""
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        found.count(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            found.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            found.reason = "Init:" + _end(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            found.reason = "Init:" + waiting["reason"]
        else:
            found.reason = f"Init:{i}/{total}"
        return True
    return False


def _run(found: Summary, pod: Object, status: Object) -> None:
    running, failed = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        found.count(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            found.reason = waiting["reason"]
        elif ended is not None:
            found.reason = _end(ended)
            failed = found.reason if ended.get("exitCode") else failed
        elif container.get("ready") and state.get("running") is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed":
        if running and condition_is(pod, "Ready"):
            found.reason = "Running"
        elif failed or running:
            found.reason = failed or "NotReady"


def _end(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"
