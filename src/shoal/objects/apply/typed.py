"""Compiles a schema for ownership: which maps and lists are merged, and how their items are keyed.

`TypeSchema` compiles an OpenAPI v3 or structural schema to a tree of `TypedNode`s, each on its first use. The caller
caches it per kind. Formats and limits of values are not validated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from shoal.objects.apply.fieldset import json_text, json_value
from shoal.objects.gostructs import Struct, kind_of, struct_of

Schema = Mapping[str, Any]
Resolve = Callable[[str], Schema | None]

MISSING: Final = object()
_SCALARS = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_OBJECT_META_REF = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY_REF = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_REF = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class Field(NamedTuple):
    element: str
    """`f:<name>`"""
    node: Node
    absent: Any
    """The value an absent field stands for: MISSING, or the zero value of a Go struct field that is always written."""


class Key(NamedTuple):
    name: str
    prefix: str
    """`"name":`"""
    default: Any


class Shape(NamedTuple):
    """The field set shared by all maps with the same keys, without the nested members."""

    fields: dict[str, Any]
    deep: tuple[tuple[str, str, Node], ...]
    """Key, path element and node of members whose own items may be owned."""


_MAX_SHAPES = 256


class Node:
    """A node of the compiled schema. A value may be a map, a list or a scalar where several of them are allowed."""

    __slots__ = (
        "_fill", "associative", "element", "fields", "granular", "items", "keys", "lists", "maps", "scalar", "shapes",
    )  # fmt: skip

    maps: bool
    granular: bool
    """The members of the map are owned one by one."""
    fields: dict[str, Field]
    element: Node | None
    """The type of an undeclared member. None: undeclared members are not allowed."""
    lists: bool
    associative: bool
    """The items of the list are owned one by one: by `keys`, or by value if there are none."""
    keys: tuple[Key, ...]
    items: Node
    scalar: str
    shapes: dict[tuple[str, ...], Shape]

    def __init__(self, fill: Callable[[Node], None]) -> None:
        self._fill: Callable[[Node], None] | None = fill

    def __getattr__(self, name: str) -> Any:
        fill = self._fill
        if fill is None:
            raise AttributeError(name)
        self._fill = None
        self.maps = self.granular = self.lists = self.associative = False
        self.fields, self.element, self.keys, self.scalar = {}, None, (), ""
        self.items, self.shapes = UNTYPED, {}
        fill(self)
        return getattr(self, name)

    def shape(self, value: Mapping[str, Any]) -> Shape:
        """Returns the cached layout. Objects of a kind look alike, so a few layouts serve nearly all of them."""
        names = tuple(value)
        known = self.shapes.get(names)
        if known is not None:
            return known
        rest = self.element or DEDUCED
        members = [
            (name, *(self.fields[name][:2] if name in self.fields else ("f:" + name, rest))) for name in sorted(names)
        ]
        deep = tuple(member for member in members if member[2].granular or member[2].associative)
        known = Shape({".": {}} | {element: {} for _, element, _ in members}, deep)
        if len(self.shapes) < _MAX_SHAPES:
            self.shapes[names] = known
        return known


def _fill_untyped(node: Node) -> None:
    node.maps = node.lists = True
    node.scalar = "untyped"
    node.element = node.items = UNTYPED


def _fill_deduced(node: Node) -> None:
    _fill_untyped(node)
    node.granular = True
    node.element = DEDUCED


UNTYPED: Final = Node(_fill_untyped)
"""Any value, owned as a whole."""
DEDUCED: Final = Node(_fill_deduced)
"""Any value: maps are owned member by member, lists as a whole."""


class TypeSchema:
    """The compiled schema of a kind. Without a schema every map is granular and every list atomic."""

    __slots__ = ("_named", "_resolve", "root", "settled")

    def __init__(self, schema: Schema | None, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self.settled: set[int] = set()
        """Hashes of stored field sets that are already reconciled with this schema."""
        self._named: dict[tuple[str, str | None], Node] = {}
        self.root = Node(lambda node: self._fill_root(node, schema))

    def _fill_root(self, node: Node, schema: Schema | None) -> None:
        reference = _reference(schema) if schema is not None else ""
        target = self._resolve(reference) if reference and self._resolve else schema
        if target is None:
            _fill_deduced(node)
        elif reference:
            self._fill(node, target, False, _always(struct_of(reference), target))
        else:
            self._fill(node, target, False, _always(kind_of(target), {}))
        node.fields |= {name: Field("f:" + name, _STRING, MISSING) for name in ("apiVersion", "kind")}
        node.fields["metadata"] = Field("f:metadata", OBJECT_META, {})

    def _node(self, schema: Schema, preserve: bool) -> Node:
        reference = _reference(schema)
        if reference:
            return self._reference_node(reference, schema.get("x-kubernetes-map-type"))
        return Node(lambda node: self._fill(node, schema, preserve, {}))

    def _reference_node(self, name: str, map_type: str | None) -> Node:
        """Nodes are shared by name, because schemas such as JSONSchemaProps are recursive."""
        if name == _OBJECT_META_REF:
            return OBJECT_META
        if name == _RAW_REF:
            return UNTYPED
        known = self._named.get((name, map_type))
        if known is None:
            known = Node(lambda node: self._fill_reference(node, name, map_type))
            self._named[name, map_type] = known
        return known

    def _fill_reference(self, node: Node, name: str, map_type: str | None) -> None:
        target = self._resolve(name) if self._resolve else None
        if name == _QUANTITY_REF:
            node.scalar = "untyped"
        elif target is None:
            _fill_deduced(node)
        elif inner := _reference(target):
            self._fill_reference(node, inner, map_type)
        else:
            self._fill(node, target, False, _always(struct_of(name), target))
        if map_type and node.maps:
            node.granular = map_type != "atomic"

    def _fill(self, node: Node, schema: Schema, preserve: bool, always: Mapping[str, Any]) -> None:
        preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
        kind = schema.get("type") or ""
        if type(kind) is list:
            kind = kind[0] if kind else ""
        if kind in ("", "object"):
            self._fill_map(node, schema, preserve, always)
        if kind in ("", "array"):
            self._fill_list(node, schema, preserve)
        if kind == "":
            node.scalar = "untyped"
        elif kind == "string":
            node.scalar = "string" if schema.get("format", "") in ("", "byte") else "untyped"
        elif not node.maps and not node.lists:
            node.scalar = _SCALARS.get(kind, "untyped")

    def _fill_map(self, node: Node, schema: Schema, preserve: bool, always: Mapping[str, Any]) -> None:
        node.maps = True
        node.granular = schema.get("x-kubernetes-map-type") != "atomic"
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        for name, member in properties.items():
            absent = _zero(member, always.get(name, MISSING))
            node.fields[name] = Field("f:" + name, self._node(member, preserve), absent)
        if schema.get("x-kubernetes-embedded-resource") is True:
            for name in ("apiVersion", "kind"):
                node.fields.setdefault(name, Field("f:" + name, _STRING, MISSING))
            node.fields["metadata"] = Field("f:metadata", OBJECT_META, MISSING)
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping) and extra:
            node.element = self._node(extra, preserve)
        elif extra is True or isinstance(extra, Mapping) or (extra is None and (preserve or not properties)):
            node.element = DEDUCED

    def _fill_list(self, node: Node, schema: Schema, preserve: bool) -> None:
        node.lists = True
        items = schema.get("items")
        node.items = self._node(items, preserve) if items is not None else UNTYPED
        names = _list_keys(schema)
        if names is None:
            return
        node.associative = True
        if names:
            defaults = self._defaults(items or {})
            node.keys = tuple(Key(name, json_text(name) + ":", defaults.get(name)) for name in sorted(names))

    def _defaults(self, items: Schema) -> dict[str, Any]:
        reference = _reference(items)
        target = self._resolve(reference) if reference and self._resolve else items
        properties: Mapping[str, Schema] = (target or {}).get("properties") or {}
        return {name: member.get("default") for name, member in properties.items()}


def element_of(node: Node, item: Any) -> str:
    """Returns the path element of an item of an associative list. Raises ValueError with upstream's message if it has
    none.
    """
    if not node.keys:
        if type(item) is dict:
            raise ValueError("associative list without keys has an element that's a map type")
        if type(item) is list:
            raise ValueError("not supported: associative list with lists as elements")
        if item is None:
            raise ValueError("associative list without keys has an element that's an explicit null")
        return "v:" + json_value(item)
    if type(item) is not dict:
        what = "a null element" if item is None else "non-map elements"
        raise ValueError(f"associative list with keys may not have {what}")
    if len(node.keys) == 1:
        name, prefix, _ = node.keys[0]
        value = item.get(name)
        if type(value) is str:
            return "k:{" + prefix + json_text(value) + "}"
    found = []
    for name, prefix, default in node.keys:
        value = item.get(name, default)
        if type(value) is str:
            found.append(prefix + json_text(value))
        elif value is not None or name in item:
            found.append(prefix + json_value(value))
    if not found:
        names = " ".join(f'"{key.name}"' for key in node.keys)
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return "k:{" + ",".join(found) + "}"


def _reference(schema: Schema) -> str:
    """Returns the component a schema refers to, also through the one-element `allOf` of OpenAPI v3."""
    reference = schema.get("$ref")
    if not reference:
        parts: list[Schema] = schema.get("allOf") or []
        reference = parts[0].get("$ref") if len(parts) == 1 else None
    return str(reference).rpartition("/")[2] if reference else ""


def _always(struct: Struct | None, schema: Schema) -> Mapping[str, Any]:
    """Returns the fields Go always writes, with their zero values. For structs that are not in the table: required
    lists.
    """
    if struct is not None:
        return struct.always
    properties = schema.get("properties") or {}
    return {name: None for name in schema.get("required") or () if properties.get(name, {}).get("type") == "array"}


def _zero(member: Schema, always: Any) -> Any:
    """Returns the value of an absent field. Go structs held by value exist in every object of a built-in kind, and so
    do the fields in `always_written`.
    """
    if _reference(member):
        return {} if member.get("default") == {} else MISSING
    return always


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    """Returns the key fields of a list's items, `()` for a set, None for an atomic list."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return ()
    if kind == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind is None and str(schema.get("x-kubernetes-patch-strategy", "")).startswith("merge"):
        key = schema.get("x-kubernetes-patch-merge-key")
        return (key,) if key else ()
    return None


_TEXT: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_OWNER: Schema = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT)
    | dict.fromkeys(("blockOwnerDeletion", "controller"), _BOOLEAN),
}
_META: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"), _TEXT)
    | dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME)
    | dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _INTEGER)
    | dict.fromkeys(("annotations", "labels"), _TEXTS)
    | {
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": {}},
        "ownerReferences": {
            "type": "array",
            "items": _OWNER,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}
_BUILT_IN: Final = TypeSchema(None)
_STRING: Final = Node(lambda node: _BUILT_IN._fill(node, _TEXT, False, {}))
OBJECT_META: Final = Node(lambda node: _BUILT_IN._fill(node, _META, False, {}))
