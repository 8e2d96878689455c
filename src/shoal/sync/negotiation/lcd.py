"""Negotiates the imports of one API to a lowest common denominator. Pure and stateless: only the current negotiated
spec counts.

An import is compatible if it accepts all that is negotiated. The negotiated spec becomes the common part of all
compatible imports, so it widens again when the narrowest one leaves. An incompatible import narrows it if its update
strategy allows, else its problems are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.apiextensions.openapi_import import schema_digest
from shoal.kinds.workload.apiresource import (
    COMMON_SPEC_FIELDS,
    UPDATE_PUBLISHED,
    UPDATE_UNPUBLISHED,
    gvr_of,
    is_builtin,
)
from shoal.sync.negotiation.schemacompat import LCDSchema, lowest_common

Object = dict[str, Any]
Compare = Callable[[Object, Object], LCDSchema]
"""Compares two specs of one API. The result may be cached by their digests."""

INVARIANT_FIELDS = ("scope", "kind")
INTERSECTED_FIELDS = ("shortNames", "categories", "columnDefinitions")
"""Lists for people: the intersection is kept."""


@dataclass(frozen=True, slots=True)
class OfferedSchema:
    """One import. Its spec includes the schema, wherever that is stored; without one it is not known yet."""

    name: str
    spec: Object

    @property
    def has_schema(self) -> bool:
        return "openAPIV3Schema" in self.spec


@dataclass(frozen=True, slots=True)
class NegotiatedSpec:
    spec: Object | None
    """The new negotiated spec, in the fields it shares with imports; None: there is none."""
    problems: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By import whose schema is known; empty: it is compatible."""


def compare_schemas(existing: Object, new: Object) -> LCDSchema:
    """An invalid schema is a conflict of the import that has it and does not stop the others."""
    schema = existing.get("openAPIV3Schema") or {}
    try:
        return lowest_common(schema, new["openAPIV3Schema"], builtin=is_builtin(gvr_of({"spec": new})))
    except (TypeError, AttributeError, KeyError, ValueError, RecursionError):
        return LCDSchema(schema, conflicts=("cannot decode the schema",))


def negotiate(
    current: Object | None, published: bool, offers: Sequence[OfferedSchema], compare: Compare = compare_schemas
) -> NegotiatedSpec:
    """`offers` are sorted oldest first."""
    with_schema = [offer for offer in offers if offer.has_schema]
    fits, others = [], with_schema
    if current is not None:
        comparisons = {offer.name: _compare_specs(current, offer.spec, compare) for offer in with_schema}
        fits = [offer for offer in with_schema if not any(comparisons[offer.name][1:])]
        others = [offer for offer in with_schema if any(comparisons[offer.name][1:])]
    # An import with an unknown schema may be the reason for the current narrow spec.
    agreed = current if len(with_schema) < len(offers) else None
    problems: dict[str, tuple[str, ...]] = {}
    for offer in fits:
        agreed = _spec_of_offer(offer.spec) if agreed is None else _compare_specs(agreed, offer.spec, compare)[0]
        problems[offer.name] = ()
    for offer in others:
        against = agreed if agreed is not None else current
        spec, narrowed, conflicts = (
            _compare_specs(against, offer.spec, compare)
            if against is not None
            else (_spec_of_offer(offer.spec), (), ())
        )
        allowed = may_update(offer.spec, published)
        if agreed is None and allowed and not (conflicts and published):
            agreed, problems[offer.name] = _spec_of_offer(offer.spec), ()  # no other import is compatible
        elif conflicts or (narrowed and not allowed):
            problems[offer.name] = (*conflicts, *narrowed)
        else:
            agreed, problems[offer.name] = spec, ()
    return NegotiatedSpec(agreed if agreed is not None else current, problems)


def check_against(spec: Object, offers: Sequence[OfferedSchema], compare: Compare = compare_schemas) -> NegotiatedSpec:
    """A manual CRD decides: `spec` is its definition, and imports are only checked against it."""
    problems_by_import = {}
    for offer in offers:
        if offer.has_schema:
            _, narrowed, conflicts = _compare_specs(spec, offer.spec, compare)
            problems_by_import[offer.name] = (*conflicts, *narrowed)
    return NegotiatedSpec(spec, problems_by_import)


def may_update(spec: Object, published: bool) -> bool:
    strategy = spec.get("schemaUpdateStrategy")
    return strategy == UPDATE_PUBLISHED or (strategy == UPDATE_UNPUBLISHED and not published)


def _spec_of_offer(spec: Object) -> Object:
    result = {key: spec[key] for key in COMMON_SPEC_FIELDS if key in spec}
    return {**result, "schemaDigest": schema_digest(spec["openAPIV3Schema"])}


def _compare_specs(agreed: Object, offer: Object, compare: Compare) -> tuple[Object, tuple[str, ...], tuple[str, ...]]:
    """The common part; where the first had more; where they conflict."""
    conflicts = [f"{key} is {offer[key]}, not {agreed[key]}" for key in INVARIANT_FIELDS if offer[key] != agreed[key]]
    comparison = compare(agreed, offer)
    subresources = offer.get("subResources") or []
    missing = [sub for sub in agreed.get("subResources") or () if sub not in subresources]
    narrowed = [*comparison.narrowed, *(_missing_subresource(sub, subresources) for sub in missing)]
    spec = {key: agreed[key] for key in COMMON_SPEC_FIELDS if key in agreed}
    if comparison.schema is not agreed.get("openAPIV3Schema"):
        spec |= {"openAPIV3Schema": comparison.schema, "schemaDigest": schema_digest(comparison.schema)}
    if missing:
        spec["subResources"] = [sub for sub in agreed["subResources"] if sub in subresources]
    for key in INTERSECTED_FIELDS:
        offered_values = offer.get(key) or ()
        if any(each not in offered_values for each in agreed.get(key) or ()):
            spec[key] = [each for each in agreed[key] if each in offered_values]
    return spec, tuple(narrowed), (*conflicts, *comparison.conflicts)


def _missing_subresource(sub: Object, offered_subresources: Sequence[Object]) -> str:
    other = any(one["name"] == sub["name"] for one in offered_subresources)
    return f"the subresource {sub['name']} {'has other paths' if other else 'is missing'}"
