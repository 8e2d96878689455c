"""Label and field selectors: parsing, matching and canonical text.

Selectors are immutable. Parsed ones are cached by their text. Callers decide what a field selector's path means for a
kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shoal.objects.errors import BadRequest, show
from shoal.objects.names import is_qualified_name, is_valid_label_value

_INT64 = range(-(2**63), 2**63)
_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch


@dataclass(frozen=True, slots=True)
class Requirement:
    """`operator` is one of `= == != in notin exists ! > <`; `values` are sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return self.key in labels
            case "!":
                return self.key not in labels
        number, limit = _int64(value), _int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == ">" else number < limit

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


class LabelSelector:
    """All of its requirements must match. `bool()` is False for the selector that selects everything."""

    __slots__ = ("_equal", "_rest", "nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.nothing = nothing
        simple = [r for r in self.requirements if len(r.values) == 1 and r.operator in ("=", "==", "in")]
        self._equal = tuple((r.key, r.values[0]) for r in simple)
        self._rest = tuple(r for r in self.requirements if r not in simple)

    @property
    def empty(self) -> bool:
        return not self.requirements and not self.nothing

    def __bool__(self) -> bool:
        return not self.empty

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        if labels is None:
            labels = {}
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._rest:  # noqa: SIM110 (twice as fast as all(), and called per object)
            if not requirement.matches(labels):
                return False
        return True

    def required(self) -> tuple[tuple[str, str], ...]:
        """Returns the `key=value` pairs every match has, which an index can look up."""
        return self._equal

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "LabelSelector(nothing=True)" if self.nothing else f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSelector):
            return NotImplemented
        return self.requirements == other.requirements and self.nothing == other.nothing

    def __hash__(self) -> int:
        return hash((self.requirements, self.nothing))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """Parses a `labelSelector` query parameter."""
    try:
        return LabelSelector(_Parser(text).parse())
    except ValueError as error:
        raise BadRequest(str(error)) from None


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Converts a `metav1.LabelSelector` object: absent selects nothing, empty selects everything."""
    if selector is None:
        return NOTHING
    try:
        found = [_requirement(key, "=", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
        for expression in selector.get("matchExpressions") or ():
            operator = _OPERATORS.get(expression.get("operator"))
            if operator is None:
                raise ValueError(f"{show(expression.get('operator') or '')} is not a valid label selector operator")
            found.append(_requirement(expression.get("key", ""), operator, expression.get("values") or []))
    except ValueError as error:
        raise BadRequest(str(error)) from None
    except (AttributeError, TypeError):
        raise BadRequest(f"invalid label selector: {show(selector)}") from None
    return LabelSelector(found)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def _requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    wrong = []
    if said := is_qualified_name(key):
        wrong.append(f"key: Invalid value: {show(key)}: {'; '.join(said)}")
    if operator in ("in", "notin") and not values:
        wrong.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("exists", "!") and values:
        wrong.append(
            f"values: Invalid value: {show(list(values))}: values set must be empty for exists and does not exist"
        )
    elif operator in (">", "<") and _int64(values[0]) is None:
        wrong.append(
            f"values[0]: Invalid value: {show(values[0])}: for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for i, value in enumerate(values):
        if said := is_valid_label_value(value):
            wrong.append(f"values[{i}][{key}]: Invalid value: {show(value)}: {'; '.join(said)}")
    if wrong:
        raise ValueError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return Requirement(key, operator, tuple(sorted(values)))


def _int64(text: str | None) -> int | None:
    if text is None or not _integer(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


_CLOSING = "')' "
_SPECIAL = frozenset({"=", "==", "!=", "!", "(", ")", ",", ">", "<"})
_tokens = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+").findall


class _Parser:
    """Recursive descent over `key`, `!key`, `key op value`, `key in (a,b)`, joined by commas. The token `""` marks the
    end.
    """

    def __init__(self, text: str) -> None:
        self._left: list[str] = [*_tokens(text), ""]
        self._at = 0

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() == "":
            return found
        if not self._starts_requirement():
            raise ValueError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._one())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            after = self._next()
            if after == "":
                return found
            if after != ",":
                raise ValueError(f"found '{after}', expected: ',' or 'end of string'")
            if not self._starts_requirement():
                raise ValueError(f"found '{self._peek()}', expected: identifier after ','")

    def _one(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._identifier()
        if said := is_qualified_name(key):
            raise ValueError(f"<nil>: Invalid value: {show(key)}: {'; '.join(said)}")
        if absent:
            return _requirement(key, "!", ())
        if self._peek() in ("", ","):
            return _requirement(key, "exists", ())
        operator = self._next()
        if operator in ("in", "notin"):
            return _requirement(key, operator, sorted(self._value_set()))
        if operator in ("=", "==", "!=", ">", "<"):
            value = "" if self._peek() in ("", ",") else self._identifier()
            return _requirement(key, operator, (value,))
        raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _value_set(self) -> set[str]:
        if (opened := self._next()) != "(":
            raise ValueError(f"found '{opened}' expected: '('")
        values: set[str] = set()
        while True:
            token = self._next()
            if token in (",", ")"):
                values.add("")
            elif token in _SPECIAL or token == "":
                raise ValueError(f"found '{token}', expected: ',', {'' if values else _CLOSING}or identifier")
            else:
                values.add(token)
                token = self._next()
                if token not in (",", ")"):
                    raise ValueError(f"found '{token}', expected: ',' or ')'")
            if token == ")":
                return values

    def _identifier(self) -> str:
        token = self._next()
        if token in _SPECIAL or token == "":
            raise ValueError(f"found '{token}', expected: identifier")
        return token

    def _starts_requirement(self) -> bool:
        token = self._peek()
        return token == "!" or (token != "" and token not in _SPECIAL)

    def _peek(self) -> str:
        return self._left[self._at]

    def _next(self) -> str:
        token = self._left[self._at]
        self._at += token != ""
        return token


# --- field selectors ---


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms are `(path, "=" or "!=", value)`, all of which must hold. An absent field counts as empty."""

    terms: tuple[tuple[str, str, str], ...] = ()

    @property
    def empty(self) -> bool:
        return not self.terms

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(path, "") == value) is (op == "=") for path, op, value in self.terms)

    def exact(self, path: str) -> str | None:
        """Returns the one value the field must have, if the selector fixes it."""
        return next((value for field, op, value in self.terms if field == path and op == "="), None)

    def __str__(self) -> str:
        return ",".join(path + op + _escape(value) for path, op, value in self.terms)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    """Parses a `fieldSelector` query parameter."""
    terms = []
    for part in sorted(_term_texts(text)):
        split = _operator(part)
        if split is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        path, value = part[: split.start()], _unescape(part[split.end() :])
        if path or value:
            terms.append((path, "!=" if split.group() == "!=" else "=", value))
    return FieldSelector(tuple(terms))


_operator = re.compile("!=|==|=").search
_term_texts = re.compile(r"(?:[^,\\]|\\.|\\\Z)+", re.DOTALL).findall
_escaped_or_special = re.compile(r"\\.?|[,=]", re.DOTALL)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(value: str) -> str:
    def plain(found: re.Match[str]) -> str:
        text = found.group()
        if text in (",", "="):
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(text)}")
        if text not in ("\\\\", "\\,", "\\="):
            raise BadRequest(f"invalid field selector: invalid escape sequence: {text}")
        return text[1]

    return _escaped_or_special.sub(plain, value)
