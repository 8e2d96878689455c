"""Lease of coordination.k8s.io/v1: defaults, validation, strategy and printer columns. Pure."""

from __future__ import annotations

from shoal.kinds.column import AGE, Column, text_cell
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object, ensure_map
from shoal.objects.errors import Cause, invalid_value

_COORDINATED_ELECTION_FIELDS = ("strategy", "preferredHolder")
"""Fields of coordinated leader election, which upstream has behind a feature gate that is off."""


def default_lease(obj: Object) -> None:
    ensure_map(obj, "spec")


def prepare_lease_create(obj: Object) -> None:
    for field in _COORDINATED_ELECTION_FIELDS:
        obj["spec"].pop(field, None)


def prepare_lease_update(new: Object, old: Object) -> None:
    prepare_lease_create(new)


def validate_lease(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = []
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(seconds, int) and seconds <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


STRATEGIES: dict[str, Strategy] = {
    "leases.coordination.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_create_on_update=True,
        allow_unqualified_finalizers=True,
        default=default_lease,
        prepare_for_create=prepare_lease_create,
        prepare_for_update=prepare_lease_update,
        validate=validate_lease,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "leases.coordination.k8s.io": (Column("Holder", cell=text_cell("spec", "holderIdentity")), AGE),
}
