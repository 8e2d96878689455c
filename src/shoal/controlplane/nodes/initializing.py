"""Init containers of simulated pods: finds the one that runs now. Pure.

They run one after another for the duration of their commands. Those that take no time and those with an unknown outcome
finish at once: a pod that has only such starts as fast as one without init containers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.nodes.shell.run import Ending

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Initial:
    """An init container that starts, runs or waits for its restart."""

    index: int
    pod: Object
    """The pod as if it had no other container."""
    ending: Ending


def initializing(pod: Object, ending_of: Callable[[Object], Ending | None]) -> Initial | None:
    """Returns None if no init container delays the pod."""
    containers, status = pod["spec"].get("initContainers"), pod.get("status") or {}
    if not containers or status.get("phase") not in (None, "Pending"):
        return None
    statuses = {each["name"]: each for each in status.get("initContainerStatuses") or ()}
    for index, container in enumerate(containers):
        told = statuses.get(container["name"])
        if container.get("restartPolicy") == "Always" or (told is not None and _is_done(told)):
            continue
        alone = _alone(pod, container, told)
        ending = ending_of(alone)
        if ending is not None and (ending.code or ending.seconds):
            return Initial(index, alone, ending)
    return None


def _is_done(status: Object) -> bool:
    ended = (status.get("state") or {}).get("terminated")
    return ended is not None and ended.get("exitCode") == 0


def _alone(pod: Object, container: Object, told: Object | None) -> Object:
    """A successful init container is never restarted, whatever the restart policy of the app containers."""
    spec = pod["spec"]
    policy = "Never" if spec.get("restartPolicy") == "Never" else "OnFailure"
    return {
        **pod,
        "spec": {**spec, "containers": [container], "restartPolicy": policy},
        "status": {**(pod.get("status") or {}), "containerStatuses": [told] if told is not None else []},
    }
