"""Requirements on node labels: per key a set of values or its complement, within bounds. Pure.

Requirements of a pod, NodePool, instance type and offering intersect in the nodes that satisfy all of them. They
describe nodes that do not exist yet; `from_labels` describes an existing one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
GT, LT, GTE, LTE = "Gt", "Lt", "Gte", "Lte"

_integer = re.compile(r"[+-]?[0-9]{1,19}").fullmatch
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Requirement:
    """`values`, or with `complement` everything but them. `gte` and `lte` bound the value to integers. `allows_absent`:
    a node without the label also satisfies it, as with NotIn and DoesNotExist. `min_values` is how many different
    values must stay possible; it is carried here, not checked. Without arguments nothing satisfies it.
    """

    key: str
    complement: bool = False
    values: frozenset[str] = _NONE
    allows_absent: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @property
    def operator(self) -> str:
        """The operator that describes it best. An impossible requirement is In without values."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return DOES_NOT_EXIST if self.allows_absent else IN

    @property
    def is_impossible(self) -> bool:
        return not self.allows_absent and not self.values and not self.complement

    def has(self, value: str) -> bool:
        return (value in self.values) != self.complement and self._is_within_bounds(value)

    def intersection(self, other: Requirement) -> Requirement:
        """`other` has the same key."""
        absent = self.allows_absent and other.allows_absent
        gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
        min_values = _highest(self.min_values, other.min_values)
        if self.complement and other.complement:
            values = self.values | other.values
            if _is_exhausted(gte, lte, values):
                return Requirement(self.key, allows_absent=absent, min_values=min_values)
            return Requirement(self.key, True, values, absent, gte, lte, min_values)
        finite, other_side = (other, self) if self.complement else (self, other)
        values = frozenset(value for value in finite.values if other_side.has(value))
        return Requirement(self.key, False, values, absent, min_values=min_values)

    def has_intersection(self, other: Requirement) -> bool:
        """Returns whether some value satisfies both. Cheaper than `intersection`."""
        if self.allows_absent and other.allows_absent:
            return True
        if self.complement and other.complement:
            gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
            return not _is_exhausted(gte, lte, self.values | other.values)
        finite, other_side = (other, self) if self.complement else (self, other)
        return any(other_side.has(value) for value in finite.values)

    def any_value(self) -> str:
        """Returns one satisfying value, deterministically; empty if there is none to name."""
        if not self.complement:
            return min(self.values, default="")
        if self.gte is None and self.lte is None:
            return ""
        start, step = (self.gte, 1) if self.gte is not None else (self.lte or 0, -1)
        numbers = range(start, start + step * (len(self.values) + 1), step)
        return next((str(number) for number in numbers if self.has(str(number))), "")

    def to_expressions(self) -> list[Object]:
        """Returns expressions for a NodeSelectorTerm or NodeClaim, as many as needed."""
        expressions: list[tuple[str, list[str]]] = []
        if self.gte is not None:
            expressions.append((GT, [str(self.gte - 1)]))
        if self.lte is not None:
            expressions.append((LT, [str(self.lte + 1)]))
        if self.values or not self.complement:
            expressions.append((self.operator, sorted(self.values)))
        if not self.allows_absent and self.complement and self.gte is None and self.lte is None:
            expressions.append((EXISTS, []))
        min_values = {} if self.min_values is None else {"minValues": self.min_values}
        return [
            {"key": self.key, "operator": operator, **({"values": values} if values else {}), **min_values}
            for operator, values in expressions
        ]

    def _is_within_bounds(self, value: str) -> bool:
        if self.gte is None and self.lte is None:
            return True
        if not _integer(value):
            return False
        number = int(value)
        return (self.gte is None or number >= self.gte) and (self.lte is None or number <= self.lte)

    def __str__(self) -> str:
        return f"{self.key} {self.describe()}"

    def describe(self) -> str:
        """Text without the key."""
        text = self.operator
        text += f" [{', '.join(sorted(self.values))}]" if self.values or self.is_impossible else ""
        text += f" >={self.gte}" if self.gte is not None else ""
        return text + (f" <={self.lte}" if self.lte is not None else "")


