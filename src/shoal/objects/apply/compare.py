"""Computes field sets from objects: the fields an object has, and the difference between two objects.

A value that does not fit its schema is one owned leaf. Items without a key raise ValueError. Equality is Python's: a
change from `1` to `true` inside a free-form value is not seen here. Managers are not known here.
"""

from __future__ import annotations

from typing import Any, Final

from shoal.objects.apply.fieldset import FieldSet, is_member, sort_level
from shoal.objects.apply.typed import DEDUCED, MISSING, TypedNode, path_element_of

Object = dict[str, Any]

_UNTRACKED_METADATA: Final = frozenset(
    (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    )
)  # fmt: skip
UNTRACKED_FIELDS: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}} | {"f:" + name: {} for name in _UNTRACKED_METADATA},
}
"""Paths that cannot be owned: the object's type, its identity and server-set counters."""
_MAP_TYPES: Final = (dict, type(None))
_LIST_TYPES: Final = (list, type(None))
"""Null counts as an empty container of the same type as the other side."""


def strip_untracked(obj: Object) -> Object:
    """Returns the object without its untracked fields."""
    out = dict(obj)
    out.pop("apiVersion", None)
    out.pop("kind", None)
    meta = out.get("metadata")
    if type(meta) is dict:
        out["metadata"] = {name: value for name, value in meta.items() if name not in _UNTRACKED_METADATA}
    return out


def owned_on_create(obj: Object, node: TypedNode) -> FieldSet:
    """Returns the fields the creator of an object owns, including every map and list it introduces.

    Fields a Go struct always contains were not introduced by anybody, so `spec` of a built-in has no `.`.
    """
    out: FieldSet = {}
    fields = node.fields
    for name in sorted(obj):
        value = obj[name]
        if value is None:
            continue  # Go writes an unset field as null
        field = fields.get(name)
        if field is None:
            out["f:" + name] = fields_of_value(value, node.element_type or DEDUCED)
        elif field.zero is MISSING:
            out[field.path_element] = fields_of_value(value, field.node)
        else:
            below, _ = compare(field.zero, value, field.node)
            if below is not None:
                out[field.path_element] = below
    return out


def fields_of_value(value: Any, node: TypedNode) -> FieldSet:
    """Returns the field set of a value and everything in it, for a value that is added or removed as a whole."""
    kind = type(value)
    if kind is dict:
        if not value or not node.granular:
            return {}
        fields, deep = node.layout_of(value)
        if not deep:
            return fields
        out = fields.copy()
        for name, element, child in deep:
            inner = value[name]
            if type(inner) is dict or type(inner) is list:
                out[element] = fields_of_value(inner, child)
        return out
    if kind is list and value and node.associative:
        out = {".": {}}
        for item in value:
            element = path_element_of(node, item)
            # Of items with the same key only the key is owned, because they cannot be told apart.
            out[element] = {} if element in out else fields_of_value(item, node.items)
        return sort_level(out) if len(out) > 2 else out
    return {}


def compare(old: Any, new: Any, node: TypedNode) -> tuple[FieldSet | None, FieldSet | None]:
    """Returns the field sets of what `new` changed or added and of what it removed, below one path. None: nothing."""
    if old == new:
        return None, None
    if old or new:
        if node.granular and isinstance(old, _MAP_TYPES) and isinstance(new, _MAP_TYPES):
            changed, removed = _compare_maps(old or {}, new or {}, node)
            return changed or None, removed or None
        if node.associative and isinstance(old, _LIST_TYPES) and isinstance(new, _LIST_TYPES):
            changed, removed = _compare_lists(old or [], new or [], node)
            return changed or None, removed or None
    # A leaf, or a value that changed its type: the old content is removed, the new content is added.
    dropped = {key: sub for key, sub in fields_of_value(old, node).items() if key != "."}
    return fields_of_value(new, node), dropped or None


def _compare_maps(old: Object, new: Object, node: TypedNode) -> tuple[FieldSet, FieldSet]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    fields, rest = node.fields, node.element_type or DEDUCED
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, MISSING), new.get(name, MISSING)
        if before is after:
            continue
        field = fields.get(name)
        element, child, absent = field if field is not None else ("f:" + name, rest, MISSING)
        if before is MISSING:
            before = absent
        elif after is MISSING:
            after = absent
        if before is MISSING:
            changed[element] = fields_of_value(after, child)
        elif after is MISSING:
            removed[element] = fields_of_value(before, child)
        else:
            added_below, removed_below = compare(before, after, child)
            if added_below is not None:
                changed[element] = added_below
            if removed_below is not None:
                removed[element] = removed_below
    return changed, removed


def _compare_lists(old: list[Any], new: list[Any], node: TypedNode) -> tuple[FieldSet, FieldSet]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = _by_element(old, node), _by_element(new, node)
    for element in before.keys() | after.keys():
        olds, news = before.get(element, ()), after.get(element, ())
        if olds == news:
            continue
        if len(olds) > 1 or len(news) > 1:
            _compare_duplicates(element, olds, news, node, changed, removed)
        elif not olds:
            changed[element] = fields_of_value(news[0], node.items)
        elif not news:
            removed[element] = fields_of_value(olds[0], node.items)
        else:
            added_below, removed_below = compare(olds[0], news[0], node.items)
            if added_below is not None:
                changed[element] = added_below
            if removed_below is not None:
                removed[element] = removed_below
    return sort_level(changed) if changed else changed, sort_level(removed) if removed else removed


