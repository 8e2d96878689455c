"""Strategic merge patch. The OpenAPI schema says which lists are merged and by which key.

Inputs are never changed. Everything a patch does not touch is shared with the original. New members lose their nulls
and directives. A field the schema does not declare merges as plain JSON: objects by member, lists as a whole. As
upstream, every malformed patch is a 400, except that lists of lists are a 422.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shoal.objects.errors import BadRequest, Invalid
from shoal.objects.jsonpatch import REJECTED_MESSAGE

Schema = dict[str, Any]
Resolve = Callable[[str], Schema]

_PATCH_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM_PRIMITIVE_LIST: Final = "$deleteFromPrimitiveList"
_SET_ELEMENT_ORDER: Final = "$setElementOrder"
_BAD_DELETE: Final = "invalid patch format of primitive list"
_BAD_RETAIN: Final = "invalid patch format of retainKeys"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_DROPPED: Final = object()


def apply(original: dict[str, Any], patch: Any, schema: Schema, resolve: Resolve) -> dict[str, Any]:
    """Returns the patched object. `resolve` returns the schema of a `$ref` (its last path segment)."""
    if not isinstance(patch, dict):
        raise BadRequest(_bad_type("map[string]interface {}", patch))
    return _StrategicMerge(resolve).merge_objects(original, patch, schema)


class _StrategicMerge:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def merge_objects(self, original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
        if _PATCH_DIRECTIVE in patch:
            return _apply_patch_directive(patch)
        schema = self._resolve_schema(schema)
        merged = _retain_keys(original, patch)
        done = self._apply_element_orders(merged, patch, schema)
        for key, value in patch.items():
            if key in done or key == _RETAIN_KEYS:
                continue
            if key.startswith(_DELETE_FROM_PRIMITIVE_LIST):
                _delete_from_primitive_list(
                    merged, _directive_field(key, _DELETE_FROM_PRIMITIVE_LIST, _BAD_DELETE), value
                )
            elif value is None:
                merged.pop(key, None)
            else:
                self._merge_member(merged, key, value, schema)
        return merged

    def _merge_member(self, merged: dict[str, Any], key: str, value: Any, schema: Schema) -> None:
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            field, strategy, _ = self._field_schema(schema, key)
            if strategy != "replace":
                merged[key] = self.merge_objects(old, value, field)
                return
        elif isinstance(old, list) and isinstance(value, list):
            merged[key] = self._merge_lists(old, value, key, schema)
            return
        cleaned = _clean(value)
        if cleaned is _DROPPED:
            merged.pop(key, None)
        else:
            merged[key] = cleaned

    def _merge_lists(self, original: list[Any], patch: list[Any], key: str, schema: Schema) -> list[Any]:
        field, strategy, merge_key = self._field_schema(schema, key)
        if strategy != "merge":
            return _clean_list(patch)
        if not original and not patch:
            return original
        if _element_type(original, patch) is not dict:
            return _order_items([*dict.fromkeys((*original, *patch))], patch, original, merge_key)
        if not merge_key:
            raise BadRequest(f"cannot merge lists without merge key for {key}")
        original, patch = _apply_item_directives(original, patch, merge_key)
        items = self._resolve_schema(self._resolve_schema(field).get("items") or {})
        return _order_items(self._merge_items(original, patch, merge_key, items), patch, original, merge_key)

    def _merge_items(self, original: list[Any], patch: list[Any], merge_key: str, items: Schema) -> list[Any]:
        merged = list(original)
        position: dict[Any, int] = {}
        for i, item in enumerate(merged):
            position.setdefault(_item_identity(item, merge_key), i)
        for item in patch:
            at = position.setdefault(_item_identity(item, merge_key), len(merged))
            if at == len(merged):
                merged.append(_clean(item))
            else:
                merged[at] = self.merge_objects(merged[at], item, items)
        return merged

    def _apply_element_orders(self, merged: dict[str, Any], patch: dict[str, Any], schema: Schema) -> set[str]:
        """Applies every `$setElementOrder/<field>` with its list. Returns the members it has handled."""
        done: set[str] = set()
        for key, order in patch.items():
            if not key.startswith(_SET_ELEMENT_ORDER):
                continue
            done.add(key)
            field = _directive_field(key, _SET_ELEMENT_ORDER, _BAD_ORDER)
            live, changes = merged.get(field), patch.get(field)
            for value in (order, live if field in merged else [], changes if field in patch else []):
                if not isinstance(value, list):
                    raise BadRequest(_bad_type("[]interface {}", value))
            _, _, merge_key = self._field_schema(schema, field)
            _check_order(changes or [], order, merge_key)
            if changes is None and live is None:
                continue
            if changes is None:
                items: list[Any] = live or []
            elif live is None:
                items = _clean_list(changes)
            else:
                items = self._merge_lists(live, changes, field, schema)
            merged[field] = _order_items(items, order, live or [], merge_key)
            done.add(field)
        return done

    def _field_schema(self, schema: Schema, key: str) -> tuple[Schema, str, str]:
        """Returns the schema of a member, its patch strategy without `retainKeys` (which only matters when a patch is
        created), and its merge key.
        """
        field = (schema.get("properties") or {}).get(key)
        if field is None:
            anything = schema.get("additionalProperties")
            field = anything if isinstance(anything, dict) else {}
        strategies = field.get("x-kubernetes-patch-strategy", "").split(",")
        strategy = next((name for name in strategies if name != "retainKeys"), "")
        return field, strategy, field.get("x-kubernetes-patch-merge-key", "")

    def _resolve_schema(self, schema: Schema) -> Schema:
        while True:
            if alternatives := schema.get("allOf"):
                schema = alternatives[0]
            elif reference := schema.get("$ref"):
                schema = self._resolve(reference.rpartition("/")[2])
            else:
                return schema


# --- directives ---


def _apply_patch_directive(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_PATCH_DIRECTIVE]
    if directive == "replace":
        return _clean_members({key: value for key, value in patch.items() if key != _PATCH_DIRECTIVE})
    if directive == "delete":
        return {}
    raise BadRequest(f"unknown patch type: {_go_format(directive)} in map: {_go_format(patch)}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy of the original with only the keys in `$retainKeys`."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    if not isinstance(patch[_RETAIN_KEYS], list):
        raise BadRequest(_BAD_RETAIN)
    keys = {key for key in patch[_RETAIN_KEYS] if isinstance(key, str)}
    for key, value in patch.items():
        directive = key == _RETAIN_KEYS or key.startswith((_DELETE_FROM_PRIMITIVE_LIST, _SET_ELEMENT_ORDER))
        if value is not None and not directive and key not in keys:
            raise BadRequest(_BAD_RETAIN)
    return {key: value for key, value in original.items() if key in keys}


def _delete_from_primitive_list(merged: dict[str, Any], field: str, unwanted: Any) -> None:
    if unwanted is None:
        merged.pop(field, None)
        return
    current = merged.get(field)
    if not current or not isinstance(current, list) or not isinstance(unwanted, list):
        return
    if _element_type(current, unwanted) is dict:
        raise BadRequest(_BAD_DELETE)
    deleted = set(unwanted)
    merged[field] = [item for item in current if item not in deleted]


def _apply_item_directives(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Applies `$patch` in list items. Returns the original without deleted items, and the patch without directives."""
    changes: list[Any] = []
    deleted: set[Any] = set()
    replace = False
    for item in patch:
        if _PATCH_DIRECTIVE not in item:
            changes.append(item)
            continue
        match item[_PATCH_DIRECTIVE]:
            case "delete":
                deleted.add(_item_identity(item, merge_key))
            case "replace":
                replace = True
            case "merge":
                raise BadRequest("merging lists cannot yet be specified in the patch")
            case other:
                raise BadRequest(f"unknown patch type: {_go_format(other)} in map: {_go_format(item)}")
    if replace:
        return _clean_list(changes), []
    if deleted:
        original = [item for item in original if _item_identity(item, merge_key) not in deleted]
    return original, changes


