"""Decides the conditions of a negotiated API and its imports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds import apiresource
from shoal.kinds.apiresource import API_VERSION, FROM_IMPORTS, Api
from shoal.objects.conditions import get_condition
from shoal.sync.conditions import Condition
from shoal.sync.negotiation.agreement import Agreement, Offered, may_update

Object = dict[str, Any]

MOST_PROBLEMS, LONGEST = 5, 300
"""Limits of the number of reported problems, and of the length of each."""
SCHEMA_UNKNOWN = Condition(
    apiresource.COMPATIBLE, "Unknown", apiresource.SCHEMA_UNKNOWN, "the schema it refers to is not stored yet"
)
BY_HAND = "a CRD made by hand decides"


@dataclass(frozen=True, slots=True)
class Served:
    """How the hub serves the API now."""

    by_itself: bool = False
    """A built-in kind: publishing is enough."""
    listed: bool = False
    """Discovery lists it."""
    definition: Object | None = None
    """The CRD of that name."""
    refused: str = ""
    """Why the hub rejected the CRD."""
    objects: bool = False
    """Objects exist of an API that should no longer be served."""


@dataclass(frozen=True, slots=True)
class Told:
    negotiated: Sequence[Condition] = ()
    imports: dict[str, list[Condition]] = field(default_factory=dict)
    """Conditions by import name."""


def offered(imports: Sequence[Object], schemas: Mapping[str, Object]) -> list[Offered]:
    """Sorted oldest first, each with its schema if known."""
    found = []
    for each in sorted(imports, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"])):
        spec = each["spec"]
        stored = schemas.get(spec.get("schemaDigest", ""))
        if "openAPIV3Schema" not in spec and stored is not None:
            spec = {**spec, "openAPIV3Schema": stored}
        found.append(Offered(each["metadata"]["name"], spec))
    return found


def first(api: Api, agreement: Agreement, publish: bool) -> Object | None:
    """The initial negotiated resource; None while no import has a schema."""
    if agreement.spec is None:
        return None
    return {
        "apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}",
        "kind": apiresource.NEGOTIATED,
        "metadata": {
            "name": apiresource.negotiated_name(api),
            "annotations": {API_VERSION: api.group_version, FROM_IMPORTS: "true"},
        },
        "spec": {"publish": publish, **agreement.spec},
    }


def changed(negotiated: Object, agreement: Agreement) -> Object | None:
    """The negotiated resource to write; None if it is current."""
    spec = negotiated["spec"]
    if agreement.spec is None or all(spec.get(key) == value for key, value in agreement.spec.items()):
        return None
    return {**negotiated, "spec": {**spec, **agreement.spec}}


def tell(negotiated: Object, offers: Sequence[Offered], agreement: Agreement, served: Served) -> Told:
    by_hand = is_manual(served.definition)
    published = _published(negotiated, served, by_hand)
    available = Condition(apiresource.AVAILABLE, published.status, published.reason, published.message)
    is_published = published.status == "True"
    imports = {each.name: [_compatible(each, agreement, is_published, by_hand), available] for each in offers}
    enforced = Condition(apiresource.ENFORCED, "False", "Negotiated")
    if by_hand:
        enforced = Condition(apiresource.ENFORCED, "True", "ManualDefinition", BY_HAND)
    return Told([_submitted(negotiated, served, by_hand), published, enforced], imports)


def is_manual(definition: Object | None) -> bool:
    """Whether another component made the CRD: it is never written."""
    return definition is not None and FROM_IMPORTS not in (definition["metadata"].get("annotations") or {})


def is_withdrawable(negotiated: Object, imports: Sequence[Object]) -> bool:
    """Whether negotiation created it from imports that no longer exist."""
    return not imports and FROM_IMPORTS in (negotiated["metadata"].get("annotations") or {})


def _compatible(offer: Offered, agreement: Agreement, published: bool, by_hand: bool) -> Condition:
    problems = agreement.problems.get(offer.name)
    if problems is None:
        return SCHEMA_UNKNOWN
    if not problems:
        return Condition(apiresource.COMPATIBLE, "True", "Compatible")
    said = "; ".join(problem[:LONGEST] for problem in problems[:MOST_PROBLEMS])
    if len(problems) > MOST_PROBLEMS:
        said += f"; and {len(problems) - MOST_PROBLEMS} more"
    if by_hand:
        said += f" ({BY_HAND})"
    elif not may_update(offer.spec, published):
        said += f" (schemaUpdateStrategy is {offer.spec.get('schemaUpdateStrategy') or apiresource.NEVER})"
    return Condition(apiresource.COMPATIBLE, "False", "IncompatibleSchema", said)


def _submitted(negotiated: Object, served: Served, by_hand: bool) -> Condition:
    if served.refused:
        return Condition(apiresource.SUBMITTED, "False", apiresource.REFUSED, served.refused)
    if not negotiated["spec"].get("publish") and not by_hand:
        return Condition(apiresource.SUBMITTED, "False", apiresource.NOT_ASKED, "spec.publish is false")
    return Condition(apiresource.SUBMITTED, "True", "Submitted")


def _published(negotiated: Object, served: Served, by_hand: bool) -> Condition:
    asked, group = negotiated["spec"].get("publish"), negotiated["spec"]["groupVersion"].get("group", "")
    if served.listed and served.objects:
        said = "it is withdrawn when no object of it is left"
        return Condition(apiresource.PUBLISHED, "True", "ObjectsRemain", said)
    if served.listed and (asked or by_hand):
        return Condition(apiresource.PUBLISHED, "True", "Served")
    if not asked and not by_hand:
        return Condition(apiresource.PUBLISHED, "False", apiresource.NOT_ASKED, "spec.publish is false")
    if served.refused:
        return Condition(apiresource.PUBLISHED, "False", apiresource.REFUSED, served.refused)
    if not served.by_itself and not group:
        said = "the core group can have no CRD, and Kubernetes knows no such kind"
        return Condition(apiresource.PUBLISHED, "False", apiresource.CANNOT_BE_SERVED, said)
    wrong = get_condition(served.definition or {}, "NamesAccepted") or {}
    if wrong.get("status") == "False":
        return Condition(apiresource.PUBLISHED, "False", apiresource.REFUSED, str(wrong.get("message", "")))
    return Condition(apiresource.PUBLISHED, "False", "NotServedYet", "the hub does not list it yet")
