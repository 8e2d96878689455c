"""Label and field selectors: parsing, matching and canonical text.

Selectors are immutable. Parsed ones are cached by their text. Callers decide what a field selector's path means for a
kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from shoal.objects.errors import BadRequest, format_value
from shoal.objects.names import is_qualified_name, is_valid_label_value

_INT64 = range(-(2**63), 2**63)
_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """`operator` is one of `= == != in notin exists ! > <`; `values` are sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    _value_set: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_value_set", frozenset(self.values))

    @property
    def is_equality(self) -> bool:
        return len(self.values) == 1 and self.operator in ("=", "==", "in")

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self._value_set
            case "!=" | "notin":
                return value is None or value not in self._value_set
            case "exists":
                return self.key in labels
            case "!":
                return self.key not in labels
        number, limit = _parse_int64(value), _parse_int64(self.values[0])
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

    __slots__ = ("_equality_pairs", "_other_requirements", "requirements", "selects_nothing")

    def __init__(self, requirements: Sequence[LabelRequirement] = (), *, selects_nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.selects_nothing = selects_nothing
        self._equality_pairs = tuple((r.key, r.values[0]) for r in self.requirements if r.is_equality)
        self._other_requirements = tuple(r for r in self.requirements if not r.is_equality)

    @property
    def is_empty(self) -> bool:
        return not self.requirements and not self.selects_nothing

    def __bool__(self) -> bool:
        return not self.is_empty

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.selects_nothing:
            return False
        if labels is None:
            labels = {}
        for key, value in self._equality_pairs:
            if labels.get(key) != value:
                return False
        for requirement in self._other_requirements:  # noqa: SIM110 (twice as fast as all(), and called per object)
            if not requirement.matches(labels):
                return False
        return True

    def equality_pairs(self) -> tuple[tuple[str, str], ...]:
        """Returns the `key=value` pairs every match has, which an index can look up."""
        return self._equality_pairs

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "LabelSelector(nothing=True)" if self.selects_nothing else f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSelector):
            return NotImplemented
        return self.requirements == other.requirements and self.selects_nothing == other.selects_nothing

    def __hash__(self) -> int:
        return hash((self.requirements, self.selects_nothing))


SELECT_EVERYTHING = LabelSelector()
SELECT_NOTHING = LabelSelector(selects_nothing=True)


def parse_label_selector(text: str) -> LabelSelector:
    """Parses a `labelSelector` query parameter. Long ones are not kept: their text is the client's."""
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_label_selector(text)


def _parse_label_selector(text: str) -> LabelSelector:
    try:
        return LabelSelector(_LabelSelectorParser(text).parse())
    except ValueError as error:
        raise BadRequest(str(error)) from None


MAX_REQUIREMENTS = 4096
"""Of a selector. More take the server longer than one request may take of its event loop."""
_TOO_MANY_ERROR = f"more than {MAX_REQUIREMENTS} requirements; select by fewer labels"
_MAX_CACHED_LENGTH = 1024
_parse_cached = lru_cache(maxsize=1024)(_parse_label_selector)


