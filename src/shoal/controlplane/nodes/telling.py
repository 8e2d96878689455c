"""Events that a kubelet records about containers, in upstream's words. Pure.

Each started container has three Events, which triples the writes of a pod, so only nodes that ask for Events get them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.nodes.decide import Decision

Object = dict[str, Any]

NORMAL, WARNING = "Normal", "Warning"
FIELDS = {"initContainerStatuses": "initContainers", "containerStatuses": "containers"}


@dataclass(frozen=True, slots=True)
class Happening:
    field: str
    """Field path of the container in the pod."""
    type: str
    reason: str
    message: str


def happenings(pod: Object, decision: Decision) -> Iterator[Happening]:
    """Yields the Events after the decision about the pod was executed."""
    old, new = pod.get("status") or {}, decision.status
    for statuses, containers in FIELDS.items():
        before = {each["name"]: each for each in old.get(statuses) or ()}
        for after in (new or {}).get(statuses) or ():
            name = after["name"]
            yield from _changed(pod, f"spec.{containers}{{{name}}}", before.get(name) or {}, after)
        for each in before.values() if decision.delete else ():
            if "running" in (each.get("state") or {}):
                field = f"spec.{containers}{{{each['name']}}}"
                yield Happening(field, NORMAL, "Killing", f"Stopping container {each['name']}")


def _changed(pod: Object, field: str, before: Object, after: Object) -> Iterator[Happening]:
    state, name, image = after["state"], after["name"], after["image"]
    reason = (state.get("waiting") or {}).get("reason")
    if reason is None and after["containerID"] != before.get("containerID"):
        present = f'Container image "{image}" already present on machine and can be accessed by the pod'
        yield Happening(field, NORMAL, "Pulled", present)
        yield Happening(field, NORMAL, "Created", "Container created")
        yield Happening(field, NORMAL, "Started", "Container started")
    if reason is None or reason == ((before.get("state") or {}).get("waiting") or {}).get("reason"):
        return
    if reason == "CrashLoopBackOff":
        metadata = pod["metadata"]
        who = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        yield Happening(field, WARNING, "BackOff", f"Back-off restarting failed container {name} in pod {who}")
    elif reason == "ImagePullBackOff":
        yield Happening(field, NORMAL, "BackOff", f'Back-off pulling image "{image}"')
        yield Happening(field, WARNING, "Failed", "Error: ImagePullBackOff")
