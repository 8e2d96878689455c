"""Printer columns of apps, batch, autoscaling and policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.apiserver.registry.columns import AGE
from shoal.apiserver.registry.registry import Column
from shoal.kinds.autoscaling.hpa import V1, to_v2
from shoal.objects.conditions import condition_is
from shoal.objects.duration import human_age, human_duration, parse_time
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]
Cell = Callable[[Object, float], object]

NONE, UNKNOWN = "<none>", "<unknown>"
SHOWN_METRICS = 2
_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def field_cell(*path: str, otherwise: object = None) -> Cell:
    """The value at the path, or `otherwise` if it is absent."""

    def cell(obj: Object, now: float) -> object:
        found: Any = obj
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return otherwise if found is None else found

    return cell


def number_cell(*path: str) -> Cell:
    return field_cell(*path, otherwise=0)


def selector_text(selector: Object | None) -> str:
    try:
        return str(from_label_selector(selector))
    except BadRequest:
        return "<error>"


def selector_cell(*path: str) -> Cell:
    find = field_cell(*path)

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return selector_text(found) or NONE

    return cell


def _ready(obj: Object, now: float) -> object:
    return f"{(obj.get('status') or {}).get('readyReplicas') or 0}/{obj['spec'].get('replicas') or 0}"


def _container_fields(field: str, *path: str) -> Cell:
    find = field_cell(*path, "spec", "containers", otherwise=())

    def cell(obj: Object, now: float) -> object:
        containers: Any = find(obj, now)
        return ",".join(container.get(field) or "" for container in containers)

    return cell


def _container_columns(*path: str) -> tuple[Column, Column]:
    return (
        Column("Containers", priority=1, cell=_container_fields("name", *path)),
        Column("Images", priority=1, cell=_container_fields("image", *path)),
    )


def _node_selector(obj: Object, now: float) -> object:
    wanted = obj["spec"]["template"].get("spec", {}).get("nodeSelector") or {}
    return ",".join(f"{key}={wanted[key]}" for key in sorted(wanted)) or NONE


def _owner(obj: Object, now: float) -> object:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            kind = reference["kind"].lower()
            return f"{kind}.{group}/{reference['name']}" if group else f"{kind}/{reference['name']}"
    return NONE


def _job_status(obj: Object, now: float) -> object:
    for state in _JOB_STATES:
        if not state and obj["metadata"].get("deletionTimestamp"):
            return "Terminating"
        if state and condition_is(obj, state):
            return state
    return "Running"


def _completions(obj: Object, now: float) -> object:
    spec, done = obj["spec"], (obj.get("status") or {}).get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(obj: Object, now: float) -> object:
    status = obj.get("status") or {}
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else human_duration((now if end is None else end) - start)


def _last_schedule(obj: Object, now: float) -> object:
    at = (obj.get("status") or {}).get("lastScheduleTime")
    return human_age(at, now) if at else NONE


def _scale_target(obj: Object, now: float) -> object:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(obj: Object, now: float) -> object:
    obj = to_v2(obj) if obj["apiVersion"] == V1 else obj
    wanted, current = obj["spec"].get("metrics") or [], (obj.get("status") or {}).get("currentMetrics") or []
    shown = [_metric(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(wanted)]
    if not shown:
        return NONE
    more = len(shown) - SHOWN_METRICS
    return ", ".join(shown[:SHOWN_METRICS]) + (f" + {more} more..." if more > 0 else "")


def _metric(metric: Object, current: Object) -> str:
    kind = metric.get("type") or " "
    field = kind[0].lower() + kind[1:]
    source = metric.get(field)
    if source is None:
        return "<unknown type>"
    target, found = source.get("target") or {}, (current.get(field) or {}).get("current") or {}
    of_resource = field in ("resource", "containerResource")
    prefix = f"{source.get('name', '')}: " if of_resource else ""
    if target.get("averageValue") is not None:
        suffix = " (avg)" if field in ("external", "object") else ""
        return f"{prefix}{found.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    if of_resource:
        return f"{prefix}{_percent(found, UNKNOWN)}/{_percent(target, '<auto>')}"
    return f"{found.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"


def _percent(holder: Object, otherwise: str) -> str:
    found = holder.get("averageUtilization")
    return otherwise if found is None else f"{found}%"


def _spec_field(field: str) -> Cell:
    def cell(obj: Object, now: float) -> object:
        found = obj["spec"].get(field)
        return "N/A" if found is None else str(found)

    return cell


_TEMPLATE = _container_columns("spec", "template")
_SELECTOR = Column("Selector", priority=1, cell=selector_cell("spec", "selector"))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "deployments.apps": (
        Column("Ready", cell=_ready),
        Column("Up-to-date", cell=number_cell("status", "updatedReplicas")),
        Column("Available", cell=number_cell("status", "availableReplicas")),
        AGE, *_TEMPLATE, Column("Selector", priority=1, cell=lambda o, now: selector_text(o["spec"].get("selector"))),
    ),
    "replicasets.apps": (
        Column("Desired", type="integer", cell=number_cell("spec", "replicas")),
        Column("Current", type="integer", cell=number_cell("status", "replicas")),
        Column("Ready", type="integer", cell=number_cell("status", "readyReplicas")),
        AGE, *_TEMPLATE, _SELECTOR,
    ),
    "statefulsets.apps": (Column("Ready", cell=_ready), AGE, *_TEMPLATE),
    "daemonsets.apps": (
        Column("Desired", type="integer", cell=number_cell("status", "desiredNumberScheduled")),
        Column("Current", type="integer", cell=number_cell("status", "currentNumberScheduled")),
        Column("Ready", type="integer", cell=number_cell("status", "numberReady")),
        Column("Up-to-date", type="integer", cell=number_cell("status", "updatedNumberScheduled")),
        Column("Available", type="integer", cell=number_cell("status", "numberAvailable")),
        Column("Node Selector", cell=_node_selector),
        AGE, *_TEMPLATE, _SELECTOR,
    ),
    "controllerrevisions.apps": (
        Column("Controller", cell=_owner),
        Column("Revision", cell=number_cell("revision")),
        AGE,
    ),
    "jobs.batch": (
        Column("Status", cell=_job_status),
        Column("Completions", cell=_completions),
        Column("Duration", cell=_duration),
        AGE, *_TEMPLATE, _SELECTOR,
    ),
    "cronjobs.batch": (
        Column("Schedule", cell=field_cell("spec", "schedule")),
        Column("Timezone", cell=field_cell("spec", "timeZone", otherwise=NONE)),
        Column("Suspend", type="boolean", cell=lambda obj, now: "True" if obj["spec"].get("suspend") else "False"),
        Column("Active", type="integer", cell=lambda obj, now: len((obj.get("status") or {}).get("active") or ())),
        Column("Last Schedule", cell=_last_schedule),
        AGE, *_container_columns("spec", "jobTemplate", "spec", "template"),
        Column("Selector", priority=1, cell=selector_cell("spec", "jobTemplate", "spec", "selector")),
    ),
    "horizontalpodautoscalers.autoscaling": (
        Column("Reference", cell=_scale_target),
        Column("Targets", cell=_metrics),
        Column("MinPods", cell=lambda obj, now: str(obj["spec"].get("minReplicas", "<unset>"))),
        Column("MaxPods", cell=number_cell("spec", "maxReplicas")),
        Column("Replicas", cell=number_cell("status", "currentReplicas")),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        Column("Min Available", cell=_spec_field("minAvailable")),
        Column("Max Unavailable", cell=_spec_field("maxUnavailable")),
        Column("Allowed Disruptions", type="integer", cell=number_cell("status", "disruptionsAllowed")),
        AGE,
    ),
}  # fmt: skip
