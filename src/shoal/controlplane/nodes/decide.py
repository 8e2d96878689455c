"""Decides what a simulated kubelet does next for its node or for a pod: the first stage that matches and is due. Pure.

Times come from the objects and jitter from the uid, so a restarted process reaches the same decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from shoal.controlplane.nodes.commands import restart_policy
from shoal.controlplane.nodes.initializing import Initial
from shoal.controlplane.nodes.nodestatus import host_of, node_status
from shoal.controlplane.nodes.podstatus import Place, pod_status
from shoal.controlplane.nodes.shell.run import Ending
from shoal.controlplane.nodes.stages import Delay, PodNext, Stage, Stages
from shoal.kinds.simulated import SIMULATE
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_duration, parse_time

Object = dict[str, Any]

ENDED = ("Succeeded", "Failed")
FORGIVEN_SECONDS = 600.0
GRACE = 30
"""Default termination grace period in seconds."""
IMAGE_PULL = "image-pull"
SIGTERM = 143
"""Exit code of the containers of a deleted pod."""


@dataclass(frozen=True, slots=True)
class Decision:
    stage: str = ""
    status: Object | None = None
    """Written first."""
    delete: bool = False
    """Deletes the object without a grace period."""
    at: float | None = None
    """Time of the next reconcile if nothing changes before."""


def decide_node(node: Object, stages: Stages, *, version: str, address: str, now: float, stamp: str) -> Decision:
    """`address` is used unless the node has one; `now_rfc3339` is `now` as text."""
    condition = get_condition(node, "Ready") or {}
    facts = {"simulate": _chosen(node, stages, "nodes"), "ready": str(condition.get("status") or "")}
    at: float | None = None
    for stage in stages.nodes:
        if not stage.matches(facts):
            continue
        due = _due(stage, node, now)
        if due > now:
            at = due if at is None else min(at, due)
            continue
        status = node_status(node, stages, stage.next, version, address, stamp)
        return Decision(stage.name, status if status != node.get("status") else None, at=at)
    return Decision(at=at)


def decide_pod(
    pod: Object,
    node: Object,
    stages: Stages,
    *,
    ending: Ending | None,
    address: str,
    now: float,
    stamp: str,
    initial: Initial | None = None,
) -> Decision:
    """`outcome` is that of its command; `address` is used unless the pod has one; `init_container` is the one that runs
    now. Pods on a node that is not ready do not change.
    """
    if not condition_is(node, "Ready"):
        return Decision()
    simulate = _chosen(pod, stages, "pods") or _misses_image(pod, stages)
    place = Place(host_of(node), address, stamp)
    told = pod
    if initial is not None and not simulate:
        told, ending, place = initial.pod, initial.ending, replace(place, turn=initial.index)
    facts = pod_facts(told, simulate, ending, initializing=told is not pod)
    at: float | None = None
    for stage in stages.of_pod(facts):
        due = _due(stage, told, now, ending)
        if due > now:
            at = due if at is None else min(at, due)
            continue
        return _carried_out(stage, pod, ending, place, at)
    return Decision(at=at)


def _carried_out(
    stage: Stage[PodNext | None], pod: Object, ending: Ending | None, place: Place, at: float | None
) -> Decision:
    target = stage.next
    if target is None:
        return Decision(stage.name, at=at)
    of = stage.delay.of if stage.delay is not None else ""
    said = ending.stop if ending is not None and of == "trap" else ending if of == "command" else None
    code = said.code if said is not None else target.exitCode
    if target.delete:
        return _deleted(stage.name, pod, code if said is not None or code else SIGTERM, place)
    if code != target.exitCode:
        target = replace(target, exitCode=code)
    status = pod_status(pod, target, place)
    return Decision(stage.name, status if status != pod.get("status") else None, at=at)


def _deleted(stage: str, pod: Object, code: int, place: Place) -> Decision:
    """If the pod has a finalizer, its final status is written so that its owner can see it."""
    metadata, status = pod["metadata"], None
    if metadata.get("finalizers") and (pod.get("status") or {}).get("phase") not in ENDED:
        phase, reason = ("Failed", "Error") if code else ("Succeeded", "Completed")
        target = PodNext(phase=phase, containers="terminated", exitCode=code, reason=reason)
        status = pod_status(pod, target, place)
    return Decision(stage, status, delete=_given(metadata) > 0)


def pod_facts(pod: Object, simulate: str, ending: Ending | None, *, initializing: bool) -> dict[str, str]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    owners = metadata.get("ownerReferences") or ()
    ending = ending if not simulate else None
    return {
        "phase": status.get("phase") or "Pending",
        "deleting": "yes" if "deletionTimestamp" in metadata else "no",
        "grace": "longer" if _given(metadata) > pod["spec"].get("terminationGracePeriodSeconds", GRACE) else "own",
        "containers": next(iter(containers[0].get("state") or ()), "none") if containers else "none",
        "simulate": simulate,
        "restartPolicy": restart_policy(pod),
        "owner": next((str(each.get("kind")) for each in owners if each.get("controller")), ""),
        "command": "unknown" if ending is None else "fails" if ending.code else "succeeds",
        "probed": "later" if readiness_delay(pod) else "at-once",
        "limited": "yes" if pod["spec"].get("activeDeadlineSeconds") else "no",
        "traps": "yes" if ending is not None and ending.stop is not None else "no",
        "initializing": "yes" if initializing else "no",
    }


def _given(metadata: Object) -> int:
    return metadata.get("deletionGracePeriodSeconds") or 0


def readiness_delay(pod: Object) -> int:
    """Returns the seconds after start during which containers are not ready because no probe has run."""
    probes = [each["readinessProbe"] for each in pod["spec"]["containers"] if each.get("readinessProbe")]
    return max((each.get("initialDelaySeconds") or 0 for each in probes), default=0)


def _chosen(obj: Object, stages: Stages, kind: str) -> str:
    asked = (obj["metadata"].get("annotations") or {}).get(SIMULATE, "")
    return asked if asked and asked in stages.alternatives(kind) else ""


def _misses_image(pod: Object, stages: Stages) -> str:
    tags = ((each.get("image") or "").rpartition(":")[2] for each in pod["spec"]["containers"])
    return IMAGE_PULL if not stages.missing.isdisjoint(tags) else ""


def _due(stage: Stage[Any], obj: Object, now: float, ending: Ending | None = None) -> float:
    delay = stage.delay
    if delay is None:
        return now
    since = _moment(delay.since, obj)
    return now if since is None else since + _seconds(stage.name, delay, obj, ending)


def _seconds(stage: str, delay: Delay, obj: Object, ending: Ending | None) -> float:
    metadata, seconds = obj["metadata"], delay.seconds
    asked = parse_duration((metadata.get("annotations") or {}).get(delay.annotation)) if delay.annotation else None
    if asked is not None:
        return asked
    if delay.of:
        return _said(delay.of, obj, ending)
    if delay.doubling:
        restarts = max((each.get("restartCount") or 0 for each in _statuses(obj) if not _ran_well(each)), default=0)
        seconds = min(seconds * 2.0 ** min(restarts, 30), delay.most or seconds)
    if delay.jitter:
        seconds += delay.jitter * crc32(f"{metadata['uid']}/{stage}".encode()) / 2**32
    return seconds


def _said(of: str, pod: Object, ending: Ending | None) -> float:
    if of == "command":
        return ending.seconds if ending is not None else 0.0
    if of == "trap":
        return ending.stop.seconds if ending is not None and ending.stop is not None else 0.0
    return float(readiness_delay(pod) if of == "readiness" else pod["spec"].get("activeDeadlineSeconds") or 0)


def _moment(name: str, obj: Object) -> float | None:
    """Returns None if unknown; then there is no delay."""
    metadata = obj["metadata"]
    if name == "deadline":
        return parse_time(metadata.get("deletionTimestamp"))
    if name == "asked":
        deadline = parse_time(metadata.get("deletionTimestamp"))
        return deadline - _given(metadata) if deadline is not None else None
    if name == "scheduled":
        bound = get_condition(obj, "PodScheduled") or {}
        return parse_time(bound.get("lastTransitionTime")) or parse_time(metadata.get("creationTimestamp"))
    if name == "accepted":
        return parse_time((obj.get("status") or {}).get("startTime"))
    if name == "started":
        return _newest(((each.get("state") or {}).get("running") or {}).get("startedAt") for each in _statuses(obj))
    if name == "ended":
        return _newest(_last_end(each).get("finishedAt") for each in _statuses(obj))
    return parse_time(metadata.get("creationTimestamp"))


def _last_end(container: Object) -> Mapping[str, Any]:
    return (container.get("lastState") or {}).get("terminated") or {}


def _ran_well(container: Object) -> bool:
    """Returns whether the container ran so long that its earlier terminations no longer count."""
    end = _last_end(container)
    started, finished = parse_time(end.get("startedAt")), parse_time(end.get("finishedAt"))
    return started is not None and finished is not None and finished - started >= FORGIVEN_SECONDS


def _newest(times: Any) -> float | None:
    return max((found for found in map(parse_time, times) if found is not None), default=None)


def _statuses(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("containerStatuses") or []