def new_requirement(key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> Requirement:
    """Raises ValueError for an invalid expression."""
    value_list = list(values)
    if operator in (IN, NOT_IN):
        is_negative = operator == NOT_IN
        return Requirement(key, is_negative, frozenset(value_list), is_negative, min_values=min_values)
    if operator in (EXISTS, DOES_NOT_EXIST):
        return Requirement(key, operator == EXISTS, allows_absent=operator == DOES_NOT_EXIST, min_values=min_values)
    if operator not in (GT, LT, GTE, LTE):
        raise ValueError(f"{operator!r} is no operator of a requirement")
    if len(value_list) != 1 or not _integer(value_list[0]):
        raise ValueError(f"operator {operator} wants one whole number, not {value_list}")
    bound = int(value_list[0])
    if operator in (GT, GTE):
        return Requirement(key, True, gte=bound + (operator == GT), min_values=min_values)
    return Requirement(key, True, lte=bound - (operator == LT), min_values=min_values)


class Requirements(Mapping[str, Requirement]):
    """One requirement per key; other keys may have any value. Immutable: `add` returns a new object."""

    __slots__ = ("_by_key",)

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self._by_key: dict[str, Requirement] = {}
        for each in requirements:
            old = self._by_key.get(each.key)
            self._by_key[each.key] = each if old is None else old.intersection(each)

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def requirement_for(self, key: str) -> Requirement:
        """Returns the requirement of the key; by default any value or none."""
        return self._by_key.get(key) or Requirement(key, True, allows_absent=True)

    def add(self, more: Iterable[Requirement]) -> Requirements:
        """Returns the conjunction; requirements of the same key intersect."""
        return Requirements([*self._by_key.values(), *more])

    def union(self, other: Requirements) -> Requirements:
        return self.add(other.values())

    def without(self, *keys: str) -> Requirements:
        return Requirements(each for key, each in self._by_key.items() if key not in keys)

    def intersects(self, other: Requirements) -> bool:
        """Returns whether every shared key has a value (or absence) that satisfies both."""
        return next(self._disjoint_pairs(other), None) is None

    def is_compatible(self, incoming: Requirements, allow_undefined: frozenset[str] = _NONE) -> bool:
        """Like `intersects`; in addition every incoming key must be defined here, except those of `allow_undefined`.

        Undefined labels will not be on the node; well-known ones (`allow_undefined`) will, with some value.
        """
        return not self.conflicts(incoming, allow_undefined)

    def conflicts(self, incoming: Requirements, allow_undefined: frozenset[str] = _NONE) -> list[str]:
        """Returns the reasons for incompatibility."""
        undefined_errors = [
            f'label "{key}" does not have known values'
            for key, each in incoming.items()
            if not each.allows_absent and key not in self._by_key and (key not in allow_undefined or each.is_impossible)
        ]
        return undefined_errors or [
            f"key {own.key}, {others.describe()} not in {own.describe()}"
            for own, others in self._disjoint_pairs(incoming)
        ]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether a node with these labels satisfies all requirements."""
        return all(each.has(labels[key]) if key in labels else each.allows_absent for key, each in self._by_key.items())

    def labels(self) -> dict[str, str]:
        """Returns the labels that are certain: keys with a single possible value."""
        single = (
            each
            for each in self._by_key.values()
            if len(each.values) == 1 and not (each.complement or each.allows_absent)
        )
        return {each.key: each.any_value() for each in single}

    def to_expressions(self) -> list[Object]:
        return [expression for key in sorted(self._by_key) for expression in self._by_key[key].to_expressions()]

    def _disjoint_pairs(self, other: Requirements) -> Iterator[tuple[Requirement, Requirement]]:
        smaller, larger = (self, other) if len(self) < len(other) else (other, self)
        for key in smaller:
            if key not in larger:
                continue
            own, others = self._by_key[key], other[key]
            if not own.has_intersection(others):
                yield own, others

    def __hash__(self) -> int:
        return hash(frozenset(self._by_key.values()))

    def __str__(self) -> str:
        return ", ".join(str(self._by_key[key]) for key in sorted(self._by_key))


def from_labels(labels: Mapping[str, str] | None) -> Requirements:
    return Requirements(Requirement(key, False, frozenset((value,))) for key, value in (labels or {}).items())


def from_expressions(expressions: Iterable[Object] | None) -> Requirements:
    """Parses matchExpressions, or the `requirements` of a NodePool or NodeClaim (with `minValues`)."""
    return Requirements(
        new_requirement(each["key"], each.get("operator", IN), each.get("values") or (), each.get("minValues"))
        for each in expressions or ()
    )


def from_pod(spec: Object, term: int = 0) -> Requirements:
    """Returns the requirements of a pod: its nodeSelector and one term of its required node affinity."""
    terms = required_terms(spec)
    result = from_labels(spec.get("nodeSelector"))
    return result.union(from_expressions(terms[term].get("matchExpressions"))) if terms else result


def required_terms(spec: Object) -> list[Object]:
    """Returns the ORed terms of required node affinity; empty if any node will do."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    return [term for term in terms if term]


def _is_exhausted(gte: int | None, lte: int | None, excluded: frozenset[str]) -> bool:
    """Returns whether all integers between the bounds are excluded."""
    if gte is None or lte is None or lte - gte >= len(excluded):
        return False
    return all(str(number) in excluded for number in range(gte, lte + 1))


def _highest(one: int | None, other: int | None) -> int | None:
    return max((bound for bound in (one, other) if bound is not None), default=None)


def _lowest(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)
