"""Strategies and printer columns of the kinds of admissionregistration.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.admissionregistration import policy_specs, webhooks
from shoal.kinds.column import AGE, UNSET, Column, count_cell, field_cell, selector_text
from shoal.kinds.strategy import Strategy

Object = dict[str, Any]

STRATEGIES: dict[str, Strategy] = {
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=webhooks.default_validating_webhooks,
        validate=webhooks.validate_webhooks,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=webhooks.default_mutating_webhooks,
        validate=webhooks.validate_webhooks,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=policy_specs.default_validating_policy,
        validate=policy_specs.validate_validating_policy,
    ),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=policy_specs.default_policy,
        validate=policy_specs.validate_mutating_policy,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=policy_specs.default_binding,
        validate=policy_specs.validate_validating_binding,
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=policy_specs.default_binding,
        validate=policy_specs.validate_mutating_binding,
    ),
}


def _param_kind(obj: Object, now: float) -> object:
    kind = obj["spec"].get("paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(obj: Object, now: float) -> object:
    reference = obj["spec"].get("paramRef") or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector_text(reference["selector"]) if reference.get("selector") is not None else UNSET


def _policy_columns(field: str) -> tuple[Column, ...]:
    counted = Column(field.capitalize(), type="integer", cell=count_cell("spec", field))
    return (counted, Column("ParamKind", cell=_param_kind), AGE)


_BINDING = (Column("PolicyName", cell=field_cell("spec", "policyName")), Column("ParamRef", cell=_param_ref), AGE)
_WEBHOOKS = (Column("Webhooks", type="integer", cell=count_cell("webhooks")), AGE)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _policy_columns("validations"),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _policy_columns("mutations"),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _BINDING,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _BINDING,
}
