"""Strategies and printer columns of the kinds of resource.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import AGE, Column, field_cell
from shoal.kinds.resource import resourceclaim, resourceslice
from shoal.kinds.strategy import Strategy

Object = dict[str, Any]

STRATEGIES: dict[str, Strategy] = {
    "deviceclasses.resource.k8s.io": Strategy(
        tracks_generation=True,
        validate_generate_name=False,
        default=resourceclaim.default_device_class,
        validate=resourceclaim.validate_device_class,
    ),
    "resourceclaims.resource.k8s.io": Strategy(
        default=resourceclaim.default_claim,
        prepare_for_create=resourceclaim.canonicalize_claim,
        prepare_for_update=resourceclaim.canonicalize_claim,
        validate=resourceclaim.validate_claim,
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(
        default=resourceclaim.default_claim_template,
        prepare_for_create=resourceclaim.canonicalize_claim_template,
        prepare_for_update=resourceclaim.canonicalize_claim_template,
        validate=resourceclaim.validate_claim_template,
    ),
    "resourceslices.resource.k8s.io": Strategy(
        tracks_generation=True,
        default=resourceslice.default_resource_slice,
        validate=resourceslice.validate_resource_slice,
        warnings=resourceslice.warn_resource_slice,
    ),
}


def _claim_state(obj: Object, now: float) -> object:
    status, gone = obj.get("status") or {}, "deletionTimestamp" in obj["metadata"]
    states = ["deleted"] if gone else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not gone:
        states.append("pending")
    return ",".join(states)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "deviceclasses.resource.k8s.io": (AGE,),
    "resourceclaims.resource.k8s.io": (Column("State", cell=_claim_state), AGE),
    "resourceclaimtemplates.resource.k8s.io": (AGE,),
    "resourceslices.resource.k8s.io": (
        Column("Node", cell=field_cell("spec", "nodeName", otherwise="")),
        Column("Driver", cell=field_cell("spec", "driver")),
        Column("Pool", cell=field_cell("spec", "pool", "name")),
        AGE,
    ),
}