def label_selector_size(selector: Mapping[str, Any]) -> int:
    """Returns the number of requirements of a `metav1.LabelSelector` and of their values."""
    expressions = selector.get("matchExpressions") or ()
    return len(selector.get("matchLabels") or ()) + sum(1 + len(each.get("values") or ()) for each in expressions)


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Converts a `metav1.LabelSelector` object: absent selects nothing, empty selects everything."""
    if selector is None:
        return SELECT_NOTHING
    try:
        if label_selector_size(selector) > MAX_REQUIREMENTS:
            raise ValueError(_TOO_MANY_ERROR)
        requirements = [
            _new_requirement(key, "=", [value]) for key, value in (selector.get("matchLabels") or {}).items()
        ]
        for expression in selector.get("matchExpressions") or ():
            operator = _OPERATORS.get(expression.get("operator"))
            if operator is None:
                raise ValueError(
                    f"{format_value(expression.get('operator') or '')} is not a valid label selector operator"
                )
            requirements.append(_new_requirement(expression.get("key", ""), operator, expression.get("values") or []))
    except ValueError as error:
        raise BadRequest(str(error)) from None
    except (AttributeError, TypeError):
        raise BadRequest(f"invalid label selector: {format_value(selector)}") from None
    return LabelSelector(requirements)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def _new_requirement(key: str, operator: str, values: Sequence[str]) -> LabelRequirement:
    errors = []
    if messages := is_qualified_name(key):
        errors.append(f"key: Invalid value: {format_value(key)}: {'; '.join(messages)}")
    if operator in ("in", "notin") and not values:
        errors.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("exists", "!") and values:
        errors.append(
            f"values: Invalid value: {format_value(list(values))}: values set must "
            "be empty for exists and does not exist"
        )
    elif operator in (">", "<") and _parse_int64(values[0]) is None:
        errors.append(
            f"values[0]: Invalid value: {format_value(values[0])}: for 'Gt', 'Lt' "
            "operators, the value must be an integer"
        )
    for i, value in enumerate(values):
        if messages := is_valid_label_value(value):
            errors.append(f"values[{i}][{key}]: Invalid value: {format_value(value)}: {'; '.join(messages)}")
    if errors:
        raise ValueError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return LabelRequirement(key, operator, tuple(sorted(values)))


def _parse_int64(text: str | None) -> int | None:
    if text is None or not _integer(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


_CLOSING = "')' "
_SPECIAL = frozenset({"=", "==", "!=", "!", "(", ")", ",", ">", "<"})
_find_tokens = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+").findall


class _LabelSelectorParser:
    """Recursive descent over `key`, `!key`, `key op value`, `key in (a,b)`, joined by commas. The token `""` marks the
    end.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_find_tokens(text), ""]
        self._position = 0

    def parse(self) -> list[LabelRequirement]:
        requirements: list[LabelRequirement] = []
        if self._peek() == "":
            return requirements
        if not self._starts_requirement():
            raise ValueError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                requirements.append(self._parse_requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            if len(requirements) > MAX_REQUIREMENTS:
                raise ValueError(_TOO_MANY_ERROR)
            after = self._next()
            if after == "":
                return requirements
            if after != ",":
                raise ValueError(f"found '{after}', expected: ',' or 'end of string'")
            if not self._starts_requirement():
                raise ValueError(f"found '{self._peek()}', expected: identifier after ','")

    def _parse_requirement(self) -> LabelRequirement:
        is_absent = self._peek() == "!"
        if is_absent:
            self._next()
        key = self._identifier()
        if messages := is_qualified_name(key):
            raise ValueError(f"<nil>: Invalid value: {format_value(key)}: {'; '.join(messages)}")
        if is_absent:
            return _new_requirement(key, "!", ())
        if self._peek() in ("", ","):
            return _new_requirement(key, "exists", ())
        operator = self._next()
        if operator in ("in", "notin"):
            return _new_requirement(key, operator, sorted(self._value_set()))
        if operator in ("=", "==", "!=", ">", "<"):
            value = "" if self._peek() in ("", ",") else self._identifier()
            return _new_requirement(key, operator, (value,))
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
        return self._tokens[self._position]

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position += token != ""
        return token


# --- field selectors ---


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms are `(path, "=" or "!=", value)`, all of which must hold. An absent field counts as empty."""

    terms: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(path, "") == value) is (op == "=") for path, op, value in self.terms)

    def exact_value(self, path: str) -> str | None:
        """Returns the one value the field must have, if the selector fixes it."""
        return next((value for field, op, value in self.terms if field == path and op == "="), None)

    def __str__(self) -> str:
        return ",".join(path + op + _escape(value) for path, op, value in self.terms)


def parse_field_selector(text: str) -> FieldSelector:
    """Parses a `fieldSelector` query parameter. Long ones are not kept."""
    return _parse_fields_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_field_selector(text)


def _parse_field_selector(text: str) -> FieldSelector:
    terms = []
    for part in sorted(_term_texts(text)):
        split = _operator(part)
        if split is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        path, value = part[: split.start()], _unescape(part[split.end() :])
        if path or value:
            terms.append((path, "!=" if split.group() == "!=" else "=", value))
    return FieldSelector(tuple(terms))


_parse_fields_cached = lru_cache(maxsize=1024)(_parse_field_selector)


_operator = re.compile("!=|==|=").search
_term_texts = re.compile(r"(?:[^,\\]|\\.?+)+", re.DOTALL).findall
_replace_special = re.compile(r"\\.?|[,=]", re.DOTALL).sub


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

    return _replace_special(plain, value)
