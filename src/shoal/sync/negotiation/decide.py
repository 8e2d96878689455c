"""Decides the conditions of a negotiated API and its imports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.workload import apiresource
from shoal.kinds.workload.apiresource import API_VERSION_ANNOTATION, FROM_IMPORTS_ANNOTATION, GVR
from shoal.objects.conditions import get_condition
from shoal.sync.conditions import SyncCondition
from shoal.sync.negotiation.lcd import NegotiatedSpec, OfferedSchema, may_update

Object = dict[str, Any]

MAX_PROBLEMS, MAX_PROBLEM_LENGTH = 5, 300
"""Limits of the number of reported problems, and of the length of each."""
SCHEMA_UNKNOWN = SyncCondition(
    apiresource.COMPATIBLE, "Unknown", apiresource.SCHEMA_UNKNOWN, "the referenced schema is not stored yet"
)
MANUAL_CRD_MESSAGE = "a manually created CRD defines the schema"


@dataclass(frozen=True, slots=True)
class ServedState:
    """How the hub serves the API now."""

    is_builtin: bool = False
    """A built-in kind: publishing is enough."""
    is_listed: bool = False
    """Discovery lists it."""
    crd: Object | None = None
    """The CRD of that name."""
    refused_reason: str = ""
    """Why the hub rejected the CRD."""
    has_objects: bool = False
    """Objects exist of an API that should no longer be served."""


@dataclass(frozen=True, slots=True)
class NegotiationConditions:
    negotiated: Sequence[SyncCondition] = ()
    imports: dict[str, list[SyncCondition]] = field(default_factory=dict)
    """Conditions by import name."""


def offered_schemas(imports: Sequence[Object], schemas: Mapping[str, Object]) -> list[OfferedSchema]:
    """Sorted oldest first, each with its schema if known."""
    offers = []
    for each in sorted(imports, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"])):
        spec = each["spec"]
        schema = schemas.get(spec.get("schemaDigest", ""))
        if "openAPIV3Schema" not in spec and schema is not None:
            spec = {**spec, "openAPIV3Schema": schema}
        offers.append(OfferedSchema(each["metadata"]["name"], spec))
    return offers


def new_negotiated_resource(api: GVR, agreement: NegotiatedSpec, publish: bool) -> Object | None:
    """The initial negotiated resource; None while no import has a schema."""
    if agreement.spec is None:
        return None
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.NEGOTIATED_KIND,
        "metadata": {
            "name": apiresource.negotiated_name(api),
            "annotations": {API_VERSION_ANNOTATION: api.group_version, FROM_IMPORTS_ANNOTATION: "true"},
        },
        "spec": {"publish": publish, **agreement.spec},
    }


def updated_negotiated_resource(negotiated: Object, agreement: NegotiatedSpec) -> Object | None:
    """The negotiated resource to write; None if it is current."""
    spec = negotiated["spec"]
    if agreement.spec is None or all(spec.get(key) == value for key, value in agreement.spec.items()):
        return None
    return {**negotiated, "spec": {**spec, **agreement.spec}}


def negotiation_conditions(
    negotiated: Object, offers: Sequence[OfferedSchema], agreement: NegotiatedSpec, served: ServedState
) -> NegotiationConditions:
    is_manual_crd = is_manual(served.crd)
    published = _published_condition(negotiated, served, is_manual_crd)
    available = SyncCondition(apiresource.AVAILABLE, published.status, published.reason, published.message)
    is_published = published.status == "True"
    imports = {
        each.name: [_compatible_condition(each, agreement, is_published, is_manual_crd), available] for each in offers
    }
    enforced_condition = SyncCondition(apiresource.ENFORCED, "False", "Negotiated")
    if is_manual_crd:
        enforced_condition = SyncCondition(apiresource.ENFORCED, "True", "ManualDefinition", MANUAL_CRD_MESSAGE)
    return NegotiationConditions(
        [_submitted_condition(negotiated, served, is_manual_crd), published, enforced_condition], imports
    )


def is_manual(crd: Object | None) -> bool:
    """Whether another component made the CRD: it is never written."""
    return crd is not None and FROM_IMPORTS_ANNOTATION not in (crd["metadata"].get("annotations") or {})


def is_withdrawable(negotiated: Object, imports: Sequence[Object]) -> bool:
    """Whether negotiation created it from imports that no longer exist."""
    return not imports and FROM_IMPORTS_ANNOTATION in (negotiated["metadata"].get("annotations") or {})


def _compatible_condition(
    offer: OfferedSchema, agreement: NegotiatedSpec, published: bool, by_hand: bool
) -> SyncCondition:
    problems = agreement.problems.get(offer.name)
    if problems is None:
        return SCHEMA_UNKNOWN
    if not problems:
        return SyncCondition(apiresource.COMPATIBLE, "True", "Compatible")
    message = "; ".join(problem[:MAX_PROBLEM_LENGTH] for problem in problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        message += f"; and {len(problems) - MAX_PROBLEMS} more"
    if by_hand:
        message += f" ({MANUAL_CRD_MESSAGE})"
    elif not may_update(offer.spec, published):
        message += f" (schemaUpdateStrategy is {offer.spec.get('schemaUpdateStrategy') or apiresource.UPDATE_NEVER})"
    return SyncCondition(apiresource.COMPATIBLE, "False", "IncompatibleSchema", message)


def _submitted_condition(negotiated: Object, served: ServedState, by_hand: bool) -> SyncCondition:
    if served.refused_reason:
        return SyncCondition(apiresource.SUBMITTED, "False", apiresource.DEFINITION_REFUSED, served.refused_reason)
    if not negotiated["spec"].get("publish") and not by_hand:
        return SyncCondition(apiresource.SUBMITTED, "False", apiresource.NOT_REQUESTED, "spec.publish is false")
    return SyncCondition(apiresource.SUBMITTED, "True", "Submitted")


def _published_condition(negotiated: Object, served: ServedState, by_hand: bool) -> SyncCondition:
    is_requested, group = negotiated["spec"].get("publish"), negotiated["spec"]["groupVersion"].get("group", "")
    if served.is_listed and served.has_objects:
        message = "the API is withdrawn when its last object is deleted"
        return SyncCondition(apiresource.PUBLISHED, "True", "ObjectsRemain", message)
    if served.is_listed and (is_requested or by_hand):
        return SyncCondition(apiresource.PUBLISHED, "True", "Served")
    if not is_requested and not by_hand:
        return SyncCondition(apiresource.PUBLISHED, "False", apiresource.NOT_REQUESTED, "spec.publish is false")
    if served.refused_reason:
        return SyncCondition(apiresource.PUBLISHED, "False", apiresource.DEFINITION_REFUSED, served.refused_reason)
    if not served.is_builtin and not group:
        message = "the core group cannot have CRDs, and the kind is not built into Kubernetes"
        return SyncCondition(apiresource.PUBLISHED, "False", apiresource.CANNOT_BE_SERVED, message)
    names_accepted = get_condition(served.crd or {}, "NamesAccepted") or {}
    if names_accepted.get("status") == "False":
        return SyncCondition(
            apiresource.PUBLISHED, "False", apiresource.DEFINITION_REFUSED, str(names_accepted.get("message", ""))
        )
    return SyncCondition(
        apiresource.PUBLISHED, "False", "NotServedYet", "API discovery of the hub does not list it yet"
    )
