"""The structural part of a schema as a graph of nodes, which pruning, defaulting and list type checks walk.

A node says which keys of an object are kept, which defaults apply, and where to continue. Value validation reads the
schema itself. Scalars share a handful of leaves, so that a schema costs little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shoal.objects.errors import ShoalError

Json = Any
JsonSchema = dict[str, Any]

MAX_DEPTH = 100
"""Maximum nesting of a schema. Deeper ones are rejected: neither the stack nor the JSON encoder could handle them."""

META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_SCALARS = frozenset(("string", "integer", "number", "boolean"))
MICRO_TIME = "micro-time"
_REF_PREFIX = "#/components/schemas/"


class SchemaTooDeep(ShoalError):
    def __init__(self) -> None:
        super().__init__(f"the schema is nested deeper than {MAX_DEPTH} levels")


def _anything(_: dict[str, Json]) -> bool:
    return True


class Node:
    """A node of the schema. `known_keys` of None keeps every key. `additional` is the node of undeclared keys."""

    __slots__ = (
        "below", "checked", "children", "covers", "default", "defaulting", "embedded", "extra", "fill", "flat", "items",
        "keeps_null", "keyed", "leaf", "look", "names", "nullable",
    )  # fmt: skip

    def __init__(self, *, names: frozenset[str] | None = frozenset(), keeps_null: bool = False) -> None:
        self.names = names
        self.children: dict[str, Node] = {}
        self.extra: Node | None = None
        self.items: Node | None = None
        self.keeps_null = keeps_null
        self.nullable = False
        self.default: Json = None
        self.embedded = False
        self.fill: tuple[tuple[str, Json, bool], ...] = ()
        """(key, default, nullable) of the properties that have a default."""
        self.below: tuple[tuple[str, Node], ...] = ()
        """Properties with defaults further inside."""
        self.defaulting = False
        """There are defaults here or further inside."""
        self.keyed: tuple[str, ...] | None = None
        """For a list: its keys if its type is map, () if it is a set."""
        self.leaf = False
        """A scalar or a list of scalars. An object in its place is not visited, because validation rejects it
        anyway.
        """
        self.covers: Callable[[dict[str, Json]], bool] = _anything
        """True if all keys of an object are declared. It is the set's own method, since it is called for every
        object.
        """
        self.flat = False
        """All its values are leaves."""
        self.look: tuple[tuple[str, Node], ...] = ()
        """Properties that lead to nodes with `needs_check`."""
        self.checked = False
        """This list or something inside must have unique items, or is an embedded resource."""


NOTHING = Node(keeps_null=True)
"""No schema at all: objects are emptied."""
NOTHING.items = NOTHING


def _leaf(nullable: bool) -> Node:
    node = Node(keeps_null=nullable)
    node.nullable = nullable
    node.items, node.leaf = NOTHING, True
    return node


LEAF, NULLABLE_LEAF = _leaf(False), _leaf(True)


def _is_flat(node: Node) -> bool:
    return all(child.leaf for child in node.children.values()) and (node.extra is None or node.extra.leaf)


def _closed(keys: str, **children: Node) -> Node:
    node = Node(names=frozenset(keys.split()))
    node.children = dict.fromkeys(node.names or (), LEAF) | children
    node.flat = _is_flat(node)
    node.covers = (node.names or frozenset()).issuperset
    return node


def _list_of(item: Node) -> Node:
    node = Node(names=frozenset())
    node.items = item
    return node


def _map_of_strings() -> Node:
    node = Node(names=None)
    node.extra, node.flat = LEAF, True
    return node


OBJECT_META = _closed(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp"
    " deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
    labels=_map_of_strings(),
    annotations=_map_of_strings(),
    ownerReferences=_list_of(_closed("apiVersion kind name uid controller blockOwnerDeletion")),
    finalizers=Node(),
    managedFields=_list_of(
        _closed("manager operation apiVersion time fieldsType fieldsV1 subresource", fieldsV1=Node(names=None))
    ),
)


class Definitions:
    """Named schemas that `$ref`s refer to, fetched by `resolve` on first use and cached.

    One per OpenAPI document: kinds compiled with the same definitions share their nodes.
    """

    def __init__(self, resolve: Callable[[str], JsonSchema]) -> None:
        self._resolve = resolve
        self._schemas: dict[str, JsonSchema] = {}
        self.nodes: dict[str, Node] = {}

    def schema(self, ref: str) -> JsonSchema:
        name = ref.removeprefix(_REF_PREFIX)
        found = self._schemas.get(name)
        if found is None:
            found = self._schemas[name] = self._resolve(name)
            if name.endswith(".MicroTime"):
                # Published like any time, but parsed more strictly.
                found = self._schemas[name] = {**found, "format": MICRO_TIME}
            elif name.endswith(".RawExtension"):
                # Published as an object, but any value is accepted.
                found = self._schemas[name] = {key: value for key, value in found.items() if key != "type"}
        return found


def reference(schema: JsonSchema) -> str:
    """Returns the `$ref` of a schema, also in the form `allOf: [{$ref}]` that OpenAPI v3 uses beside other keys."""
    ref = schema.get("$ref")
    if ref is None:
        parts = schema.get("allOf")
        if parts and len(parts) == 1:
            ref = parts[0].get("$ref")
    return ref or ""


class Builder:
    """Builds the nodes of one schema. With definitions the schema is a built-in's: objects without properties are
    free-form, and zero defaults only state Go's zero value.
    """

    def __init__(self, definitions: Definitions | None) -> None:
        self._definitions = definitions
        self._made: list[Node] = []

    def build(self, schema: JsonSchema, *, root: bool) -> Node:
        """`root`: the schema is that of a whole resource, which has apiVersion, kind and metadata without declaring
        them.
        """
        node = self._node(schema, root=root)
        self._settle(node if root else None)
        return node

    def _node(self, schema: JsonSchema, *, root: bool = False, kept: bool = False) -> Node:
        ref = reference(schema) if self._definitions else ""
        if ref and self._definitions:
            return self._referenced(self._definitions, ref, root)
        kind = schema.get("type", "")
        if not root and kind in _SCALARS and schema.get("default") is None:
            return NULLABLE_LEAF if schema.get("nullable") else LEAF
        return self._fill(Node(), schema, root, kept)

    def _referenced(self, definitions: Definitions, ref: str, root: bool) -> Node:
        known = definitions.nodes.get(ref)
        if known is None or root:
            target = definitions.schema(ref)
            known = Node()
            if not root:
                definitions.nodes[ref] = known
            self._fill(known, target, root, False)
        return known

    def _fill(self, node: Node, schema: JsonSchema, root: bool, kept: bool) -> Node:
        self._made.append(node)
        properties = {key: self._node(sub) for key, sub in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        preserve = kept or bool(schema.get("x-kubernetes-preserve-unknown-fields")) or self._free_form(schema)
        node.embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
        node.nullable = bool(schema.get("nullable"))
        node.default = self._default(schema)
        node.keeps_null = node.nullable or node.default is not None
        node.children = properties
        if node.embedded:
            node.children = properties | {"apiVersion": LEAF, "kind": LEAF, "metadata": OBJECT_META}
        if additional is not None:
            node.extra = self._node(additional) if isinstance(additional, dict) else NOTHING
        node.names = None if preserve or additional is not None else frozenset(node.children)
        node.items = self._items(schema, preserve)
        kind = schema.get("type")
        node.leaf = kind in _SCALARS or (kind == "array" and node.items is None and not preserve)
        node.leaf = node.leaf or bool(schema.get("x-kubernetes-int-or-string"))
        node.fill = tuple((k, p.default, p.nullable) for k, p in properties.items() if p.default is not None)
        node.below = tuple(properties.items())
        # List types of built-ins only control merging: duplicate ports or variables are allowed, with a warning.
        list_type = schema.get("x-kubernetes-list-type") if self._definitions is None else None
        if list_type == "map":
            node.keyed = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        elif list_type == "set":
            node.keyed = ()
        return node

    def _items(self, schema: JsonSchema, preserve: bool) -> Node | None:
        items = schema.get("items")
        if isinstance(items, dict):
            # A preserving list also keeps unknown fields of its items, but not of objects inside them.
            item = self._node(items, kept=preserve)
            return None if item is LEAF or item is NULLABLE_LEAF else item
        return None if preserve else NOTHING

    def _free_form(self, schema: JsonSchema) -> bool:
        if self._definitions is None or "properties" in schema or "additionalProperties" in schema:
            return False
        return bool(schema.get("type", "object") == "object")

    def _default(self, schema: JsonSchema) -> Json:
        value = schema.get("default")
        return None if self._definitions is not None and not value else value

    def _settle(self, root: Node | None) -> None:
        """Keeps in `defaulting_children` only nodes that lead to a default, and marks nodes that lead to a keyed list.
        Graphs of definitions have cycles, so this iterates to a fixed point instead of recursing. Children come
        after their parents in `_nodes`, so one backward pass is nearly always enough.
        """
        for node in self._made:
            node.defaulting = bool(node.fill) or _turns_null(node.items) or _turns_null(node.extra)
            node.checked = node.keyed is not None or (node.embedded and node is not root)
        growing = True
        while growing:
            growing = False
            for node in reversed(self._made):
                for child in _around(node):
                    if (child.defaulting and not node.defaulting) or (child.checked and not node.checked):
                        node.defaulting |= child.defaulting
                        node.checked |= child.checked
                        growing = True
        for node in self._made:
            node.look = tuple((key, child) for key, child in node.below if child.checked)
            node.below = tuple((key, child) for key, child in node.below if child.defaulting)
            node.flat = _is_flat(node)
            if node.names is not None:
                node.covers = node.names.issuperset


def _turns_null(node: Node | None) -> bool:
    """A null list item or map value is replaced by its default."""
    return node is not None and node.default is not None


def _around(node: Node) -> Iterator[Node]:
    for _, child in node.below:
        yield child
    if node.extra is not None:
        yield node.extra
    if node.items is not None:
        yield node.items
