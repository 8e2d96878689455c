"""Pod status as a kubelet would report it for a given state of its containers. Pure.

Built from the spec and the lasting parts of the previous status (times, addresses, restarts), so that the same state
gives the same status and a comparison shows whether a write is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from shoal.controlplane.nodes.stages import PodNext

Object = dict[str, Any]

OWN = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
COMPLETED: Object = {"exitCode": 0, "reason": "Completed"}
BACK_OFF = "back-off restarting failed container"


@dataclass(frozen=True, slots=True)
class Place:
    """Node address, pod address and time."""

    host: str
    address: str
    """The pod's IP, unless it has one or shares the node's."""
    now: str
    turn: int | None = None
    """Index of the running init container while the pod is not initialized."""


def pod_status(pod: Object, target: PodNext, place: Place) -> Object:
    spec, old = pod["spec"], pod.get("status") or {}
    status = {**old, "phase": target.phase, "hostIP": place.host, "hostIPs": [{"ip": place.host}]}
    status.setdefault("startTime", place.now)
    said = {"reason": target.podReason, "message": target.podMessage}
    status |= {field: text for field, text in said.items() if text}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if target.initialized or place.turn is not None:
        address = place.host if spec.get("hostNetwork") else old.get("podIP") or place.address
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    made = _Containers(pod["metadata"]["uid"], old, target, place)
    status["containerStatuses"] = [made.main(each) for each in spec["containers"]]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [made.initial(*each) for each in enumerate(spec["initContainers"])]
    if spec.get("ephemeralContainers"):
        status["ephemeralContainerStatuses"] = [made.ephemeral(each) for each in spec["ephemeralContainers"]]
    status["conditions"] = _conditions(pod, status, old, target, place)
    return status


class _Containers:
    def __init__(self, uid: str, old: Object, target: PodNext, place: Place) -> None:
        self._uid, self._target, self._now, self._turn = uid, target, place.now, place.turn
        self._old = {
            each["name"]: each
            for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
            for each in old.get(field) or ()
        }

    def main(self, container: Object) -> Object:
        target = self._target
        before = self._old.get(container["name"]) or {}
        if target.containers == "waiting":
            return self._waiting(container, before, target.reason, target.message)
        if target.containers == "terminated":
            return self._ended(container, before, {"exitCode": target.exitCode, "reason": target.reason})
        return self._running(container, before, ready=target.ready)

    def initial(self, index: int, container: Object) -> Object:
        """Status of an init container: finished, current, or waiting. Sidecars run and terminate with the app
        containers.
        """
        target, before = self._target, self._old.get(container["name"]) or {}
        if not target.initialized and (self._turn is None or index > self._turn):
            return self._waiting(container, before, "PodInitializing")
        if not target.initialized and index == self._turn:
            return self._has_turn(container, before)
        if container.get("restartPolicy") != "Always":
            return {**self._ended(container, before, COMPLETED), "ready": True}
        if target.containers == "terminated" or target.phase == "Failed":
            return self._ended(container, before, COMPLETED)
        return self._running(container, before, ready=True)

    def _has_turn(self, container: Object, before: Object) -> Object:
        target = self._target
        if target.init == "running":
            return self._running(container, before, ready=False)
        if target.init == "waiting":
            return self._waiting(container, before, "CrashLoopBackOff", BACK_OFF)
        how = {"exitCode": target.exitCode, "reason": "Error"} if target.exitCode else COMPLETED
        return {**self._ended(container, before, how), "ready": not target.exitCode}

    def ephemeral(self, container: Object) -> Object:
        before = self._old.get(container["name"]) or {}
        if self._target.containers == "terminated":
            return self._ended(container, before, COMPLETED)
        return {**self._running(container, before, ready=False), "started": False}

    def _running(self, container: Object, before: Object, *, ready: bool) -> Object:
        state, restarts = before.get("state") or {}, before.get("restartCount") or 0
        if "running" not in state:
            # A restart creates a new container.
            restarts += bool((before.get("lastState") or {}).get("terminated"))
            state = {"running": {"startedAt": self._now}}
        return self._status(container, before, state, restarts, ready=ready, started=True)

    def _waiting(self, container: Object, before: Object, reason: str, message: str = "") -> Object:
        waiting = {"reason": reason, **({"message": message} if message else {})}
        made = self._status(container, before, {"waiting": waiting}, before.get("restartCount") or 0)
        running = (before.get("state") or {}).get("running")
        if running is not None:
            how = {"exitCode": self._target.exitCode, "reason": "Error"} if self._target.exitCode else COMPLETED
            ended = self._terminated(before, running, how)
            made["lastState"] = {"terminated": ended}
        elif not before.get("containerID"):
            made |= {"containerID": "", "imageID": ""}
        return made

    def _ended(self, container: Object, before: Object, how: Object) -> Object:
        state, restarts = before.get("state") or {}, before.get("restartCount") or 0
        if "terminated" not in state:
            made = self._status(container, before, {}, restarts)
            since = state.get("running") or {"startedAt": self._now}
            state = {"terminated": self._terminated(made, since, how)}
        return self._status(container, before, state, restarts)

    def _terminated(self, status: Object, running: Object, how: Object) -> Object:
        started = running.get("startedAt") or self._now
        return {**how, "startedAt": started, "finishedAt": self._now, "containerID": status["containerID"]}

    def _status(
        self,
        container: Object,
        before: Object,
        state: Object,
        restarts: int,
        *,
        ready: bool = False,
        started: bool = False,
    ) -> Object:
        name, image = container["name"], container.get("image") or ""
        made: Object = {
            "name": name,
            "image": image,
            "imageID": _image_id(image),
            "containerID": f"shoal://{_digest(f'{self._uid}/{name}/{restarts}')}",
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "state": state,
            "lastState": before.get("lastState") or {},
        }
        resources = container.get("resources") or {}
        if resources:
            made["resources"] = resources
            if resources.get("requests"):
                made["allocatedResources"] = resources["requests"]
        return made


def _conditions(pod: Object, new: Object, old: Object, target: PodNext, place: Place) -> list[Object]:
    before = {each.get("type"): each for each in old.get("conditions") or ()}
    generation = pod["metadata"].get("generation")

    def condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
        was, status = before.get(kind) or {}, "True" if holds else "False"
        since = was.get("lastTransitionTime") if was.get("status") == status else None
        made: Object = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since or place.now}
        made |= {"observedGeneration": generation} if generation else {}
        return made | {field: text for field, text in (("reason", reason), ("message", message)) if text}

    running = target.containers == "running"
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(target.phase, "")
    unready = "" if running and target.ready else ended or "ContainersNotReady"
    names = " ".join(each["name"] for each in pod["spec"]["containers"])
    why = f"containers with unready status: [{names}]" if unready == "ContainersNotReady" else ""
    gates = "" if unready else _closed_gates(pod["spec"].get("readinessGates") or (), before)
    unfinished = [] if target.initialized else new.get("initContainerStatuses") or ()
    initializing = [each["name"] for each in unfinished if not each["ready"]]
    return [
        condition("PodReadyToStartContainers", (target.initialized or place.turn is not None) and not ended),
        condition(
            "Initialized",
            not initializing,
            "ContainersNotInitialized" if initializing else "PodCompleted" if target.phase == "Succeeded" else "",
            f"containers with incomplete status: [{' '.join(initializing)}]" if initializing else "",
        ),
        condition(
            "Ready", not unready and not gates, unready or ("ReadinessGatesNotReady" if gates else ""), why or gates
        ),
        condition("ContainersReady", not unready, unready, why),
        condition("PodScheduled", True),
        *(each for each in old.get("conditions") or () if each.get("type") not in OWN),
    ]


def _closed_gates(gates: list[Object] | tuple[()], conditions: dict[Any, Object]) -> str:
    """Returns a message about readiness gates whose conditions are not true."""
    said: list[str] = []
    for gate in gates:
        kind = gate.get("conditionType")
        found = conditions.get(kind)
        if found is None:
            said.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found.get("status") != "True":
            said.append(f'the status of pod readiness gate "{kind}" is not "True", but {found.get("status")}')
    return ", ".join(said)


def _image_id(image: str) -> str:
    """Returns an image given by digest as is; others get a digest of their name."""
    if not image or "@" in image:
        return image
    name, colon, tag = image.rpartition(":")
    return f"{name if colon and '/' not in tag else image}@sha256:{_digest(image)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
