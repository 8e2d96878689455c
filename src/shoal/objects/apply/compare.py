"""Computes field sets from objects: the fields an object has, and the difference between two objects.

A value that does not fit its schema is one owned leaf. Items without a key raise ValueError. Equality is Python's: a
change from `1` to `true` inside a free-form value is not seen here. Managers are not known here.
"""

from __future__ import annotations

from typing import Any, Final

from shoal.objects.apply.fieldset import Fields, in_order, owned
from shoal.objects.apply.typed import DEDUCED, MISSING, Node, element_of

Object = dict[str, Any]

_UNTRACKED_META: Final = frozenset(
    (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    )
)  # fmt: skip
UNTRACKED: Final[Fields] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}} | {"f:" + name: {} for name in _UNTRACKED_META},
}
"""Paths that cannot be owned: the object's type, its identity and server-set counters."""
_MAP: Final = (dict, type(None))
_LIST: Final = (list, type(None))
"""Null counts as an empty container of the same type as the other side."""


def tracked(obj: Object) -> Object:
    """Returns the object without its untracked fields."""
    out = dict(obj)
    out.pop("apiVersion", None)
    out.pop("kind", None)
    meta = out.get("metadata")
    if type(meta) is dict:
        out["metadata"] = {name: value for name, value in meta.items() if name not in _UNTRACKED_META}
    return out


def created(obj: Object, node: Node) -> Fields:
    """Returns the fields the creator of an object owns, including every map and list it introduces.

    Fields a Go struct always contains were not introduced by anybody, so `spec` of a built-in has no `.`.
    """
    out: Fields = {}
    fields = node.fields
    for name in sorted(obj):
        value = obj[name]
        if value is None:
            continue  # Go writes an unset field as null
        field = fields.get(name)
        if field is None:
            out["f:" + name] = whole(value, node.element or DEDUCED)
        elif field.absent is MISSING:
            out[field.element] = whole(value, field.node)
        else:
            below, _ = compare(field.absent, value, field.node)
            if below is not None:
                out[field.element] = below
    return out


def whole(value: Any, node: Node) -> Fields:
    """Returns the field set of a value and everything in it, for a value that is added or removed as a whole."""
    kind = type(value)
    if kind is dict:
        if not value or not node.granular:
            return {}
        fields, deep = node.shape(value)
        if not deep:
            return fields
        out = fields.copy()
        for name, element, child in deep:
            inner = value[name]
            if type(inner) is dict or type(inner) is list:
                out[element] = whole(inner, child)
        return out
    if kind is list and value and node.associative:
        out = {".": {}}
        for item in value:
            element = element_of(node, item)
            # Of items with the same key only the key is owned, because they cannot be told apart.
            out[element] = {} if element in out else whole(item, node.items)
        return in_order(out) if len(out) > 2 else out
    return {}


def compare(old: Any, new: Any, node: Node) -> tuple[Fields | None, Fields | None]:
    """Returns the field sets of what `new` changed or added and of what it removed, below one path. None: nothing."""
    if old == new:
        return None, None
    if old or new:
        if node.granular and isinstance(old, _MAP) and isinstance(new, _MAP):
            changed, removed = _compare_maps(old or {}, new or {}, node)
            return changed or None, removed or None
        if node.associative and isinstance(old, _LIST) and isinstance(new, _LIST):
            changed, removed = _compare_lists(old or [], new or [], node)
            return changed or None, removed or None
    # A leaf, or a value that changed its type: the old content is removed, the new content is added.
    gone = {key: sub for key, sub in whole(old, node).items() if key != "."}
    return whole(new, node), gone or None


def _compare_maps(old: Object, new: Object, node: Node) -> tuple[Fields, Fields]:
    changed: Fields = {}
    removed: Fields = {}
    fields, rest = node.fields, node.element or DEDUCED
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
            changed[element] = whole(after, child)
        elif after is MISSING:
            removed[element] = whole(before, child)
        else:
            came, went = compare(before, after, child)
            if came is not None:
                changed[element] = came
            if went is not None:
                removed[element] = went
    return changed, removed


def _compare_lists(old: list[Any], new: list[Any], node: Node) -> tuple[Fields, Fields]:
    changed: Fields = {}
    removed: Fields = {}
    before, after = _by_element(old, node), _by_element(new, node)
    for element in before.keys() | after.keys():
        olds, news = before.get(element, ()), after.get(element, ())
        if olds == news:
            continue
        if len(olds) > 1 or len(news) > 1:
            _compare_duplicates(element, olds, news, node, changed, removed)
        elif not olds:
            changed[element] = whole(news[0], node.items)
        elif not news:
            removed[element] = whole(olds[0], node.items)
        else:
            came, went = compare(olds[0], news[0], node.items)
            if came is not None:
                changed[element] = came
            if went is not None:
                removed[element] = went
    return in_order(changed) if changed else changed, in_order(removed) if removed else removed


