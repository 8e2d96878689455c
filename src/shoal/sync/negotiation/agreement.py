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

from shoal.kinds.apiresource import ALWAYS, COMMON, UNPUBLISHED, api_of, is_known
from shoal.kinds.apischema import digest_of
from shoal.sync.negotiation.compat import Common, common

Object = dict[str, Any]
Compare = Callable[[Object, Object], Common]
"""Compares two specs of one API. The result may be cached by their digests."""

FIXED = ("scope", "kind")
SHORTER = ("shortNames", "categories", "columnDefinitions")
"""Lists for people: the intersection is kept."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One import. Its spec includes the schema, wherever that is stored; without one it is not known yet."""

    name: str
    spec: Object

    @property
    def known(self) -> bool:
        return "openAPIV3Schema" in self.spec


@dataclass(frozen=True, slots=True)
class Agreement:
    spec: Object | None
    """The new negotiated spec, in the fields it shares with imports; None: there is none."""
    problems: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By import whose schema is known; empty: it is compatible."""


def by_schema(existing: Object, new: Object) -> Common:
    """An invalid schema is a conflict of the import that has it and does not stop the others."""
    schema = existing.get("openAPIV3Schema") or {}
    try:
        return common(schema, new["openAPIV3Schema"], builtin=is_known(api_of({"spec": new})))
    except (TypeError, AttributeError, KeyError, ValueError, RecursionError):
        return Common(schema, conflicts=("the schema cannot be read",))


def agree(
    current: Object | None, published: bool, offers: Sequence[Offered], compare: Compare = by_schema
) -> Agreement:
    """`offers` are sorted oldest first."""
    known = [offer for offer in offers if offer.known]
    fits, others = [], known
    if current is not None:
        told = {offer.name: _compared(current, offer.spec, compare) for offer in known}
        fits = [offer for offer in known if not any(told[offer.name][1:])]
        others = [offer for offer in known if any(told[offer.name][1:])]
    # An import with an unknown schema may be the reason for the current narrow spec.
    agreed = current if len(known) < len(offers) else None
    problems: dict[str, tuple[str, ...]] = {}
    for offer in fits:
        agreed = _taken(offer.spec) if agreed is None else _compared(agreed, offer.spec, compare)[0]
        problems[offer.name] = ()
    for offer in others:
        against = agreed if agreed is not None else current
        spec, narrowed, conflicts = (
            _compared(against, offer.spec, compare) if against is not None else (_taken(offer.spec), (), ())
        )
        allowed = may_update(offer.spec, published)
        if agreed is None and allowed and not (conflicts and published):
            agreed, problems[offer.name] = _taken(offer.spec), ()  # no other import is compatible
        elif conflicts or (narrowed and not allowed):
            problems[offer.name] = (*conflicts, *narrowed)
        else:
            agreed, problems[offer.name] = spec, ()
    return Agreement(agreed if agreed is not None else current, problems)


def enforced(spec: Object, offers: Sequence[Offered], compare: Compare = by_schema) -> Agreement:
    """A manual CRD decides: `spec` is its definition, and imports are only checked against it."""
    problems = {}
    for offer in offers:
        if offer.known:
            _, narrowed, conflicts = _compared(spec, offer.spec, compare)
            problems[offer.name] = (*conflicts, *narrowed)
    return Agreement(spec, problems)


def may_update(spec: Object, published: bool) -> bool:
    strategy = spec.get("schemaUpdateStrategy")
    return strategy == ALWAYS or (strategy == UNPUBLISHED and not published)


def _taken(spec: Object) -> Object:
    taken = {key: spec[key] for key in COMMON if key in spec}
    return {**taken, "schemaDigest": digest_of(spec["openAPIV3Schema"])}


def _compared(agreed: Object, offer: Object, compare: Compare) -> tuple[Object, tuple[str, ...], tuple[str, ...]]:
    """The common part; where the first had more; where they conflict."""
    conflicts = [f"{key} is {offer[key]}, not {agreed[key]}" for key in FIXED if offer[key] != agreed[key]]
    found = compare(agreed, offer)
    has = offer.get("subResources") or []
    missing = [sub for sub in agreed.get("subResources") or () if sub not in has]
    narrowed = [*found.narrowed, *(_without(sub, has) for sub in missing)]
    spec = {key: agreed[key] for key in COMMON if key in agreed}
    if found.schema is not agreed.get("openAPIV3Schema"):
        spec |= {"openAPIV3Schema": found.schema, "schemaDigest": digest_of(found.schema)}
    if missing:
        spec["subResources"] = [sub for sub in agreed["subResources"] if sub in has]
    for key in SHORTER:
        given = offer.get(key) or ()
        if any(each not in given for each in agreed.get(key) or ()):
            spec[key] = [each for each in agreed[key] if each in given]
    return spec, tuple(narrowed), (*conflicts, *found.conflicts)


def _without(sub: Object, has: Sequence[Object]) -> str:
    other = any(one["name"] == sub["name"] for one in has)
    return f"the subresource {sub['name']} {'has other paths' if other else 'is not there'}"
