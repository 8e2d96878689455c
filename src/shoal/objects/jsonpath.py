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

Found = list[Any]
Step = Callable[[Found], Found]

_field = re.compile(r"\.((?:\\.|[^\s.,\[\]$@{}\\])+)").match
_recursive = re.compile(r"\.\.(?=[\[*\w])").match
_quoted_key = re.compile(r"""\[\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\s*\]""").match
_slice = re.compile(r"\[\s*(-?\d{1,9})?\s*(?:(:)\s*(-?\d{1,9})?\s*)?(?::\s*(\d{1,9})\s*)?\]").match
_wildcard = re.compile(r"\[\s*\*\s*\]|\.\*").match
_filter = re.compile(r"""\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"')])*)\)\]""").match
_comparison = re.compile(r"\s*([^!<>=]+?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*").fullmatch

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@lru_cache(maxsize=1024)
def compile(path: str) -> Callable[[Any], list[Any]]:  # noqa: A001 (as re.compile)
    """Returns the finder of a path. Raises ValueError for an invalid path."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    steps = _steps(text, path)

    def find(obj: Any) -> list[Any]:
        found = [obj]
        for step in steps:
            found = step(found)
            if not found:
                break
        return found

    return find


def _steps(text: str, path: str) -> tuple[Step, ...]:
    at = 1 if text[:1] in ("$", "@") else 0
    steps: list[Step] = []
    while at < len(text):
        step, at = _step(text, at, path)
        steps.append(step)
    return tuple(steps)


def _step(text: str, at: int, path: str) -> tuple[Step, int]:
    if found := _recursive(text, at):
        # The next step starts at the second dot or the bracket.
        return _descend, found.end() if text[found.end()] == "[" else found.end() - 1
    if found := _wildcard(text, at):
        return _members, found.end()
    if found := _field(text, at):
        return _pick(re.sub(r"\\(.)", r"\1", found.group(1))), found.end()
    if found := _quoted_key(text, at):
        key = found.group(1) if found.group(1) is not None else found.group(2)
        return _pick(re.sub(r"\\(.)", r"\1", key)), found.end()
    if found := _filter(text, at):
        return _filtered(found.group(1), path), found.end()
    if text.startswith("[?(", at):
        raise ValueError(f"unterminated filter in {path!r}")
    if (found := _slice(text, at)) and found.group().strip("[] "):
        return _sliced(found), found.end()
    if text[at] == "[":
        end = text.find("]", at)
        if end < 0:
            raise ValueError(f"unterminated array in {path!r}")
        raise ValueError(f"invalid array index {text[at + 1 : end]} in {path!r}")
    raise ValueError(f"unrecognized character {text[at]!r} at {at} in {path!r}")


def _pick(key: str) -> Step:
    return lambda found: [item[key] for item in found if isinstance(item, dict) and key in item]


def _members(found: Found) -> Found:
    return [member for item in found for member in _children(item)]


def _descend(found: Found) -> Found:
    """Returns every container below and including the given ones, in document order."""
    everything: Found = []
    waiting = [item for item in reversed(found) if isinstance(item, dict | list)]
    while waiting:
        item = waiting.pop()
        everything.append(item)
        waiting += [child for child in reversed([*_children(item)]) if isinstance(child, dict | list)]
    return everything


def _children(item: Any) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, list):
        yield from item


def _sliced(found: re.Match[str]) -> Step:
    start, colon, stop, step = found.groups()
    if not colon and not step:
        index = int(start)

        def at(items: Found) -> Found:
            return [item[index] for item in items if isinstance(item, list) and -len(item) <= index < len(item)]

        return at
    if step and not int(step):
        raise ValueError("step must be > 0")
    part = slice(int(start or 0), int(stop) if stop else None, int(step or 1))
    return lambda items: [member for item in items if isinstance(item, list) for member in item[part]]


def _filtered(expression: str, path: str) -> Step:
    found = _comparison(expression)
    if not found:
        present = _operand(expression.strip(), path)
        return lambda items: [one for item in items if isinstance(item, list) for one in item if present(one)]
    left, right = _operand(found.group(1), path), _operand(found.group(3), path)
    compare = _COMPARE[found.group(2)]

    def passes(item: Any) -> bool:
        ours, theirs = left(item), right(item)
        if len(ours) != 1 or len(theirs) != 1:
            return False
        try:
            return compare(ours[0], theirs[0])
        except TypeError:
            return False

    return lambda items: [one for item in items if isinstance(item, list) for one in item if passes(one)]


def _operand(text: str, path: str) -> Callable[[Any], Found]:
    """Parses one side of a comparison: a path relative to the item, or a literal."""
    if text[:1] in ("@", "$", "."):
        steps = _steps(text, path)

        def find(item: Any) -> Found:
            found = [item]
            for step in steps:
                found = step(found)
            return found

        return find
    literal = _literal(text, path)
    return lambda item: [literal]


def _literal(text: str, path: str) -> Any:
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
        found = _field(text, at)
        if not found:
            raise ValueError(f"not a simple path: {path!r}")
        keys.append(re.sub(r"\\(.)", r"\1", found.group(1)))
        at = found.end()
    return tuple(keys)
