r"""The JSONPath of kubectl, as far as CRD printer columns and scale paths use it.

`.a.b`, `['a.b']`, `.a\.b`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..a` and `[?(@.type=="Ready")]`. A path is
compiled once into a function from an object to the list of what it finds; missing things are not found.
Simple dotted paths can also be read and written.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Matches = list[Any]
PathStep = Callable[[Matches], Matches]

_field = re.compile(r"\.((?:\\.|[^\s.,\[\]$@{}\\])+)").match
_recursive = re.compile(r"\.\.(?=[\[*\w])").match
_quoted_key = re.compile(r"""\[\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\s*\]""").match
_slice = re.compile(r"\[\s*(-?\d{1,9})?\s*(?:(:)\s*(-?\d{1,9})?\s*)?(?::\s*(\d{1,9})\s*)?\]").match
_wildcard = re.compile(r"\[\s*\*\s*\]|\.\*").match
_filter = re.compile(r"""\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"')])*)\)\]""").match
_comparison = re.compile(r"\s*([^!<>=]+?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*").fullmatch

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """Returns the finder of a path. Raises ValueError for an invalid path."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    steps = _parse_steps(text, path)

    def find(obj: Any) -> list[Any]:
        matches = [obj]
        for step in steps:
            matches = step(matches)
            if not matches:
                break
        return matches

    return find


def _parse_steps(text: str, path: str) -> tuple[PathStep, ...]:
    at = 1 if text[:1] in ("$", "@") else 0
    steps: list[PathStep] = []
    while at < len(text):
        step, at = _parse_step(text, at, path)
        steps.append(step)
    return tuple(steps)


def _parse_step(text: str, at: int, path: str) -> tuple[PathStep, int]:
    if match := _recursive(text, at):
        # The next step starts at the second dot or the bracket.
        return _all_descendants, match.end() if text[match.end()] == "[" else match.end() - 1
    if match := _wildcard(text, at):
        return _all_members, match.end()
    if match := _field(text, at):
        return _field_step(re.sub(r"\\(.)", r"\1", match.group(1))), match.end()
    if match := _quoted_key(text, at):
        key = match.group(1) if match.group(1) is not None else match.group(2)
        return _field_step(re.sub(r"\\(.)", r"\1", key)), match.end()
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
    return lambda found: [item[key] for item in found if isinstance(item, dict) and key in item]


def _all_members(items: Matches) -> Matches:
    return [member for item in items for member in _children(item)]


def _all_descendants(items: Matches) -> Matches:
    """Returns every container below and including the given ones, in document order."""
    everything: Matches = []
    pending = [item for item in reversed(items) if isinstance(item, dict | list)]
    while pending:
        item = pending.pop()
        everything.append(item)
        pending += [child for child in reversed([*_children(item)]) if isinstance(child, dict | list)]
    return everything


def _children(item: Any) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, list):
        yield from item


def _slice_step(match: re.Match[str]) -> PathStep:
    start, colon, stop, step = match.groups()
    if not colon and not step:
        index = int(start)

        def at(items: Matches) -> Matches:
            return [item[index] for item in items if isinstance(item, list) and -len(item) <= index < len(item)]

        return at
    if step and not int(step):
        raise ValueError("step must be > 0")
    part = slice(int(start or 0), int(stop) if stop else None, int(step or 1))
    return lambda items: [member for item in items if isinstance(item, list) for member in item[part]]


def _filter_step(expression: str, path: str) -> PathStep:
    comparison = _comparison(expression)
    if not comparison:
        present = _parse_operand(expression.strip(), path)
        return lambda items: [one for item in items if isinstance(item, list) for one in item if present(one)]
    left, right = _parse_operand(comparison.group(1), path), _parse_operand(comparison.group(3), path)
    compare = _COMPARISONS[comparison.group(2)]

    def passes(item: Any) -> bool:
        ours, theirs = left(item), right(item)
        if len(ours) != 1 or len(theirs) != 1:
            return False
        try:
            return compare(ours[0], theirs[0])
        except TypeError:
            return False

    return lambda items: [one for item in items if isinstance(item, list) for one in item if passes(one)]


def _parse_operand(text: str, path: str) -> Callable[[Any], Matches]:
    """Parses one side of a comparison: a path relative to the item, or a literal."""
    if text[:1] in ("@", "$", "."):
        steps = _parse_steps(text, path)

        def find(item: Any) -> Matches:
            matches = [item]
            for step in steps:
                matches = step(matches)
            return matches

        return find
    literal = _parse_literal(text, path)
    return lambda item: [literal]


def _parse_literal(text: str, path: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
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
    r"""The keys of a simple dotted path; a dot inside a key is written `\.`. ValueError for any other path."""
    text = path if path.startswith(".") else f".{path}"
    keys, at = [], 0
    while at < len(text):
        match = _field(text, at)
        if not match:
            raise ValueError(f"not a simple path: {path!r}")
        keys.append(re.sub(r"\\(.)", r"\1", match.group(1)))
        at = match.end()
    return tuple(keys)
