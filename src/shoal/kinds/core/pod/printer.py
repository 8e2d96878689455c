"""The printed columns READY, STATUS and RESTARTS of `kubectl get pods`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import human_duration, parse_time

Object = dict[str, Any]


@dataclass(slots=True)
class PodSummary:
    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: float = 0.0

    def add_restarts(self, container: Object) -> None:
        """Adds a container's restarts."""
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        self.last_restart = max(self.last_restart, parse_time(ended) or 0.0)

    def restarts_text(self, now: float) -> str:
        if not self.restarts or not self.last_restart:
            return str(self.restarts)
        return f"{self.restarts} ({human_duration(now - self.last_restart)} ago)"


def summarize_pod(pod: Object) -> PodSummary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase") or ""
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    summary = PodSummary(status.get("reason") or phase, len(spec.get("containers") or ()) + len(sidecars))
    if (get_condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    initializing = _summarize_init_containers(summary, status, sidecars, len(spec.get("initContainers") or ()))
    if not initializing or condition_is(pod, "Initialized"):
        summary.restarts, summary.last_restart = 0, 0.0
        for container in status.get("initContainerStatuses") or ():
            if container.get("name") in sidecars:
                summary.add_restarts(container)
        _summarize_containers(summary, pod, status)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            summary.reason = "Terminating"
    return summary


def _summarize_init_containers(summary: PodSummary, status: Object, sidecars: set[str], total: int) -> bool:
    """Reports whether an init container blocks the containers; the summary then says which and why."""
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        summary.add_restarts(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            summary.reason = "Init:" + _termination_reason(terminated)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            summary.reason = f"Init:{i}/{total}"
        return True
    return False


def _summarize_containers(summary: PodSummary, pod: Object, status: Object) -> None:
    running, failed = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        summary.add_restarts(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif terminated is not None:
            summary.reason = _termination_reason(terminated)
            failed = summary.reason if terminated.get("exitCode") else failed
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and condition_is(pod, "Ready"):
            summary.reason = "Running"
        elif failed or running:
            summary.reason = failed or "NotReady"


def _termination_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return (
        f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode') or 0}"
    )