def _compare_duplicates(
    element: str, olds: tuple[Any, ...], news: tuple[Any, ...], node: TypedNode, changed: FieldSet, removed: FieldSet
) -> None:
    """Items that share a key are owned by the key alone while there are several of them."""
    if len(olds) > 1 and len(news) > 1:
        changed[element] = {}
    elif len(olds) > 1:
        removed[element] = {}
        if news:
            changed[element] = fields_of_value(news[0], node.items)
    else:
        changed[element] = {}
        if olds:
            removed[element] = fields_of_value(olds[0], node.items)


def _by_element(items: list[Any], node: TypedNode) -> dict[str, tuple[Any, ...]]:
    out: dict[str, tuple[Any, ...]] = {}
    for item in items:
        element = path_element_of(node, item)
        out[element] = (*out.get(element, ()), item)
    return out


def applied_fields(value: Any, node: TypedNode) -> FieldSet | None:
    """Returns the fields an applied configuration sets, or None for a leaf.

    Unlike `fields_of_value`, declared fields are only parents of what is below them. List items, members of free-form
    maps, nulls and empty maps are set themselves.
    """
    if type(value) is dict and node.granular:
        return _applied_map_fields(value, node)
    if type(value) is list and node.associative:
        return _applied_list_fields(value, node)
    return None


def _applied_map_fields(value: Object, node: TypedNode) -> FieldSet:
    out: FieldSet = {}
    fields, rest = node.fields, node.element_type or DEDUCED
    for name in sorted(value):
        child = value[name]
        field = fields.get(name)
        if field is None:
            below = applied_fields(child, rest)
            out["f:" + name] = {".": {}, **below} if below else {}
        else:
            below = applied_fields(child, field.node)
            if below or below is None or child == {}:
                out[field.path_element] = below or {}
    return out


def _applied_list_fields(value: list[Any], node: TypedNode) -> FieldSet:
    out: FieldSet = {}
    for item in value:
        element = path_element_of(node, item)
        below = None if element in out else applied_fields(item, node.items)
        out[element] = {".": {}, **below} if below else {}
    return sort_level(out) if len(out) > 1 else out


def with_parent_fields(fields: FieldSet, node: TypedNode) -> FieldSet:
    """Returns the set with every declared field on the path to a member added as a member."""
    out: FieldSet = {}
    for key, below in fields.items():
        if not below:
            out[key] = below
            continue
        child, declared = _child_node(node, key)
        below = with_parent_fields(below, child)
        out[key] = below if "." in below or not declared else {".": {}, **below}
    return out


def remove_fields(value: Any, fields: FieldSet, node: TypedNode, emptied: Any = None) -> Any:
    """Returns the value without the fields of a set. A container that loses everything becomes `emptied`.

    `emptied=MISSING` drops the container. None keeps a trace of it, which ownership decisions need.
    """
    if not fields:
        return value
    if type(value) is dict and value:
        return _remove_from_map(value, fields, node, emptied) if node.granular else emptied
    if type(value) is list and value:
        return _remove_from_list(value, fields, node, emptied) if node.associative else emptied
    return emptied if isinstance(value, dict | list) else value


def _remove_from_map(value: Object, fields: FieldSet, node: TypedNode, emptied: Any) -> Any:
    out: Object = {}
    is_empty = True
    for name, child in value.items():
        to_remove = fields.get("f:" + name)
        if to_remove is None:
            remainder = child
        elif is_member(to_remove):
            continue
        else:
            remainder = remove_fields(child, to_remove, _child_node(node, "f:" + name)[0], emptied)
        is_empty = False
        if remainder is not MISSING:
            out[name] = remainder
    return emptied if is_empty else out


def _remove_from_list(value: list[Any], fields: FieldSet, node: TypedNode, emptied: Any) -> Any:
    out = []
    is_empty = True
    for item in value:
        to_remove = fields.get(path_element_of(node, item))
        if to_remove is not None and is_member(to_remove):
            continue
        is_empty = False
        remainder = item if to_remove is None else remove_fields(item, to_remove, node.items, emptied)
        if remainder is not MISSING:
            out.append(remainder)
    return emptied if is_empty else out


def reconcile_with_schema(fields: FieldSet, node: TypedNode) -> FieldSet:
    """Returns the set after a schema change: paths below a field that is now atomic become that one path."""
    out: FieldSet | None = None
    for key, below in fields.items():
        if not below:
            continue
        child = _child_node(node, key)[0]
        if _is_atomic(child):
            reconciled_below: FieldSet = {}
        else:
            reconciled_below = reconcile_with_schema(below, child)
        if reconciled_below is not below:
            out = dict(fields) if out is None else out
            out[key] = reconciled_below
    return fields if out is None else out


def _is_atomic(node: TypedNode) -> bool:
    if node.is_map:
        return not node.granular and not (node.element_type is DEDUCED and not node.fields)
    return node.is_list and not node.associative


def _child_node(node: TypedNode, key: str) -> tuple[TypedNode, bool]:
    """Returns the node below a path element, and whether it is a declared field."""
    if key[0] == "f":
        field = node.fields.get(key[2:])
        return (field.node, True) if field is not None else (node.element_type or DEDUCED, False)
    return node.items if node.associative else DEDUCED, False
