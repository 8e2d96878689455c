"""Pod status as a kubelet would report it for a given state of its containers. Pure.

Built from the spec and the lasting parts of the previous status (times, addresses, restarts), so that the same state
gives the same status and a comparison shows whether a write is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from shoal.controlplane.kubelet.pod_sources import CONFIG_ERROR
from shoal.controlplane.kubelet.stages import PodNext

Object = dict[str, Any]

KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
COMPLETED: Object = {"exitCode": 0, "reason": "Completed"}
BACK_OFF_MESSAGE = "back-off restarting failed container"


@dataclass(frozen=True, slots=True)
class HostInfo:
    """Node address, pod address and time."""

    host_ip: str
    pod_ip: str
    """The pod's IP, unless it has one or shares the node's."""
    now: str
    init_index: int | None = None
    """Index of the running init container while the pod is not initialized."""
    config_errors: Mapping[str, str] = field(default_factory=dict)
    """Messages of containers whose environment cannot be made."""


def pod_status(pod: Object, target: PodNext, host: HostInfo) -> Object:
    spec, old = pod["spec"], pod.get("status") or {}
    status = {**old, "phase": target.phase, "hostIP": host.host_ip, "hostIPs": [{"ip": host.host_ip}]}
    status.setdefault("startTime", host.now)
    texts = {"reason": target.podReason, "message": target.podMessage}
    status |= {field: text for field, text in texts.items() if text}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if target.initialized or host.init_index is not None:
        address = host.host_ip if spec.get("hostNetwork") else old.get("podIP") or host.pod_ip
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    containers = _ContainerStatuses(pod["metadata"]["uid"], old, target, host)
    status["containerStatuses"] = [containers.app_container(each) for each in spec["containers"]]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            containers.init_container(*each) for each in enumerate(spec["initContainers"])
        ]
    if spec.get("ephemeralContainers"):
        status["ephemeralContainerStatuses"] = [
            containers.ephemeral_container(each) for each in spec["ephemeralContainers"]
        ]
    status["conditions"] = _conditions(pod, status, old, target, host)
    return status


class _ContainerStatuses:
    def __init__(self, uid: str, old: Object, target: PodNext, host: HostInfo) -> None:
        self._uid, self._target, self._now, self._init_index = uid, target, host.now, host.init_index
        self._config_errors = host.config_errors
        self._old = {
            each["name"]: each
            for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
            for each in old.get(field) or ()
        }

    def app_container(self, container: Object) -> Object:
        target = self._target
        before = self._old.get(container["name"]) or {}
        if target.containers == "waiting" and target.reason == CONFIG_ERROR:
            error = self._config_errors.get(container["name"])
            if error is None:
                return self._running_status(container, before, ready=True)
            return self._waiting_status(container, before, CONFIG_ERROR, error)
        if target.containers == "waiting":
            return self._waiting_status(container, before, target.reason, target.message)
        if target.containers == "terminated":
            return self._terminated_status(container, before, {"exitCode": target.exitCode, "reason": target.reason})
        return self._running_status(container, before, ready=target.ready)

    def init_container(self, index: int, container: Object) -> Object:
        """Status of an init container: finished, current, or waiting. Sidecars run and terminate with the app
        containers.
        """
        target, before = self._target, self._old.get(container["name"]) or {}
        if not target.initialized and (self._init_index is None or index > self._init_index):
            return self._waiting_status(container, before, "PodInitializing")
        if not target.initialized and index == self._init_index:
            return self._current_init(container, before)
        if container.get("restartPolicy") != "Always":
            return {**self._terminated_status(container, before, COMPLETED), "ready": True}
        if target.containers == "terminated" or target.phase == "Failed":
            return self._terminated_status(container, before, COMPLETED)
        return self._running_status(container, before, ready=True)

    def _current_init(self, container: Object, before: Object) -> Object:
        target = self._target
        if target.init == "running":
            return self._running_status(container, before, ready=False)
        error = self._config_errors.get(container["name"])
        if target.init == "waiting" and error is not None:
            return self._waiting_status(container, before, CONFIG_ERROR, error)
        if target.init == "waiting":
            return self._waiting_status(container, before, "CrashLoopBackOff", BACK_OFF_MESSAGE)
        termination = {"exitCode": target.exitCode, "reason": "Error"} if target.exitCode else COMPLETED
        return {**self._terminated_status(container, before, termination), "ready": not target.exitCode}

    def ephemeral_container(self, container: Object) -> Object:
        before = self._old.get(container["name"]) or {}
        if self._target.containers == "terminated":
            return self._terminated_status(container, before, COMPLETED)
        return {**self._running_status(container, before, ready=False), "started": False}

    def _running_status(self, container: Object, before: Object, *, ready: bool) -> Object:
        state, restarts = before.get("state") or {}, before.get("restartCount") or 0
        if "running" not in state:
            # A restart creates a new container.
            restarts += bool((before.get("lastState") or {}).get("terminated"))
            state = {"running": {"startedAt": self._now}}
        return self._container_status(container, before, state, restarts, ready=ready, started=True)

    def _waiting_status(self, container: Object, before: Object, reason: str, message: str = "") -> Object:
        waiting = {"reason": reason, **({"message": message} if message else {})}
        status = self._container_status(container, before, {"waiting": waiting}, before.get("restartCount") or 0)
        running = (before.get("state") or {}).get("running")
        if running is not None:
            termination = {"exitCode": self._target.exitCode, "reason": "Error"} if self._target.exitCode else COMPLETED
            terminated = self._terminated_state(before, running, termination)
            status["lastState"] = {"terminated": terminated}
        elif not before.get("containerID"):
            status |= {"containerID": "", "imageID": ""}
        return status

    def _terminated_status(self, container: Object, before: Object, termination: Object) -> Object:
        state, restarts = before.get("state") or {}, before.get("restartCount") or 0
        if "terminated" not in state:
            status = self._container_status(container, before, {}, restarts)
            since = state.get("running") or {"startedAt": self._now}
            state = {"terminated": self._terminated_state(status, since, termination)}
        return self._container_status(container, before, state, restarts)

    def _terminated_state(self, status: Object, running: Object, termination: Object) -> Object:
        started = running.get("startedAt") or self._now
        return {**termination, "startedAt": started, "finishedAt": self._now, "containerID": status["containerID"]}

    def _container_status(
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
        status: Object = {
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
            status["resources"] = resources
            if resources.get("requests"):
                status["allocatedResources"] = resources["requests"]
        return status


def _conditions(pod: Object, new: Object, old: Object, target: PodNext, host: HostInfo) -> list[Object]:
    before = {each.get("type"): each for each in old.get("conditions") or ()}
    generation = pod["metadata"].get("generation")

    def condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
        current, status = before.get(kind) or {}, "True" if holds else "False"
        since = current.get("lastTransitionTime") if current.get("status") == status else None
        result: Object = {
            "type": kind,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since or host.now,
        }
        result |= {"observedGeneration": generation} if generation else {}
        return result | {field: text for field, text in (("reason", reason), ("message", message)) if text}

    running = target.containers == "running"
    terminal_reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(target.phase, "")
    unready_reason = "" if running and target.ready else terminal_reason or "ContainersNotReady"
    names = " ".join(each["name"] for each in pod["spec"]["containers"])
    message = f"containers with unready status: [{names}]" if unready_reason == "ContainersNotReady" else ""
    gates = "" if unready_reason else _readiness_gate_message(pod["spec"].get("readinessGates") or (), before)
    unfinished = [] if target.initialized else new.get("initContainerStatuses") or ()
    initializing = [each["name"] for each in unfinished if not each["ready"]]
    return [
        condition(
            "PodReadyToStartContainers", (target.initialized or host.init_index is not None) and not terminal_reason
        ),
        condition(
            "Initialized",
            not initializing,
            "ContainersNotInitialized" if initializing else "PodCompleted" if target.phase == "Succeeded" else "",
            f"containers with incomplete status: [{' '.join(initializing)}]" if initializing else "",
        ),
        condition(
            "Ready",
            not unready_reason and not gates,
            unready_reason or ("ReadinessGatesNotReady" if gates else ""),
            message or gates,
        ),
        condition("ContainersReady", not unready_reason, unready_reason, message),
        condition("PodScheduled", True),
        *(each for each in old.get("conditions") or () if each.get("type") not in KUBELET_CONDITIONS),
    ]


def _readiness_gate_message(gates: list[Object] | tuple[()], conditions: dict[Any, Object]) -> str:
    """Returns a message about readiness gates whose conditions are not true."""
    messages: list[str] = []
    for gate in gates:
        kind = gate.get("conditionType")
        condition = conditions.get(kind)
        if condition is None:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.get("status") != "True":
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}')
    return ", ".join(messages)


def _image_id(image: str) -> str:
    """Returns an image given by digest as is; others get a digest of their name."""
    if not image or "@" in image:
        return image
    name, colon, tag = image.rpartition(":")
    return f"{name if colon and '/' not in tag else image}@sha256:{_digest(image)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
