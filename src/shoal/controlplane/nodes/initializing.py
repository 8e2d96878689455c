"""Init containers of simulated pods: which of them has its turn. Pure.

They run one after another, as long as their commands say. Those that take no time, and those of which nothing can be
told, are done at once: a pod that has only such is as quickly Running as one that has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.nodes.shell.run import Ending

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Initial:
    """An init container that is to run, runs, or waits to run again."""

    index: int
    pod: Object
    """As if it had no other container."""
    ending: Ending


def initializing(pod: Object, ending_of: Callable[[Object], Ending | None]) -> Initial | None:
    """None: no init container is in the way of the others."""
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
    """What ended well is never started again, whatever holds for the containers that come after it."""
    spec = pod["spec"]
    policy = "Never" if spec.get("restartPolicy") == "Never" else "OnFailure"
    return {
        **pod,
        "spec": {**spec, "containers": [container], "restartPolicy": policy},
        "status": {**(pod.get("status") or {}), "containerStatuses": [told] if told is not None else []},
    }
