"""Compiles a schema for ownership: which maps and lists are merged, and how their items are keyed.

`TypeSchema` compiles an OpenAPI v3 or structural schema to a tree of `TypedNode`s, each on its first use. The caller
caches it per kind. Formats and limits of values are not validated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from shoal.objects.apply.fieldset import json_string, json_value
from shoal.objects.gostructs import GoStruct, struct_of, struct_of_kind

SchemaDict = Mapping[str, Any]
SchemaResolver = Callable[[str], SchemaDict | None]

MISSING: Final = object()
_SCALARS = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_OBJECT_META_REF = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY_REF = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_REF = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class TypedField(NamedTuple):
    path_element: str
    """`f:<name>`"""
    node: TypedNode
    zero: Any
    """The value an absent field stands for: MISSING, or the zero value of a Go struct field that is always written."""


class ListMapKey(NamedTuple):
    name: str
    prefix: str
    """`"name":`"""
    default: Any


class FieldLayout(NamedTuple):
    """The field set shared by all maps with the same keys, without the nested members."""

    member_fields: dict[str, Any]
    nested: tuple[tuple[str, str, TypedNode], ...]
    """Key, path element and node of members whose own items may be owned."""


_MAX_LAYOUTS = 256


class TypedNode:
    """A node of the compiled schema. A value may be a map, a list or a scalar where several of them are allowed."""

    __slots__ = (
        "_fill",
        "associative",
        "element_type",
        "fields",
        "granular",
        "is_list",
        "is_map",
        "items",
        "keys",
        "layouts",
        "scalar",
    )  # fmt: skip

    is_map: bool
    granular: bool
    """The members of the map are owned one by one."""
    fields: dict[str, TypedField]
    element_type: TypedNode | None
    """The type of an undeclared member. None: undeclared members are not allowed."""
    is_list: bool
    associative: bool
    """The items of the list are owned one by one: by `keys`, or by value if there are none."""
    keys: tuple[ListMapKey, ...]
    items: TypedNode
    scalar: str
    layouts: dict[tuple[str, ...], FieldLayout]

    def __init__(self, fill: Callable[[TypedNode], None]) -> None:
        self._fill: Callable[[TypedNode], None] | None = fill

    def __getattr__(self, name: str) -> Any:
        fill = self._fill
        if fill is None:
            raise AttributeError(name)
        self._fill = None
        self.is_map = self.granular = self.is_list = self.associative = False
        self.fields, self.element_type, self.keys, self.scalar = {}, None, (), ""
        self.items, self.layouts = UNTYPED, {}
        fill(self)
        return getattr(self, name)

    def layout_of(self, value: Mapping[str, Any]) -> FieldLayout:
        """Returns the cached layout. Objects of a kind look alike, so a few layouts serve nearly all of them."""
        names = tuple(value)
        layout = self.layouts.get(names)
        if layout is not None:
            return layout
        rest = self.element_type or DEDUCED
        members = [
            (name, *(self.fields[name][:2] if name in self.fields else ("f:" + name, rest))) for name in sorted(names)
        ]
        deep = tuple(member for member in members if member[2].granular or member[2].associative)
        layout = FieldLayout({".": {}} | {element: {} for _, element, _ in members}, deep)
        if len(self.layouts) < _MAX_LAYOUTS:
            self.layouts[names] = layout
        return layout


def _fill_untyped(node: TypedNode) -> None:
    node.is_map = node.is_list = True
    node.scalar = "untyped"
    node.element_type = node.items = UNTYPED


def _fill_deduced(node: TypedNode) -> None:
    _fill_untyped(node)
    node.granular = True
    node.element_type = DEDUCED


UNTYPED: Final = TypedNode(_fill_untyped)
"""Any value, owned as a whole."""
DEDUCED: Final = TypedNode(_fill_deduced)
"""Any value: maps are owned member by member, lists as a whole."""


class TypeSchema:
    """The compiled schema of a kind. Without a schema every map is granular and every list atomic."""

    __slots__ = ("_nodes_by_ref", "_resolve", "reconciled_hashes", "root")

    def __init__(self, schema: SchemaDict | None, resolve: SchemaResolver | None = None) -> None:
        self._resolve = resolve
        self.reconciled_hashes: set[int] = set()
        """Hashes of stored field sets that are already reconciled with this schema."""
        self._nodes_by_ref: dict[tuple[str, str | None], TypedNode] = {}
        self.root = TypedNode(lambda node: self._fill_root(node, schema))

    def _fill_root(self, node: TypedNode, schema: SchemaDict | None) -> None:
        reference = _reference_name(schema) if schema is not None else ""
        target = self._resolve(reference) if reference and self._resolve else schema
        if target is None:
            _fill_deduced(node)
        elif reference:
            self._fill(node, target, False, _always_written_fields(struct_of(reference), target))
        else:
            self._fill(node, target, False, _always_written_fields(struct_of_kind(target), {}))
        node.fields |= {name: TypedField("f:" + name, _STRING_NODE, MISSING) for name in ("apiVersion", "kind")}
        node.fields["metadata"] = TypedField("f:metadata", OBJECT_META, {})

    def _node(self, schema: SchemaDict, preserve_unknown: bool) -> TypedNode:
        reference = _reference_name(schema)
        if reference:
            return self._reference_node(reference, schema.get("x-kubernetes-map-type"))
        return TypedNode(lambda node: self._fill(node, schema, preserve_unknown, {}))

    def _reference_node(self, name: str, map_type: str | None) -> TypedNode:
        """Nodes are shared by name, because schemas such as JSONSchemaProps are recursive."""
        if name == _OBJECT_META_REF:
            return OBJECT_META
        if name == _RAW_REF:
            return UNTYPED
        shared = self._nodes_by_ref.get((name, map_type))
        if shared is None:
            shared = TypedNode(lambda node: self._fill_reference(node, name, map_type))
            self._nodes_by_ref[name, map_type] = shared
        return shared

    def _fill_reference(self, node: TypedNode, name: str, map_type: str | None) -> None:
        target = self._resolve(name) if self._resolve else None
        if name == _QUANTITY_REF:
            node.scalar = "untyped"
        elif target is None:
            _fill_deduced(node)
        elif inner := _reference_name(target):
            self._fill_reference(node, inner, map_type)
        else:
            self._fill(node, target, False, _always_written_fields(struct_of(name), target))
        if map_type and node.is_map:
            node.granular = map_type != "atomic"

    def _fill(
        self, node: TypedNode, schema: SchemaDict, preserve_unknown: bool, always_written: Mapping[str, Any]
    ) -> None:
        preserve_unknown = preserve_unknown or schema.get("x-kubernetes-preserve-unknown-fields") is True
        kind = schema.get("type") or ""
        if type(kind) is list:
            kind = kind[0] if kind else ""
        if kind in ("", "object"):
            self._fill_map(node, schema, preserve_unknown, always_written)
        if kind in ("", "array"):
            self._fill_list(node, schema, preserve_unknown)
        if kind == "":
            node.scalar = "untyped"
        elif kind == "string":
            node.scalar = "string" if schema.get("format", "") in ("", "byte") else "untyped"
        elif not node.is_map and not node.is_list:
            node.scalar = _SCALARS.get(kind, "untyped")

    def _fill_map(
        self, node: TypedNode, schema: SchemaDict, preserve_unknown: bool, always_written: Mapping[str, Any]
    ) -> None:
        node.is_map = True
        node.granular = schema.get("x-kubernetes-map-type") != "atomic"
        properties: Mapping[str, SchemaDict] = schema.get("properties") or {}
        for name, member in properties.items():
            absent = _zero_value(member, always_written.get(name, MISSING))
            node.fields[name] = TypedField("f:" + name, self._node(member, preserve_unknown), absent)
        if schema.get("x-kubernetes-embedded-resource") is True:
            for name in ("apiVersion", "kind"):
                node.fields.setdefault(name, TypedField("f:" + name, _STRING_NODE, MISSING))
            node.fields["metadata"] = TypedField("f:metadata", OBJECT_META, MISSING)
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping) and extra:
            node.element_type = self._node(extra, preserve_unknown)
        elif extra is True or isinstance(extra, Mapping) or (extra is None and (preserve_unknown or not properties)):
            node.element_type = DEDUCED

    def _fill_list(self, node: TypedNode, schema: SchemaDict, preserve_unknown: bool) -> None:
        node.is_list = True
        items = schema.get("items")
        node.items = self._node(items, preserve_unknown) if items is not None else UNTYPED
        names = _list_keys(schema)
        if names is None:
            return
        node.associative = True
        if names:
            defaults = self._defaults(items or {})
            node.keys = tuple(ListMapKey(name, json_string(name) + ":", defaults.get(name)) for name in sorted(names))

    def _defaults(self, items: SchemaDict) -> dict[str, Any]:
        reference = _reference_name(items)
        target = self._resolve(reference) if reference and self._resolve else items
        properties: Mapping[str, SchemaDict] = (target or {}).get("properties") or {}
        return {name: member.get("default") for name, member in properties.items()}


def path_element_of(node: TypedNode, item: Any) -> str:
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
            return "k:{" + prefix + json_string(value) + "}"
    keys = []
    for name, prefix, default in node.keys:
        value = item.get(name, default)
        if type(value) is str:
            keys.append(prefix + json_string(value))
        elif value is not None or name in item:
            keys.append(prefix + json_value(value))
    if not keys:
        names = " ".join(f'"{key.name}"' for key in node.keys)
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return "k:{" + ",".join(keys) + "}"


def _reference_name(schema: SchemaDict) -> str:
    """Returns the component a schema refers to, also through the one-element `allOf` of OpenAPI v3."""
    reference = schema.get("$ref")
    if not reference:
        parts: list[SchemaDict] = schema.get("allOf") or []
        reference = parts[0].get("$ref") if len(parts) == 1 else None
    return str(reference).rpartition("/")[2] if reference else ""


def _always_written_fields(struct: GoStruct | None, schema: SchemaDict) -> Mapping[str, Any]:
    """Returns the fields Go always writes, with their zero values. For structs that are not in the table: required
    lists.
    """
    if struct is not None:
        return struct.always_written
    properties = schema.get("properties") or {}
    return {name: None for name in schema.get("required") or () if properties.get(name, {}).get("type") == "array"}


def _zero_value(member: SchemaDict, always: Any) -> Any:
    """Returns the value of an absent field. Go structs held by value exist in every object of a built-in kind, and so
    do the fields in `always_written`.
    """
    if _reference_name(member):
        return {} if member.get("default") == {} else MISSING
    return always


def _list_keys(schema: SchemaDict) -> tuple[str, ...] | None:
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


_STRING_SCHEMA: SchemaDict = {"type": "string"}
_BOOLEAN_SCHEMA: SchemaDict = {"type": "boolean"}
_INTEGER_SCHEMA: SchemaDict = {"type": "integer"}
_TIME_SCHEMA: SchemaDict = {"type": "string", "format": "date-time"}
_STRING_MAP_SCHEMA: SchemaDict = {"type": "object", "additionalProperties": _STRING_SCHEMA}
_OWNER_REFERENCE_SCHEMA: SchemaDict = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING_SCHEMA)
    | dict.fromkeys(("blockOwnerDeletion", "controller"), _BOOLEAN_SCHEMA),
}
_OBJECT_META_SCHEMA: SchemaDict = {
    "type": "object",
    "properties": dict.fromkeys(
        ("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"), _STRING_SCHEMA
    )
    | dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME_SCHEMA)
    | dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _INTEGER_SCHEMA)
    | dict.fromkeys(("annotations", "labels"), _STRING_MAP_SCHEMA)
    | {
        "finalizers": {"type": "array", "items": _STRING_SCHEMA, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": {}},
        "ownerReferences": {
            "type": "array",
            "items": _OWNER_REFERENCE_SCHEMA,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}
_BUILTIN_TYPES: Final = TypeSchema(None)
_STRING_NODE: Final = TypedNode(lambda node: _BUILTIN_TYPES._fill(node, _STRING_SCHEMA, False, {}))
OBJECT_META: Final = TypedNode(lambda node: _BUILTIN_TYPES._fill(node, _OBJECT_META_SCHEMA, False, {}))
