"""Where a value can grow: every field of a kind's schema, and the smallest objects that lead there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.kinds.builtin_schemas import builtin_schema

Object = dict[str, Any]
Path = tuple[str, ...]

ITEM, VALUE = "[]", "{}"
GROWN = "@@grown@@"
NUMBER = "@@number@@"
LONGEST = 25
"""Fields deeper than this are not looked for."""
SPECIAL: dict[str, Any] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "1",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 1,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "2024-01-02T03:04:05Z",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "2024-01-02T03:04:05.000000Z",
}
KEYS = ("name", "key", "ip", "uid", "type", "path", "mountPath", "containerPort", "port", "topologyKey")
"""Fields that make elements of a list different where the schema names none."""
SHAPES: dict[str, Any] = {
    "finalizers": f"example.com/a{NUMBER}",
    "requests": f"{NUMBER}",
    "limits": f"{NUMBER}",
    "hard": f"{NUMBER}",
    "capacity": f"{NUMBER}",
    "cidrs": f"10.0.0.{NUMBER}/32",
    "stringData": f"a{NUMBER}",
}
"""Elements that are valid where the schema does not tell how they must look, by the field's name."""


@dataclass(frozen=True)
class Field:
    path: Path
    schema: Object
    """Of the field itself."""
    kind: str
    """string, list or map."""
    owner: str
    """The definition that has the field, and the rest of the way: the same field of another kind has the same."""

    @property
    def name(self) -> str:
        return ".".join(self.path).replace(f".{ITEM}", ITEM).replace(f".{VALUE}", VALUE)


def walk(schema: Object, path: Path, owner: str, inside: tuple[str, ...]) -> Iterator[Field]:
    """A definition inside of itself is entered once."""
    name, schema = resolve(schema)
    if name:
        if name in inside or len(path) > LONGEST:
            return
        inside, owner = (*inside, name), name
    if name in SPECIAL:
        yield Field(path, {"type": "string"}, "string", f"{inside[-2]} {path[-1]}")
        return
    own = f"{owner} {'.'.join(path[-2:]) if path and path[-1] in (ITEM, VALUE) else ''.join(path[-1:])}"
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "array":
        yield Field(path, schema, "list", own)
        yield from walk(schema["items"], (*path, ITEM), owner, inside)
    elif kind == "object":
        for key, member in schema.get("properties", {}).items():
            yield from walk(member, (*path, key), owner, inside)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            yield Field(path, schema, "map", own)
            yield from walk(more, (*path, VALUE), owner, inside)
    elif kind == "string" and path not in (("apiVersion",), ("kind",)):
        yield Field(path, schema, "string", own)


def resolve(schema: Object) -> tuple[str, Object]:
    """The definition a schema refers to, by name."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            name = str(part["$ref"]).rpartition("/")[2]
            return name, builtin_schema(name)
    return "", schema


def least(schema: Object, inside: tuple[str, ...] = ()) -> Any:
    """The smallest value of a schema: what it requires and nothing else."""
    name, schema = resolve(schema)
    if name in SPECIAL:
        return SPECIAL[name]
    if name in inside:
        return {}
    inside = (*inside, name) if name else inside
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        return {key: least(properties.get(key, {}), inside) for key in schema.get("required", ())}
    plain: dict[str, Any] = {"array": [], "string": "a", "integer": 1, "number": 1, "boolean": True}
    if kind == "string" and schema.get("format") == "byte":
        return "YQ=="
    return plain.get(kind, "a")


def distinct(schema: Object, path: Path) -> Callable[[int], str]:
    """Elements of a list or a map as JSON text, each with keys of its own."""
    return numbered(SHAPES.get(path[-1]) or _keyed(schema))


def numbered(value: Any) -> Callable[[int], str]:
    """JSON text in which a number replaces its place, with and without quotes."""
    pieces = json.dumps(value).replace(f'"{NUMBER}int"', NUMBER).split(NUMBER)

    def one(number: int) -> str:
        return str(number + 1).join(pieces)

    return one


def _keyed(schema: Object) -> Any:
    merge = schema.get("x-kubernetes-list-map-keys") or [schema.get("x-kubernetes-patch-merge-key", "")]
    inner: Object = schema.get("items") or schema.get("additionalProperties") or schema
    _, items = resolve(inner)
    element = least(inner)
    if items.get("format") == "byte":
        return element
    if not isinstance(element, dict):
        return f"{NUMBER}int" if isinstance(element, int) and element is not True else f"a{NUMBER}"
    properties = items.get("properties", {})
    keys = [key for key in merge if key in properties] or [key for key in KEYS if key in properties]
    keys = keys or [key for key, member in properties.items() if member.get("type") == "string"]
    for key in keys[:3]:
        whole = properties[key].get("type") == "integer"
        if whole or not properties[key].get("enum"):
            element[key] = f"{NUMBER}int" if whole else f"a{NUMBER}"
    return element


def product(schema: Object, count: int) -> Any:
    """An element all of whose own lists are long, or None if it has fewer than two."""
    _, items = resolve(schema["items"])
    lists = {key: part for key, part in items.get("properties", {}).items() if part.get("type") == "array"}
    if len(lists) < 2:
        return None
    element = least(schema["items"])
    for key, part in lists.items():
        one = distinct(part, (key,))
        element[key] = [json.loads(one(number)) for number in range(count)]
    return element


def placed(sample: Object, schema: Object, path: Path) -> str:
    """The sample as JSON text with GROWN, unquoted, at the path. What leads there is made if it is missing."""
    whole = json.loads(json.dumps(sample))
    holder, key = _descend(whole, schema, path)
    holder[key] = GROWN
    return json.dumps(whole).replace(f'"{GROWN}"', GROWN)


def _descend(holder: Any, schema: Object, path: Path) -> tuple[Any, Any]:
    _, schema = resolve(schema)
    key: Any = 0 if path[0] == ITEM else "a" if path[0] == VALUE else path[0]
    if path[0] == ITEM:
        member = schema["items"]
    elif path[0] == VALUE:
        member = schema["additionalProperties"]
    else:
        member = schema.get("properties", {}).get(key, {})
    if key == 0 and not holder:
        holder.append(least(member))
    if len(path) == 1:
        return holder, key
    if key != 0 and not isinstance(holder.get(key), dict | list):
        holder[key] = [] if path[1] == ITEM else least(member)
    if key == 0 and not isinstance(holder[0], dict | list):
        holder[0] = [] if path[1] == ITEM else {}
    return _descend(holder[key], member, path[1:])
