"""Merges an applied configuration into a live object, and validates the configuration first.

`merge` never removes anything and never mutates: the result shares subtrees with both inputs. `serverside` decides from
ownership what is removed afterwards.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.apply.fieldset import spell
from shoal.objects.apply.typed import DEDUCED, MISSING, Node, element_of


def merge(live: Any, config: Any, node: Node) -> Any:
    if config is None:
        # Null sets a container without saying anything about its content.
        full = (type(live) is dict and node.granular) or (type(live) is list and node.associative)
        return live if full and live else None
    if type(config) is dict and type(live) is dict and node.granular and (config or live):
        return _merge_maps(live, config, node)
    if type(config) is list and type(live) is list and node.associative and (config or live):
        return _merge_lists(live, config, node)
    return config


def _merge_maps(live: dict[str, Any], config: dict[str, Any], node: Node) -> dict[str, Any]:
    out = dict(live)
    fields, rest = node.fields, node.element or DEDUCED
    for name, value in config.items():
        mine = live.get(name, MISSING)
        if mine is MISSING:
            out[name] = value
        else:
            field = fields.get(name)
            out[name] = merge(mine, value, rest if field is None else field.node)
    return out


def _merge_lists(live: list[Any], config: list[Any], node: Node) -> list[Any]:
    """Returns the items in the order of the configuration. Live items it does not contain keep their position among the
    others.
    """
    old_keys = [element_of(node, item) for item in live]
    new_keys = [element_of(node, item) for item in config]
    new = dict(zip(new_keys, config, strict=True))
    old: dict[str, Any] = {}
    for key, item in zip(old_keys, live, strict=True):
        old[key] = None if key in old else item  # duplicates have no single item to merge with

    def merged(key: str) -> Any:
        mine = old.get(key)
        return new[key] if mine is None else merge(mine, new[key], node.items)

    shared = iter([key for key in new_keys if key in old])
    expected = next(shared, None)
    out: list[Any] = []
    taken: set[str] = set()
    left = right = 0
    while left < len(old_keys) or right < len(new_keys):
        if left < len(old_keys):
            key = old_keys[left]
            if right < len(new_keys):
                if key == new_keys[right]:
                    taken.add(key)
                    out.append(merged(key))
                    left, right, expected = left + 1, right + 1, next(shared, None)
                    continue
                if key in new and expected is not None and expected != key:
                    left += 1
                    continue
            if key not in new:
                out.append(live[left])
                left += 1
                continue
            if key in taken:
                left += 1
        if right < len(new_keys):
            key = new_keys[right]
            taken.add(key)
            out.append(merged(key))
            right += 1
            if expected == key:
                expected = next(shared, None)
    return out


def problems(value: Any, node: Node) -> list[str]:
    """Returns why a configuration cannot be applied, with upstream's messages: `.spec.x: field not declared in
    schema`.
    """
    found: list[str] = []
    _check(value, node, (), found)
    return found


_Path = tuple[Any, ...]
"""Nested pairs of parent path and last step. Paths are only formatted for errors."""


def _check(value: Any, node: Node, path: _Path, found: list[str]) -> None:
    kind = type(value)
    if kind is dict and node.maps:
        _check_map(value, node, path, found)
    elif kind is list and node.lists:
        if node.associative:
            _check_items(value, node, path, found)
        else:
            for index, item in enumerate(value):
                _check(item, node.items, (path, f"[{index}]"), found)
    elif value is not None:
        wrong = _misfit(value, node)
        if wrong:
            found.append(f"{_spelt(path)}: {wrong}")


def _check_map(value: dict[str, Any], node: Node, path: _Path, found: list[str]) -> None:
    fields, rest = node.fields, node.element
    for name, child in value.items():
        field = fields.get(name)
        below = rest if field is None else field.node
        if below is None:
            found.append(f"{_spelt(path)}.{name}: field not declared in schema")
            return
        if type(child) is not str or below.scalar not in ("string", "untyped"):
            _check(child, below, (path, "." + name), found)


def _check_items(value: list[Any], node: Node, path: _Path, found: list[str]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        try:
            element = element_of(node, item)
        except ValueError as error:
            found.append(f"{_spelt(path)}: element {index}: {error}")
            return
        if element in seen:
            found.append(f"{_spelt(path)}: duplicate entries for key {spell(element)}")
        seen.add(element)
        _check(item, node.items, (path, element), found)


def _spelt(path: _Path) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(step if step[0] in ".[" else spell(step))
    return "".join(reversed(steps))


def _misfit(value: Any, node: Node) -> str:
    if node.maps and (node.scalar == "" or isinstance(value, dict | list)):
        return f"expected map, got &{{{_go(value)}}}"
    if node.lists and node.scalar == "":
        return f"expected list, got &{{{_go(value)}}}"
    number = isinstance(value, int | float) and type(value) is not bool
    if node.scalar == "numeric" and not number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if node.scalar == "string" and type(value) is not str:
        return f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
    if node.scalar == "boolean" and type(value) is not bool:
        return f"expected boolean, got &{{{_go(value)}}}"
    if node.scalar == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{_go(value)}}}"
    return ""


def _go(value: Any) -> str:
    """Formats as Go's %v does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_go(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "interface {}")
