"""Events that a kubelet records about containers, in upstream's words. Pure.

Each started container has three Events, which triples the writes of a pod, so only nodes that ask for Events get them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.kubelet.decide import KubeletDecision

Object = dict[str, Any]

NORMAL, WARNING = "Normal", "Warning"
CONTAINER_FIELDS = {"initContainerStatuses": "initContainers", "containerStatuses": "containers"}


@dataclass(frozen=True, slots=True)
class KubeletEvent:
    field: str
    """Field path of the container in the pod."""
    type: str
    reason: str
    message: str


def kubelet_events(pod: Object, decision: KubeletDecision) -> Iterator[KubeletEvent]:
    """Yields the Events after the decision about the pod was executed."""
    old, new = pod.get("status") or {}, decision.status
    for statuses, containers in CONTAINER_FIELDS.items():
        before = {each["name"]: each for each in old.get(statuses) or ()}
        for after in (new or {}).get(statuses) or ():
            name = after["name"]
            yield from _container_events(pod, f"spec.{containers}{{{name}}}", before.get(name) or {}, after)
        for each in before.values() if decision.force_delete else ():
            if "running" in (each.get("state") or {}):
                field = f"spec.{containers}{{{each['name']}}}"
                yield KubeletEvent(field, NORMAL, "Killing", f"Stopping container {each['name']}")


def _container_events(pod: Object, field: str, before: Object, after: Object) -> Iterator[KubeletEvent]:
    state, name, image = after["state"], after["name"], after["image"]
    reason = (state.get("waiting") or {}).get("reason")
    if reason is None and after["containerID"] != before.get("containerID"):
        present = f'Container image "{image}" already present on machine and can be accessed by the pod'
        yield KubeletEvent(field, NORMAL, "Pulled", present)
        yield KubeletEvent(field, NORMAL, "Created", "Container created")
        yield KubeletEvent(field, NORMAL, "Started", "Container started")
    if reason is None or reason == ((before.get("state") or {}).get("waiting") or {}).get("reason"):
        return
    if reason == "CrashLoopBackOff":
        metadata = pod["metadata"]
        pod_id = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        yield KubeletEvent(field, WARNING, "BackOff", f"Back-off restarting failed container {name} in pod {pod_id}")
    elif reason == "ImagePullBackOff":
        yield KubeletEvent(field, NORMAL, "BackOff", f'Back-off pulling image "{image}"')
        yield KubeletEvent(field, WARNING, "Failed", "Error: ImagePullBackOff")
