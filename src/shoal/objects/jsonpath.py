r"""The JSONPath of kubectl, as far as CRD printer columns and scale paths use it.

`.a.b`, `['a.b']`, `.a\.b`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..a` and `[?(@.type=="Ready")]`. A path is
compiled once into a function from an object to the list of what it finds; missing things are not found. A search
visits a limited number of values.
Simple dotted paths can also be read and written.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any

VISITS = 20_000
"""Values that a search may visit unless its caller says otherwise: about 10 ms."""

_field = re.compile(r"\.((?:\\.|[^\s.,\[\]$@{}\\])+)").match
_recursive = re.compile(r"\.\.(?=[\[*\w])").match
_quoted_key = re.compile(r"""\[\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\s*\]""").match
_slice = re.compile(r"\[\s*+(-?\d{1,9})?\s*+(?:(:)\s*+(-?\d{1,9})?\s*+)?(?::\s*+(\d{1,9})\s*+)?\]").match
_wildcard = re.compile(r"\[\s*\*\s*\]|\.\*").match
_filter = re.compile(r"""\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"')])*)\)\]""").match
_operator = re.compile("[!=<>]=|[<>=!]").search
_unescape = re.compile(r"\\(.)").sub

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathBudget:
    """Values that searches may still visit. `..` visits a value once for each way to it, so a path in an object can
    find more than any number of values.
    """

    __slots__ = ("visits",)

    def __init__(self, visits: int = VISITS) -> None:
        self.visits = visits

    def spend(self, visits: int) -> None:
        self.visits -= visits
        if self.visits < 0:
            raise _BudgetSpent


class _BudgetSpent(Exception):
    pass


PathStep = Callable[[Any, PathBudget], Iterable[Any]]
PathFinder = Callable[..., list[Any]]


@lru_cache(maxsize=1024)
def compile_path(path: str) -> PathFinder:
    """Returns `find(obj, limit=None, budget=None)`, which lists the first matches of a path.

    A search that spends the budget finds nothing. Raises ValueError for an invalid path.
    """
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    search = _parse_search(text, path)

    def find(obj: Any, limit: int | None = None, budget: PathBudget | None = None) -> list[Any]:
        try:
            return search(obj, limit, budget or PathBudget())
        except _BudgetSpent:
            return []

    return find


def _parse_search(text: str, path: str) -> Callable[[Any, int | None, PathBudget], list[Any]]:
    steps = _parse_steps(text, path)
    # Most paths are names of fields, or begin with some.
    keys = tuple(takewhile(lambda step: isinstance(step, str), steps))
    others = tuple(_field_step(step) if isinstance(step, str) else step for step in steps[len(keys) :])

    def search(obj: Any, limit: int | None, budget: PathBudget) -> list[Any]:
        budget.visits -= 1
        for key in keys:
            if not isinstance(obj, dict) or key not in obj:
                return []
            obj = obj[key]
        return list(islice(_walk(obj, others, budget), limit)) if others else [obj]

    return search


def _walk(obj: Any, steps: tuple[PathStep, ...], budget: PathBudget) -> Iterator[Any]:
    """Yields matches in document order, depth first."""
    found: list[Iterator[Any]] = [iter((obj,))]
    while found:
        for item in found[-1]:
            budget.spend(1)
            if len(found) <= len(steps):
                found.append(iter(steps[len(found) - 1](item, budget)))
                break
            yield item
        else:
            found.pop()


def _parse_steps(text: str, path: str) -> list[str | PathStep]:
    """A step that is a string is the name of a field."""
    at = 1 if text[:1] in ("$", "@") else 0
    steps: list[str | PathStep] = []
    while at < len(text):
        step, at = _parse_step(text, at, path)
        steps.append(step)
    return steps


def _parse_step(text: str, at: int, path: str) -> tuple[str | PathStep, int]:
    if match := _recursive(text, at):
        # The next step starts at the second dot or the bracket.
        return _all_descendants, match.end() if text[match.end()] == "[" else match.end() - 1
    if match := _wildcard(text, at):
        return _all_members, match.end()
    if match := _field(text, at):
        return _unescape(r"\1", match.group(1)), match.end()
    if match := _quoted_key(text, at):
        key = match.group(1) if match.group(1) is not None else match.group(2)
        return _unescape(r"\1", key), match.end()
    if match := _filter(text, at):
        return _filter_step(match.group(1), path), match.end()
    if text.startswith("[?(", at):
        raise ValueError(f"unterminated filter in {path!r}")
    if (match := _slice(text, at)) and match.group().strip("[] "):
        return _slice_step(match), match.end()
    if text[at] == "[":
        end = text.find("]", at)
        if end < 0:
            raise ValueError(f"unterminated array in {path!r}")
        raise ValueError(f"invalid array index {text[at + 1 : end]} in {path!r}")
    raise ValueError(f"unrecognized character {text[at]!r} at {at} in {path!r}")


