"""Decides what a simulated kubelet does next for its node or for a pod: the first stage that matches and is due. Pure.

Times come from the objects and jitter from the uid, so a restarted process reaches the same decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from shoal.controlplane.kubelet.container_runtime import restart_policy
from shoal.controlplane.kubelet.init_containers import RunningInitContainer
from shoal.controlplane.kubelet.nodestatus import internal_ip, node_status
from shoal.controlplane.kubelet.pod_sources import INIT_INCOMPLETE, NO_ERRORS, READY, SourceErrors, check_delay
from shoal.controlplane.kubelet.podstatus import HostInfo, pod_status
from shoal.controlplane.kubelet.shell.interpreter import CommandOutcome
from shoal.controlplane.kubelet.stages import PodNext, Stage, StageDelay, Stages
from shoal.kinds.clusterapi.simulated_node import SIMULATE_ANNOTATION
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_duration, parse_time

Object = dict[str, Any]

TERMINAL_PHASES = ("Succeeded", "Failed")
BACKOFF_RESET_SECONDS = 600.0
DEFAULT_GRACE_SECONDS = 30
"""Default termination grace period in seconds."""
IMAGE_PULL = "image-pull"
SIGTERM_EXIT_CODE = 143
"""Exit code of the containers of a deleted pod."""


@dataclass(frozen=True, slots=True)
class KubeletDecision:
    stage: str = ""
    status: Object | None = None
    """Written first."""
    force_delete: bool = False
    """Deletes the object without a grace period."""
    requeue_at: float | None = None
    """Time of the next reconcile if nothing changes before."""
    waits_for: str = ""
    """State of the sources of the pod if it does not start because of them."""


def decide_node(
    node: Object, stages: Stages, *, version: str, address: str, now: float, now_rfc3339: str
) -> KubeletDecision:
    """`address` is used unless the node has one; `now_rfc3339` is `now` as text."""
    condition = get_condition(node, "Ready") or {}
    facts = {"simulate": _simulate_annotation(node, stages, "nodes"), "ready": str(condition.get("status") or "")}
    requeue_at: float | None = None
    for stage in stages.nodes:
        if not stage.matches(facts):
            continue
        due = _due_time(stage, node, now)
        if due > now:
            requeue_at = due if requeue_at is None else min(requeue_at, due)
            continue
        status = node_status(node, stages, stage.next, version, address, now_rfc3339)
        return KubeletDecision(stage.name, status if status != node.get("status") else None, requeue_at=requeue_at)
    return KubeletDecision(requeue_at=requeue_at)


def decide_pod(
    pod: Object,
    node: Object,
    stages: Stages,
    *,
    outcome: CommandOutcome | None,
    address: str,
    now: float,
    now_rfc3339: str,
    init_container: RunningInitContainer | None = None,
    errors: SourceErrors = NO_ERRORS,
) -> KubeletDecision:
    """`outcome` is that of its command; `address` is used unless the pod has one; `init_container` is the one that runs
    now; `errors` say what is missing for its start. Pods on a node that is not ready do not change.
    """
    if not condition_is(node, "Ready"):
        return KubeletDecision()
    simulate = _simulate_annotation(pod, stages, "pods") or _missing_image(pod, stages)
    host = HostInfo(internal_ip(node), address, now_rfc3339)
    effective_pod = pod
    sources = errors.state(init_container.index if init_container is not None else None)
    if sources != READY:
        init_index = errors.init_index if sources == INIT_INCOMPLETE else None
        host = replace(host, init_index=init_index, config_errors=errors.containers)
    elif init_container is not None and not simulate:
        effective_pod, outcome, host = (
            init_container.pod,
            init_container.outcome,
            replace(host, init_index=init_container.index),
        )
    facts = pod_facts(effective_pod, simulate, outcome, initializing=effective_pod is not pod, sources=sources)
    requeue_at: float | None = None
    if sources != READY:
        requeue_at = now + check_delay(now - (_reference_time("scheduled", pod) or now))
    for stage in stages.matching_pod_stages(facts):
        due = _due_time(stage, effective_pod, now, outcome)
        if due > now:
            requeue_at = due if requeue_at is None else min(requeue_at, due)
            continue
        decision = _apply_stage(stage, pod, outcome, host, requeue_at)
        is_waiting = sources != READY and ("sources", frozenset({sources})) in stage.match
        return replace(decision, waits_for=sources) if is_waiting else decision
    return KubeletDecision(requeue_at=requeue_at)


def _apply_stage(
    stage: Stage[PodNext | None], pod: Object, outcome: CommandOutcome | None, host: HostInfo, requeue_at: float | None
) -> KubeletDecision:
    target = stage.next
    if target is None:
        return KubeletDecision(stage.name, requeue_at=requeue_at)
    delay_source = stage.delay.of if stage.delay is not None else ""
    actual = (
        outcome.on_sigterm
        if outcome is not None and delay_source == "trap"
        else outcome
        if delay_source == "command"
        else None
    )
    code = actual.exit_code if actual is not None else target.exitCode
    if target.delete:
        return _delete_pod(stage.name, pod, code if actual is not None or code else SIGTERM_EXIT_CODE, host)
    if code != target.exitCode:
        target = replace(target, exitCode=code)
    status = pod_status(pod, target, host)
    return KubeletDecision(stage.name, status if status != pod.get("status") else None, requeue_at=requeue_at)


def _delete_pod(stage: str, pod: Object, code: int, host: HostInfo) -> KubeletDecision:
    """If the pod has a finalizer, its final status is written so that its owner can see it."""
    metadata, status = pod["metadata"], None
    if metadata.get("finalizers") and (pod.get("status") or {}).get("phase") not in TERMINAL_PHASES:
        phase, reason = ("Failed", "Error") if code else ("Succeeded", "Completed")
        target = PodNext(phase=phase, containers="terminated", exitCode=code, reason=reason)
        status = pod_status(pod, target, host)
    return KubeletDecision(stage, status, force_delete=_deletion_grace(metadata) > 0)


def pod_facts(
    pod: Object, simulate: str, outcome: CommandOutcome | None, *, initializing: bool, sources: str = READY
) -> dict[str, str]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    owners = metadata.get("ownerReferences") or ()
    outcome = outcome if not simulate else None
    return {
        "phase": status.get("phase") or "Pending",
        "deleting": "yes" if "deletionTimestamp" in metadata else "no",
        "grace": "longer"
        if _deletion_grace(metadata) > pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        else "own",
        "containers": next(iter(containers[0].get("state") or ()), "none") if containers else "none",
        "simulate": simulate,
        "restartPolicy": restart_policy(pod),
        "owner": next((str(each.get("kind")) for each in owners if each.get("controller")), ""),
        "command": "unknown" if outcome is None else "fails" if outcome.exit_code else "succeeds",
        "probed": "later" if readiness_delay(pod) else "at-once",
        "limited": "yes" if pod["spec"].get("activeDeadlineSeconds") else "no",
        "traps": "yes" if outcome is not None and outcome.on_sigterm is not None else "no",
        "initializing": "yes" if initializing else "no",
        "sources": sources,
    }


def _deletion_grace(metadata: Object) -> int:
    return metadata.get("deletionGracePeriodSeconds") or 0


def readiness_delay(pod: Object) -> int:
    """Returns the seconds after start during which containers are not ready because no probe has run."""
    probes = [each["readinessProbe"] for each in pod["spec"]["containers"] if each.get("readinessProbe")]
    return max((each.get("initialDelaySeconds") or 0 for each in probes), default=0)


def _simulate_annotation(obj: Object, stages: Stages, kind: str) -> str:
    value = (obj["metadata"].get("annotations") or {}).get(SIMULATE_ANNOTATION, "")
    return value if value and value in stages.simulate_values(kind) else ""


def _missing_image(pod: Object, stages: Stages) -> str:
    tags = ((each.get("image") or "").rpartition(":")[2] for each in pod["spec"]["containers"])
    return IMAGE_PULL if not stages.missing_image_tags.isdisjoint(tags) else ""


def _due_time(stage: Stage[Any], obj: Object, now: float, outcome: CommandOutcome | None = None) -> float:
    delay = stage.delay
    if delay is None:
        return now
    since = _reference_time(delay.since, obj)
    return now if since is None else since + _delay_seconds(stage.name, delay, obj, outcome)


def _delay_seconds(stage: str, delay: StageDelay, obj: Object, outcome: CommandOutcome | None) -> float:
    metadata, seconds = obj["metadata"], delay.seconds
    annotated = parse_duration((metadata.get("annotations") or {}).get(delay.annotation)) if delay.annotation else None
    if annotated is not None:
        return annotated
    if delay.of:
        return _pod_delay(delay.of, obj, outcome)
    if delay.doubling:
        restarts = max(
            (each.get("restartCount") or 0 for each in _container_statuses(obj) if not _resets_backoff(each)), default=0
        )
        seconds = min(seconds * 2.0 ** min(restarts, 30), delay.most or seconds)
    if delay.jitter:
        seconds += delay.jitter * crc32(f"{metadata['uid']}/{stage}".encode()) / 2**32
    return seconds


def _pod_delay(source: str, pod: Object, outcome: CommandOutcome | None) -> float:
    if source == "command":
        return outcome.seconds if outcome is not None else 0.0
    if source == "trap":
        return outcome.on_sigterm.seconds if outcome is not None and outcome.on_sigterm is not None else 0.0
    return float(readiness_delay(pod) if source == "readiness" else pod["spec"].get("activeDeadlineSeconds") or 0)


def _reference_time(name: str, obj: Object) -> float | None:
    """Returns None if unknown; then there is no delay."""
    metadata = obj["metadata"]
    if name == "deadline":
        return parse_time(metadata.get("deletionTimestamp"))
    if name == "asked":
        deadline = parse_time(metadata.get("deletionTimestamp"))
        return deadline - _deletion_grace(metadata) if deadline is not None else None
    if name == "scheduled":
        scheduled = get_condition(obj, "PodScheduled") or {}
        return parse_time(scheduled.get("lastTransitionTime")) or parse_time(metadata.get("creationTimestamp"))
    if name == "accepted":
        return parse_time((obj.get("status") or {}).get("startTime"))
    if name == "started":
        return _latest_time(
            ((each.get("state") or {}).get("running") or {}).get("startedAt") for each in _container_statuses(obj)
        )
    if name == "ended":
        return _latest_time(_last_termination(each).get("finishedAt") for each in _container_statuses(obj))
    return parse_time(metadata.get("creationTimestamp"))


def _last_termination(container: Object) -> Mapping[str, Any]:
    return (container.get("lastState") or {}).get("terminated") or {}


def _resets_backoff(container: Object) -> bool:
    """Returns whether the container ran so long that its earlier terminations no longer count."""
    termination = _last_termination(container)
    started, finished = parse_time(termination.get("startedAt")), parse_time(termination.get("finishedAt"))
    return started is not None and finished is not None and finished - started >= BACKOFF_RESET_SECONDS


def _latest_time(times: Any) -> float | None:
    return max((moment for moment in map(parse_time, times) if moment is not None), default=None)


def _container_statuses(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("containerStatuses") or []
