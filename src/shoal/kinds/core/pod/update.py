"""Validation of updates of a PodSpec, in which almost nothing may change. Upstream's words; pure."""

from __future__ import annotations

import json
from typing import Any

from shoal.kinds.core.scheduling import validate_tolerations
from shoal.kinds.validation.diff import diff, semantic_equal
from shoal.objects.errors import Cause, forbidden_field, invalid_value

Object = dict[str, Any]

UPDATABLE_FIELDS = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_CONTAINERS = ("containers", "initContainers")


def validate_pod_update(new: Object, old: Object) -> list[Cause]:
    for field in _CONTAINERS:
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            return [forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    causes = _validate_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    causes += _validate_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.append(forbidden_field(f"spec.schedulingGates[{i}].name", detail))
    comparable = _with_old_mutable_fields(new, old)
    if not semantic_equal(comparable, old):
        detail = f"pod updates may not change fields other than {UPDATABLE_FIELDS}\n{diff(comparable, old, 'spec')}"
        causes.append(forbidden_field("spec", detail))
    return causes


def _with_old_mutable_fields(new: Object, old: Object) -> Object:
    """Returns the new spec with the old values of mutable fields: any remaining difference is forbidden."""
    result = {**new}
    mutable_fields = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if old.get("schedulingGates") and _only_adds_keys(new.get("nodeSelector") or {}, old.get("nodeSelector") or {}):
        mutable_fields.append("nodeSelector")
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        mutable_fields.append("terminationGracePeriodSeconds")
    for field in mutable_fields:
        result[field] = old.get(field)
    for field in _CONTAINERS:
        pairs = zip(new.get(field) or (), old.get(field) or (), strict=True)
        result[field] = [{**container, "image": before.get("image")} for container, before in pairs]
    return result


def _only_adds_keys(new: Object, old: Object) -> bool:
    return all(new.get(key) == value for key, value in old.items())


def _validate_deadline(new: int | None, old: int | None) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid_value(path, None, detail)]
    if old is not None and old < new:
        return [invalid_value(path, new, "must be less than or equal to previous value")]
    return []


def _validate_tolerations(new: list[Object], old: list[Object]) -> list[Cause]:
    def bare(toleration: Object) -> str:
        fields = {field: value for field, value in toleration.items() if value and field != "tolerationSeconds"}
        return json.dumps(fields, sort_keys=True)

    if not set(map(bare, old)) <= set(map(bare, new)):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden_field("spec.tolerations", detail)]
    return validate_tolerations(new, "spec.tolerations") if new != old else []
