"""Requests made by dice from the published schemas: fields that nobody would think to set, right and wrong ones.

The same every time: each story has its own seed, from its name.
"""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import APPLY, JSON_PATCH, MERGE, NAMESPACE, STRATEGIC, TABLE, Kind, kinds
from tests.serving import widget_definition

CREATES, WALKS = 8, 2
MORE = {"pods": 20, "services": 16, "deployments": 12, "widgets": 16}
WORDS = (
    "a", "web", "", "Not Valid", "a/b", "example.com/x", "x" * 64, "y" * 254, "-a", "a.b.c", "10.1.2.3", "::1", "10.0.0.0/8",
    "80", "1Gi", "/data", "../up", "True", "IfNotPresent", "Always", "Never", "TCP", "In", "Exists", "100%", "sub.example.com",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 5, 30, 80, 443, 600, -1, 65535, 65536, 2147483647)
QUANTITIES = ("1", "100m", "1Gi", "0", "-1", "1.5", 2, "2k", "1e3", "500Mi", "abc", "")
_CAMEL = re.compile(r"\b[A-Z][a-z]+[A-Za-z]*\b")
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_LEFT = ("apiVersion", "kind", "metadata", "status")


def stories() -> Iterator[Story]:
    for kind in kinds():
        title = f"{kind.plural}.{kind.group}".rstrip(".")
        schema = _schema(kind)
        for number in range(MORE.get(kind.plural, CREATES)):
            name = f"{title}: generated {number}"
            yield Story(name, (_create(kind, schema, random.Random(name)),))
        for number in range(WALKS):
            name = f"{title}: walk {number}"
            yield Story(name, tuple(_walk(kind, schema, random.Random(name), f"walk-{number}")))
    for number in range(100):
        name = f"lists: generated {number}"
        yield Story(name, (_list(random.Random(name)),))


def _schema(kind: Kind) -> Object:
    if kind.custom:
        found: Object = widget_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return found
    return builtin_schema(schema_name(kind.group, kind.version, kind.kind))


def _create(kind: Kind, schema: Object, dice: random.Random) -> Ask:
    body = kind.object("generated")
    for _ in range(dice.choice((1, 1, 2))):
        body = changed(dice, schema, body, top=True)
    checked = dice.choice(("Strict", "Warn", "Ignore", ""))
    more = f"&fieldValidation={checked}" if checked else ""
    return Ask("POST", f"{kind.collection}?dryRun=All{more}", body)


def _walk(kind: Kind, schema: Object, dice: random.Random, name: str) -> Iterator[Ask]:
    """An object and what becomes of it."""
    path = f"{kind.collection}/{kind.named(name)}"
    body = kind.object(name, labels={"app": "web"})
    yield Ask("POST", kind.collection, body)
    for _ in range(6):
        new = changed(dice, schema, body, top=True)
        difference = {key: value for key, value in new.items() if value != body.get(key)} or {"metadata": {}}
        verb = dice.choice(("PUT", "merge", "strategic", "json", "apply", "read"))
        if verb == "PUT":
            yield Ask("PUT", path, new)
        elif verb == "merge":
            yield Ask("PATCH", path, difference, {"Content-Type": MERGE})
        elif verb == "strategic":
            yield Ask("PATCH", path, difference, {"Content-Type": STRATEGIC})
        elif verb == "json":
            yield Ask("PATCH", path, _operations(dice, difference), {"Content-Type": JSON_PATCH})
        elif verb == "apply":
            query = urlencode({"fieldManager": dice.choice(("one", "two")), "force": dice.choice(("true", "false"))})
            yield Ask("PATCH", f"{path}?{query}", new, {"Content-Type": APPLY})
        else:
            yield Ask("GET", path, headers={"Accept": TABLE})
    yield Ask("GET", path)
    yield Ask("DELETE", f"{path}?gracePeriodSeconds=0")


def _operations(dice: random.Random, difference: Object) -> list[Object]:
    made: list[Object] = []
    for key, value in difference.items():
        if isinstance(value, dict) and value:
            inner = dice.choice(sorted(value))
            made.append({"op": dice.choice(("add", "replace")), "path": f"/{key}/{inner}", "value": value[inner]})
        else:
            made.append({"op": dice.choice(("add", "replace", "remove")), "path": f"/{key}", "value": value})
    return made