def _directive_field(key: str, prefix: str, bad: str) -> str:
    directive, slash, field = key.partition("/")
    if directive != prefix or not slash:
        raise BadRequest(bad)
    return field


def _clean(value: Any) -> Any:
    """Returns a patch value as a new value, without nulls and directives. Returns `_DROPPED` if it is itself a
    directive.
    """
    if isinstance(value, dict):
        return _DROPPED if _PATCH_DIRECTIVE in value else _clean_members(value)
    return _clean_list(value) if isinstance(value, list) else value


def _clean_members(value: dict[str, Any]) -> dict[str, Any]:
    cleaned = {}
    for key, member in value.items():
        if member is None or key.startswith((_RETAIN_KEYS, _DELETE_FROM_PRIMITIVE_LIST, _SET_ELEMENT_ORDER)):
            continue
        member = _clean(member)
        if member is not _DROPPED:
            cleaned[key] = member
    return cleaned


def _clean_list(items: list[Any]) -> list[Any]:
    return [cleaned for item in items if (cleaned := _clean(item)) is not _DROPPED]


# --- order ---


def _order_items(items: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Orders items by `order`. Items it does not contain keep their position in the live list as far as possible."""
    rank, live_position = _item_positions(order, merge_key), _item_positions(live, merge_key)
    named: list[tuple[int, Any]] = []
    others: list[tuple[int, Any]] = []
    for item in items:
        identity = _item_identity(item, merge_key)
        if identity in rank:
            named.append((live_position.get(identity, -1), item))
        else:
            others.append((live_position.get(identity, len(live)), item))
    named.sort(key=lambda entry: rank[_item_identity(entry[1], merge_key)])
    others.sort(key=lambda entry: entry[0])
    result: list[Any] = []
    i = 0
    for where, item in named:
        while i < len(others) and others[i][0] < where:
            result.append(others[i][1])
            i += 1
        result.append(item)
    return result + [item for _, item in others[i:]]


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of a patch must be in the order of its `$setElementOrder`, and all be in it."""
    if not patch or not order:
        return
    named = iter([_item_identity(item, merge_key) for item in order])
    for item in patch:
        if isinstance(item, dict) and _PATCH_DIRECTIVE in item:
            continue
        if _item_identity(item, merge_key) not in named:
            raise BadRequest(
                f"The order in patch list:\n{_go_format(patch)}\n doesn't match "
                f"{_SET_ELEMENT_ORDER} list:\n{_go_format(order)}\n"
            )


def _item_positions(items: list[Any], merge_key: str) -> dict[Any, int]:
    positions: dict[Any, int] = {}
    for i, item in enumerate(items):
        positions.setdefault(_item_identity(item, merge_key), i)
    return positions


def _item_identity(item: Any, merge_key: str) -> Any:
    """Returns the identity of a list item: the value of the merge key, or a scalar itself."""
    if merge_key:
        if not isinstance(item, dict):
            raise BadRequest(_bad_type("map[string]interface {}", item))
        if merge_key not in item:
            raise BadRequest(f"map: {_go_format(item)} does not contain declared merge key: {merge_key}")
        item = item[merge_key]
    if isinstance(item, dict | list):
        raise BadRequest(_bad_type("string", item))
    return item


def _element_type(*lists: list[Any]) -> type:
    types = {type(item) for items in lists for item in items}
    if list in types:
        raise Invalid(REJECTED_MESSAGE) from ValueError("lists of lists are not supported")
    if len(types) != 1:
        raise BadRequest(f"list element types are not identical: {_go_format(list(lists))}")
    return types.pop()


# --- values as Go prints them ---


def _bad_type(expected: str, actual: Any) -> str:
    kinds = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}
    kind = "%!s(<nil>)" if actual is None else kinds.get(type(actual), "float64")
    return f"expected a {expected}, but received a {kind}"


def _go_format(value: Any) -> str:
    """Formats as Go's `%v` does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_format(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_format, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