def _compare_duplicates(
    element: str, olds: tuple[Any, ...], news: tuple[Any, ...], node: Node, changed: Fields, removed: Fields
) -> None:
    """Items that share a key are owned by the key alone while there are several of them."""
    if len(olds) > 1 and len(news) > 1:
        changed[element] = {}
    elif len(olds) > 1:
        removed[element] = {}
        if news:
            changed[element] = whole(news[0], node.items)
    else:
        changed[element] = {}
        if olds:
            removed[element] = whole(olds[0], node.items)


def _by_element(items: list[Any], node: Node) -> dict[str, tuple[Any, ...]]:
    out: dict[str, tuple[Any, ...]] = {}
    for item in items:
        element = element_of(node, item)
        out[element] = (*out.get(element, ()), item)
    return out


def applied(value: Any, node: Node) -> Fields | None:
    """Returns the fields an applied configuration sets, or None for a leaf.

    Unlike `fields_of_value`, declared fields are only parents of what is below them. List items, members of free-form
    maps, nulls and empty maps are set themselves.
    """
    if type(value) is dict and node.granular:
        return _applied_map(value, node)
    if type(value) is list and node.associative:
        return _applied_list(value, node)
    return None


def _applied_map(value: Object, node: Node) -> Fields:
    out: Fields = {}
    fields, rest = node.fields, node.element or DEDUCED
    for name in sorted(value):
        child = value[name]
        field = fields.get(name)
        if field is None:
            below = applied(child, rest)
            out["f:" + name] = {".": {}, **below} if below else {}
        else:
            below = applied(child, field.node)
            if below or below is None or child == {}:
                out[field.element] = below or {}
    return out


def _applied_list(value: list[Any], node: Node) -> Fields:
    out: Fields = {}
    for item in value:
        element = element_of(node, item)
        below = None if element in out else applied(item, node.items)
        out[element] = {".": {}, **below} if below else {}
    return in_order(out) if len(out) > 1 else out


def with_named(fields: Fields, node: Node) -> Fields:
    """Returns the set with every declared field on the path to a member added as a member."""
    out: Fields = {}
    for key, below in fields.items():
        if not below:
            out[key] = below
            continue
        child, declared = _descend(node, key)
        below = with_named(below, child)
        out[key] = below if "." in below or not declared else {".": {}, **below}
    return out


def without_items(value: Any, fields: Fields, node: Node, emptied: Any = None) -> Any:
    """Returns the value without the fields of a set. A container that loses everything becomes `emptied`.

    `emptied=MISSING` drops the container. None keeps a trace of it, which ownership decisions need.
    """
    if not fields:
        return value
    if type(value) is dict and value:
        return _map_without(value, fields, node, emptied) if node.granular else emptied
    if type(value) is list and value:
        return _list_without(value, fields, node, emptied) if node.associative else emptied
    return emptied if isinstance(value, dict | list) else value


def _map_without(value: Object, fields: Fields, node: Node, emptied: Any) -> Any:
    out: Object = {}
    nothing = True
    for name, child in value.items():
        doomed = fields.get("f:" + name)
        if doomed is None:
            left = child
        elif owned(doomed):
            continue
        else:
            left = without_items(child, doomed, _descend(node, "f:" + name)[0], emptied)
        nothing = False
        if left is not MISSING:
            out[name] = left
    return emptied if nothing else out


def _list_without(value: list[Any], fields: Fields, node: Node, emptied: Any) -> Any:
    out = []
    nothing = True
    for item in value:
        doomed = fields.get(element_of(node, item))
        if doomed is not None and owned(doomed):
            continue
        nothing = False
        left = item if doomed is None else without_items(item, doomed, node.items, emptied)
        if left is not MISSING:
            out.append(left)
    return emptied if nothing else out


def reconciled(fields: Fields, node: Node) -> Fields:
    """Returns the set after a schema change: paths below a field that is now atomic become that one path."""
    out: Fields | None = None
    for key, below in fields.items():
        if not below:
            continue
        child = _descend(node, key)[0]
        if _atomic(child):
            settled: Fields = {}
        else:
            settled = reconciled(below, child)
        if settled is not below:
            out = dict(fields) if out is None else out
            out[key] = settled
    return fields if out is None else out


def _atomic(node: Node) -> bool:
    if node.maps:
        return not node.granular and not (node.element is DEDUCED and not node.fields)
    return node.lists and not node.associative


def _descend(node: Node, key: str) -> tuple[Node, bool]:
    """Returns the node below a path element, and whether it is a declared field."""
    if key[0] == "f":
        field = node.fields.get(key[2:])
        return (field.node, True) if field is not None else (node.element or DEDUCED, False)
    return node.items if node.associative else DEDUCED, False
