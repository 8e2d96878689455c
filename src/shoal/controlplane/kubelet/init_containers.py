"""Init containers of simulated pods: finds the one that runs now. Pure.

They run one after another for the duration of their commands. Those that take no time and those with an unknown outcome
finish at once: a pod that has only such starts as fast as one without init containers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.kubelet.shell.interpreter import CommandOutcome

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunningInitContainer:
    """An init container that starts, runs or waits for its restart."""

    index: int
    pod: Object
    """The pod as if it had no other container."""
    outcome: CommandOutcome


def current_init_container(
    pod: Object, outcome_of: Callable[[Object], CommandOutcome | None]
) -> RunningInitContainer | None:
    """Returns None if no init container delays the pod."""
    containers, status = pod["spec"].get("initContainers"), pod.get("status") or {}
    if not containers or status.get("phase") not in (None, "Pending"):
        return None
    statuses = {each["name"]: each for each in status.get("initContainerStatuses") or ()}
    for index, container in enumerate(containers):
        container_status = statuses.get(container["name"])
        if container.get("restartPolicy") == "Always" or (
            container_status is not None and _has_succeeded(container_status)
        ):
            continue
        single_pod = _single_container_pod(pod, container, container_status)
        outcome = outcome_of(single_pod)
        if outcome is not None and (outcome.exit_code or outcome.seconds):
            return RunningInitContainer(index, single_pod, outcome)
    return None


def _has_succeeded(status: Object) -> bool:
    terminated = (status.get("state") or {}).get("terminated")
    return terminated is not None and terminated.get("exitCode") == 0


def _single_container_pod(pod: Object, container: Object, container_status: Object | None) -> Object:
    """A successful init container is never restarted, whatever the restart policy of the app containers."""
    spec = pod["spec"]
    policy = "Never" if spec.get("restartPolicy") == "Never" else "OnFailure"
    return {
        **pod,
        "spec": {**spec, "containers": [container], "restartPolicy": policy},
        "status": {
            **(pod.get("status") or {}),
            "containerStatuses": [container_status] if container_status is not None else [],
        },
    }