def _list(dice: random.Random) -> Ask:
    """Options, right and wrong, at a kind of each sort."""
    kind = dice.choice([kind for kind in kinds() if kind.plural in ("configmaps", "widgets", "leases")])
    options = {
        "labelSelector": ("a=b", "a", "!a", "a in (b,c)", "a notin (b)", "a>1", "a>x", "a==b,c!=d", "a in ()", "=", "a b", "é"),
        "fieldSelector": ("metadata.name=x", "metadata.name!=x", "metadata.namespace=pairs", "spec.no=1", "x", "=", "a=b=c"),
        "limit": ("1", "0", "-1", "x", "99999999999999999999"),
        "continue": ("x", "bm90IGl0"),
        "resourceVersion": ("0", "1", "x", "-1", "", "99999999999"),
        "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
        "timeoutSeconds": ("1", "x", "0"),
        "allowWatchBookmarks": ("true", "x"),
        "sendInitialEvents": ("true", "false", "x"),
        "pretty": ("true", "1", "x"),
        "unknown": ("1",),
    }  # fmt: skip
    chosen = dice.sample(sorted(options), dice.choice((1, 1, 2, 3)))
    query = urlencode({name: dice.choice(options[name]) for name in chosen})
    return Ask("GET", f"{kind.collection.replace(NAMESPACE, 'nobody')}?{query}")


def changed(dice: random.Random, schema: Object, value: Any, *, top: bool = False) -> Any:
    """The value with one place of it made anew."""
    schema = resolved(schema)
    if isinstance(value, list) and value and dice.random() < 0.8:
        made = copy.copy(value)
        made[0] = changed(dice, schema.get("items") or {}, value[0])
        return made
    properties = schema.get("properties")
    if not isinstance(value, dict) or not properties:
        return generated(dice, schema, 2)
    names = [name for name in sorted(properties) if not (top and name in _LEFT)]
    if not names:
        return value
    present = [name for name in names if name in value]
    name = dice.choice(present) if present and dice.random() < 0.5 else dice.choice(names)
    if name in value and dice.random() < 0.06:
        return {key: each for key, each in value.items() if key != name}
    if name in value and dice.random() < 0.75:
        return {**value, name: changed(dice, properties[name], value[name])}
    return {**value, name: generated(dice, properties[name], 2)}


def generated(dice: random.Random, schema: Object, depth: int) -> Any:
    if dice.random() < 0.02:
        return dice.choice(("x", 7, True, None, [], {}, 1.5))
    described = str(schema.get("description", ""))
    schema = resolved(schema)
    if schema.get("$name") == _QUANTITY:
        return dice.choice(QUANTITIES)
    if schema.get("format") == "int-or-string":
        return dice.choice(("50%", "http", 80, 1, 0, -1, "150%", "web"))
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        needed = set(schema.get("required") or ())
        chance = 0.35 if depth > 0 else 0.1
        return {
            name: generated(dice, each, depth - 1)
            for name, each in sorted(schema["properties"].items())
            if (name in needed and dice.random() < 0.95) or dice.random() < chance
        }
    if kind == "object":
        inner = schema.get("additionalProperties") or {"type": "string"}
        return {dice.choice(("a", "cpu", "memory", "b.c/d", "Bad Key")): generated(dice, inner, 0)}
    if kind == "array":
        return [generated(dice, schema.get("items") or {}, depth - 1) for _ in range(dice.choice((0, 1, 1, 2)))]
    return _scalar(dice, schema, described)


def _scalar(dice: random.Random, schema: Object, described: str) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        return dice.random() < 0.5
    if kind in ("integer", "number"):
        return dice.choice(NUMBERS)
    if schema.get("format") == "date-time":
        return dice.choice(("2024-01-02T03:04:05Z", "yesterday"))
    if schema.get("format") == "byte":
        return dice.choice(("eA==", "", "no base64!"))
    if "enum" in schema and dice.random() < 0.7:
        return dice.choice(schema["enum"])
    # Where only certain words are right, the description says them.
    said = sorted(set(_CAMEL.findall(described)))
    return dice.choice(said) if said and dice.random() < 0.5 else dice.choice(WORDS)


def resolved(schema: Object) -> Object:
    """Without references; `$name` says where it led."""
    for part in schema.get("allOf") or ():
        if "$ref" in part:
            return resolved(part)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**resolved(builtin_schema(name)), "$name": name}
    return schema
