"""Merges an applied configuration into a live object, and validates the configuration first.

`merge` never removes anything and never mutates: the result shares subtrees with both inputs. `serverside` decides from
ownership what is removed afterwards.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.apply.fieldset import format_element
from shoal.objects.apply.typed import DEDUCED, MISSING, TypedNode, path_element_of


def merge(live: Any, config: Any, node: TypedNode) -> Any:
    if config is None:
        # Null sets a container without saying anything about its content.
        full = (type(live) is dict and node.granular) or (type(live) is list and node.associative)
        return live if full and live else None
    if type(config) is dict and type(live) is dict and node.granular and (config or live):
        return _merge_maps(live, config, node)
    if type(config) is list and type(live) is list and node.associative and (config or live):
        return _merge_lists(live, config, node)
    return config


def _merge_maps(live: dict[str, Any], config: dict[str, Any], node: TypedNode) -> dict[str, Any]:
    out = dict(live)
    fields, rest = node.fields, node.element_type or DEDUCED
    for name, value in config.items():
        live_value = live.get(name, MISSING)
        if live_value is MISSING:
            out[name] = value
        else:
            field = fields.get(name)
            out[name] = merge(live_value, value, rest if field is None else field.node)
    return out


def _merge_lists(live: list[Any], config: list[Any], node: TypedNode) -> list[Any]:
    """Returns the items in the order of the configuration. Live items it does not contain keep their position among the
    others.
    """
    old_keys = [path_element_of(node, item) for item in live]
    new_keys = [path_element_of(node, item) for item in config]
    new = dict(zip(new_keys, config, strict=True))
    old: dict[str, Any] = {}
    for key, item in zip(old_keys, live, strict=True):
        old[key] = None if key in old else item  # duplicates have no single item to merge with

    def merge_item(key: str) -> Any:
        live_item = old.get(key)
        return new[key] if live_item is None else merge(live_item, new[key], node.items)

    shared = iter([key for key in new_keys if key in old])
    expected = next(shared, None)
    out: list[Any] = []
    emitted: set[str] = set()
    left = right = 0
    while left < len(old_keys) or right < len(new_keys):
        if left < len(old_keys):
            key = old_keys[left]
            if right < len(new_keys):
                if key == new_keys[right]:
                    emitted.add(key)
                    out.append(merge_item(key))
                    left, right, expected = left + 1, right + 1, next(shared, None)
                    continue
                if key in new and expected is not None and expected != key:
                    left += 1
                    continue
            if key not in new:
                out.append(live[left])
                left += 1
                continue
            if key in emitted:
                left += 1
        if right < len(new_keys):
            key = new_keys[right]
            emitted.add(key)
            out.append(merge_item(key))
            right += 1
            if expected == key:
                expected = next(shared, None)
    return out


def typed_errors(value: Any, node: TypedNode) -> list[str]:
    """Returns why a configuration cannot be applied, with upstream's messages: `.spec.x: field not declared in
    schema`.
    """
    errors: list[str] = []
    _validate(value, node, (), errors)
    return errors


_Path = tuple[Any, ...]
"""Nested pairs of parent path and last step. Paths are only formatted for errors."""


def _validate(value: Any, node: TypedNode, path: _Path, errors: list[str]) -> None:
    kind = type(value)
    if kind is dict and node.is_map:
        _validate_map(value, node, path, errors)
    elif kind is list and node.is_list:
        if node.associative:
            _validate_list_items(value, node, path, errors)
        else:
            for index, item in enumerate(value):
                _validate(item, node.items, (path, f"[{index}]"), errors)
    elif value is not None:
        error = _type_error(value, node)
        if error:
            errors.append(f"{_format_path(path)}: {error}")


def _validate_map(value: dict[str, Any], node: TypedNode, path: _Path, errors: list[str]) -> None:
    fields, rest = node.fields, node.element_type
    for name, child in value.items():
        field = fields.get(name)
        below = rest if field is None else field.node
        if below is None:
            errors.append(f"{_format_path(path)}.{name}: field not declared in schema")
            return
        if type(child) is not str or below.scalar not in ("string", "untyped"):
            _validate(child, below, (path, "." + name), errors)


def _validate_list_items(value: list[Any], node: TypedNode, path: _Path, errors: list[str]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        try:
            element = path_element_of(node, item)
        except ValueError as error:
            errors.append(f"{_format_path(path)}: element {index}: {error}")
            return
        if element in seen:
            errors.append(f"{_format_path(path)}: duplicate entries for key {format_element(element)}")
        seen.add(element)
        _validate(item, node.items, (path, element), errors)


def _format_path(path: _Path) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(step if step[0] in ".[" else format_element(step))
    return "".join(reversed(steps))


def _type_error(value: Any, node: TypedNode) -> str:
    if node.is_map and (node.scalar == "" or isinstance(value, dict | list)):
        return f"expected map, got &{{{_go_format(value)}}}"
    if node.is_list and node.scalar == "":
        return f"expected list, got &{{{_go_format(value)}}}"
    number = isinstance(value, int | float) and type(value) is not bool
    if node.scalar == "numeric" and not number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if node.scalar == "string" and type(value) is not str:
        return f"expected string, got &value.valueUnstructured{{Value:{_go_format(value)}}}"
    if node.scalar == "boolean" and type(value) is not bool:
        return f"expected boolean, got &{{{_go_format(value)}}}"
    if node.scalar == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{_go_format(value)}}}"
    return ""


def _go_format(value: Any) -> str:
    """Formats as Go's %v does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_go_format(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_format, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "interface {}")