def _field_step(key: str) -> PathStep:
    return lambda item, _: (item[key],) if isinstance(item, dict) and key in item else ()


def _all_members(item: Any, _: PathBudget) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def _all_descendants(item: Any, budget: PathBudget) -> Iterator[Any]:
    """Yields every container below and including the given one, in document order."""
    pending = [item] if isinstance(item, dict | list) else []
    while pending:
        item = pending.pop()
        yield item
        budget.spend(len(item))
        children = [child for child in _all_members(item, budget) if isinstance(child, dict | list)]
        pending += reversed(children)


def _slice_step(match: re.Match[str]) -> PathStep:
    start, colon, stop, step = match.groups()
    if not colon and not step:
        index = int(start)
        return lambda item, _: (item[index],) if isinstance(item, list) and -len(item) <= index < len(item) else ()
    if step and not int(step):
        raise ValueError("step must be > 0")
    part = slice(int(start or 0), int(stop) if stop else None, int(step or 1))

    def select(item: Any, _: PathBudget) -> Iterable[Any]:
        return (item[index] for index in range(*part.indices(len(item)))) if isinstance(item, list) else ()

    return select


def _filter_step(expression: str, path: str) -> PathStep:
    comparison = _operator(expression)
    if not comparison or not comparison.start() or comparison.group() not in _COMPARISONS:
        present = _parse_operand(expression.strip(), path)
        return _filter_of(lambda one, budget: bool(present(one, budget)))
    left = _parse_operand(expression[: comparison.start()].strip(), path)
    right = _parse_operand(expression[comparison.end() :].strip(), path)
    compare = _COMPARISONS[comparison.group()]

    def passes(item: Any, budget: PathBudget) -> bool:
        ours, theirs = left(item, budget), right(item, budget)
        if len(ours) != 1 or len(theirs) != 1:
            return False
        try:
            return compare(ours[0], theirs[0])
        except TypeError:
            return False

    return _filter_of(passes)


def _filter_of(passes: Callable[[Any, PathBudget], bool]) -> PathStep:
    def select(item: Any, budget: PathBudget) -> Iterator[Any]:
        for one in item if isinstance(item, list) else ():
            budget.spend(1)
            if passes(one, budget):
                yield one

    return select


def _parse_operand(text: str, path: str) -> Callable[[Any, PathBudget], list[Any]]:
    """Parses one side of a comparison: a path relative to the item, or a literal. It finds at most two values."""
    if text[:1] in ("@", "$", "."):
        search = _parse_search(text, path)
        return lambda item, budget: search(item, 2, budget)
    literal = _parse_literal(text, path)
    return lambda item, budget: [literal]


def _parse_literal(text: str, path: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return _unescape(r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    raise ValueError(f"unrecognized identifier {text} in {path!r}")


# --- simple dotted paths ---


def get_path(obj: Any, path: str, default: Any = None) -> Any:
    """Returns the value at `.spec.replicas`, or the default if a parent is missing."""
    for key in split_path(path):
        if not isinstance(obj, dict) or key not in obj:
            return default
        obj = obj[key]
    return obj


def set_path(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Returns a copy of the object with the value at `.spec.replicas`, creating missing parents. The original is not
    changed.
    """
    root = here = dict(obj)
    *way, last = split_path(path)
    for key in way:
        below = here.get(key)
        here[key] = below = dict(below) if isinstance(below, dict) else {}
        here = below
    here[last] = value
    return root


@lru_cache(maxsize=1024)
def split_path(path: str) -> tuple[str, ...]:
    r"""The keys of a simple dotted path; a dot inside a key is written `\.`. As upstream, anything between two dots is
    a key, which perhaps no object has.
    """
    text = path if path.startswith(".") else f".{path}"
    keys, at = [], 0
    while at < len(text):
        match = _field(text, at)
        if not match:
            return tuple(text[1:].split("."))
        keys.append(_unescape(r"\1", match.group(1)))
        at = match.end()
    return tuple(keys)
