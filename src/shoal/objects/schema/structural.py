"""The structural part of a schema as a graph of nodes, which pruning, defaulting and list type checks walk.

A node says which keys of an object are kept, which defaults apply, and where to continue. Value validation reads the
schema itself. Scalars share a handful of leaves, so that a schema costs little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from shoal.objects.errors import ShoalError

Json = Any
JsonSchema = dict[str, Any]

MAX_DEPTH = 100
"""Maximum nesting of a schema. Deeper ones are rejected: neither the stack nor the JSON encoder could handle them."""

META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_SCALARS = frozenset(("string", "integer", "number", "boolean"))
MICRO_TIME = "micro-time"
_REF_PREFIX = "#/components/schemas/"


class SchemaTooDeepError(ShoalError):
    def __init__(self) -> None:
        super().__init__(f"the schema is nested deeper than {MAX_DEPTH} levels")


def _accept_any(_: dict[str, Json]) -> bool:
    return True


class StructuralNode:
    """A node of the schema. `known_keys` of None keeps every key. `additional` is the node of undeclared keys."""

    __slots__ = (
        "additional",
        "checked_children",
        "children",
        "covers_keys",
        "default",
        "default_size",
        "defaulting_children",
        "defaults",
        "has_defaults",
        "is_embedded",
        "is_flat",
        "is_leaf",
        "items",
        "keeps_null",
        "known_keys",
        "list_keys",
        "needs_check",
        "nullable",
    )  # fmt: skip

    def __init__(self, *, known_keys: frozenset[str] | None = frozenset(), keeps_null: bool = False) -> None:
        self.known_keys = known_keys
        self.children: dict[str, StructuralNode] = {}
        self.additional: StructuralNode | None = None
        self.items: StructuralNode | None = None
        self.keeps_null = keeps_null
        self.nullable = False
        self.default: Json = None
        self.default_size = 0
        """Bytes of the default as JSON."""
        self.is_embedded = False
        self.defaults: tuple[tuple[str, Json, bool, int], ...] = ()
        """(key, default, nullable, size) of the properties that have a default."""
        self.defaulting_children: tuple[tuple[str, StructuralNode], ...] = ()
        """Properties with defaults further inside."""
        self.has_defaults = False
        """There are defaults here or further inside."""
        self.list_keys: tuple[str, ...] | None = None
        """For a list: its keys if its type is map, () if it is a set."""
        self.is_leaf = False
        """A scalar or a list of scalars. An object in its place is not visited, because validation rejects it
        anyway.
        """
        self.covers_keys: Callable[[dict[str, Json]], bool] = _accept_any
        """True if all keys of an object are declared. It is the set's own method, since it is called for every
        object.
        """
        self.is_flat = False
        """All its values are leaves."""
        self.checked_children: tuple[tuple[str, StructuralNode], ...] = ()
        """Properties that lead to nodes with `needs_check`."""
        self.needs_check = False
        """This list or something inside must have unique items, or is an embedded resource."""


NO_SCHEMA = StructuralNode(keeps_null=True)
"""No schema at all: objects are emptied."""
NO_SCHEMA.items = NO_SCHEMA


def _leaf_node(nullable: bool) -> StructuralNode:
    node = StructuralNode(keeps_null=nullable)
    node.nullable = nullable
    node.items, node.is_leaf = NO_SCHEMA, True
    return node


LEAF, NULLABLE_LEAF = _leaf_node(False), _leaf_node(True)


def _is_flat(node: StructuralNode) -> bool:
    return all(child.is_leaf for child in node.children.values()) and (
        node.additional is None or node.additional.is_leaf
    )


def _closed_node(keys: str, **children: StructuralNode) -> StructuralNode:
    node = StructuralNode(known_keys=frozenset(keys.split()))
    node.children = dict.fromkeys(node.known_keys or (), LEAF) | children
    node.is_flat = _is_flat(node)
    node.covers_keys = (node.known_keys or frozenset()).issuperset
    return node


def _list_node(item: StructuralNode) -> StructuralNode:
    node = StructuralNode(known_keys=frozenset())
    node.items = item
    return node


def _string_map_node() -> StructuralNode:
    node = StructuralNode(known_keys=None)
    node.additional, node.is_flat = LEAF, True
    return node


OBJECT_META = _closed_node(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp"
    " deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
    labels=_string_map_node(),
    annotations=_string_map_node(),
    ownerReferences=_list_node(_closed_node("apiVersion kind name uid controller blockOwnerDeletion")),
    finalizers=StructuralNode(),
    managedFields=_list_node(
        _closed_node(
            "manager operation apiVersion time fieldsType fieldsV1 subresource",
            fieldsV1=StructuralNode(known_keys=None),
        )
    ),
)


class SchemaDefinitions:
    """Named schemas that `$ref`s refer to, fetched by `resolve` on first use and cached.

    One per OpenAPI document: kinds compiled with the same definitions share their nodes.
    """

    def __init__(self, resolve: Callable[[str], JsonSchema]) -> None:
        self._resolve = resolve
        self._schemas: dict[str, JsonSchema] = {}
        self.nodes: dict[str, StructuralNode] = {}

    def schema(self, ref: str) -> JsonSchema:
        name = ref.removeprefix(_REF_PREFIX)
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = self._resolve(name)
            if name.endswith(".MicroTime"):
                # Published like any time, but parsed more strictly.
                schema = self._schemas[name] = {**schema, "format": MICRO_TIME}
            elif name.endswith(".RawExtension"):
                # Published as an object, but any value is accepted.
                schema = self._schemas[name] = {key: value for key, value in schema.items() if key != "type"}
        return schema


def reference_of(schema: JsonSchema) -> str:
    """Returns the `$ref` of a schema, also in the form `allOf: [{$ref}]` that OpenAPI v3 uses beside other keys."""
    ref = schema.get("$ref")
    if ref is None:
        parts = schema.get("allOf")
        if parts and len(parts) == 1:
            ref = parts[0].get("$ref")
    return ref or ""


class StructuralBuilder:
    """Builds the nodes of one schema. With definitions the schema is a built-in's: objects without properties are
    free-form, and zero defaults only state Go's zero value.
    """

    def __init__(self, definitions: SchemaDefinitions | None) -> None:
        self._definitions = definitions
        self._nodes: list[StructuralNode] = []

    def build(self, schema: JsonSchema, *, root: bool) -> StructuralNode:
        """`root`: the schema is that of a whole resource, which has apiVersion, kind and metadata without declaring
        them.
        """
        node = self._build_node(schema, root=root)
        self._propagate_flags(node if root else None)
        return node

    def _build_node(self, schema: JsonSchema, *, root: bool = False, preserve_unknown: bool = False) -> StructuralNode:
        ref = reference_of(schema) if self._definitions else ""
        if ref and self._definitions:
            return self._build_referenced(self._definitions, ref, root)
        kind = schema.get("type", "")
        if not root and kind in _SCALARS and schema.get("default") is None:
            return NULLABLE_LEAF if schema.get("nullable") else LEAF
        return self._fill(StructuralNode(), schema, root, preserve_unknown)

    def _build_referenced(self, definitions: SchemaDefinitions, ref: str, root: bool) -> StructuralNode:
        node = definitions.nodes.get(ref)
        if node is None or root:
            target = definitions.schema(ref)
            node = StructuralNode()
            if not root:
                definitions.nodes[ref] = node
            self._fill(node, target, root, False)
        return node

    def _fill(self, node: StructuralNode, schema: JsonSchema, root: bool, preserve_unknown: bool) -> StructuralNode:
        self._nodes.append(node)
        properties = {key: self._build_node(sub) for key, sub in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        preserve = (
            preserve_unknown or bool(schema.get("x-kubernetes-preserve-unknown-fields")) or self._is_free_form(schema)
        )
        node.is_embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
        node.nullable = bool(schema.get("nullable"))
        node.default = self._default_of(schema)
        node.default_size = len(orjson.dumps(node.default)) if node.default is not None else 0
        node.keeps_null = node.nullable or node.default is not None
        node.children = properties
        if node.is_embedded:
            node.children = properties | {"apiVersion": LEAF, "kind": LEAF, "metadata": OBJECT_META}
        if additional is not None:
            node.additional = self._build_node(additional) if isinstance(additional, dict) else NO_SCHEMA
        node.known_keys = None if preserve or additional is not None else frozenset(node.children)
        node.items = self._build_items(schema, preserve)
        kind = schema.get("type")
        node.is_leaf = kind in _SCALARS or (kind == "array" and node.items is None and not preserve)
        node.is_leaf = node.is_leaf or bool(schema.get("x-kubernetes-int-or-string"))
        node.defaults = tuple(
            (key, each.default, each.nullable, len(key) + each.default_size)
            for key, each in properties.items()
            if each.default is not None
        )
        node.defaulting_children = tuple(properties.items())
        # List types of built-ins only control merging: duplicate ports or variables are allowed, with a warning.
        list_type = schema.get("x-kubernetes-list-type") if self._definitions is None else None
        if list_type == "map":
            node.list_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        elif list_type == "set":
            node.list_keys = ()
        return node

    def _build_items(self, schema: JsonSchema, preserve: bool) -> StructuralNode | None:
        items = schema.get("items")
        if isinstance(items, dict):
            # A preserving list also keeps unknown fields of its items, but not of objects inside them.
            item = self._build_node(items, preserve_unknown=preserve)
            return None if item is LEAF or item is NULLABLE_LEAF else item
        return None if preserve else NO_SCHEMA

    def _is_free_form(self, schema: JsonSchema) -> bool:
        if self._definitions is None or "properties" in schema or "additionalProperties" in schema:
            return False
        return bool(schema.get("type", "object") == "object")

    def _default_of(self, schema: JsonSchema) -> Json:
        value = schema.get("default")
        return None if self._definitions is not None and not value else value

    def _propagate_flags(self, root: StructuralNode | None) -> None:
        """Keeps in `defaulting_children` only nodes that lead to a default, and marks nodes that lead to a keyed list.
        Graphs of definitions have cycles, so this iterates to a fixed point instead of recursing. Children come
        after their parents in `_nodes`, so one backward pass is nearly always enough.
        """
        for node in self._nodes:
            node.has_defaults = bool(node.defaults) or _replaces_null(node.items) or _replaces_null(node.additional)
            node.needs_check = node.list_keys is not None or (node.is_embedded and node is not root)
        changed = True
        while changed:
            changed = False
            for node in reversed(self._nodes):
                for child in _adjacent_nodes(node):
                    if (child.has_defaults and not node.has_defaults) or (child.needs_check and not node.needs_check):
                        node.has_defaults |= child.has_defaults
                        node.needs_check |= child.needs_check
                        changed = True
        for node in self._nodes:
            node.checked_children = tuple((key, child) for key, child in node.defaulting_children if child.needs_check)
            node.defaulting_children = tuple(
                (key, child) for key, child in node.defaulting_children if child.has_defaults
            )
            node.is_flat = _is_flat(node)
            if node.known_keys is not None:
                node.covers_keys = node.known_keys.issuperset


def _replaces_null(node: StructuralNode | None) -> bool:
    """A null list item or map value is replaced by its default."""
    return node is not None and node.default is not None


def _adjacent_nodes(node: StructuralNode) -> Iterator[StructuralNode]:
    for _, child in node.defaulting_children:
        yield child
    if node.additional is not None:
        yield node.additional
    if node.items is not None:
        yield node.items
