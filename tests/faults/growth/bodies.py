"""Bodies that are large before anybody knows what they say: YAML, JSON, protobuf and compressed ones."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

from tests.faults.growth.cases import PATCHES, PROTOBUF, Case, Group, Step, Steps, send
from tests.faults.growth.texts import LIGHT, LIGHT_YAML, MB, NEAR_LIMIT, size_name

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"grown"},'
SIZES = (LIGHT, MB, NEAR_LIMIT)

YAML: dict[str, Callable[[int], str]] = {
    "block list": lambda size: "data:\n" + "- a\n" * (size // 4),
    "block map": lambda size: "data:\n" + "".join(f" k{number}: a\n" for number in range(size // 11)),
    "flow list": lambda size: "data: [" + "a," * (size // 2) + "]",
    "flow map": lambda size: "data: {" + "a," * (size // 2) + "}",
    "empty lists": lambda size: "data: [" + "[]," * (size // 3) + "]",
    "open brackets": lambda size: "[" * size,
    "nested 500": lambda size: "data: [" + ("[" * 500 + "]" * 500 + ",") * (size // 1001) + "]",
    "nested blocks": lambda size: "".join(" " * depth + "a:\n" for depth in range(int((2 * size) ** 0.5))),
    "aliases": lambda size: "a: &a [a]\nb: [" + "*a," * (size // 3) + "]",
    "laughs": lambda size: "a0: &a0 [a,a]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 40)),
    "merges": lambda size: "a: &a {a: a}\nb:\n" + "  <<: *a\n" * (size // 9),
    "comments": lambda size: "# a\n" * (size // 4) + "a: a",
    "blank lines": lambda size: "\n" * size + "a: a",
    "spaces": lambda size: " " * size + "a: a",
    "documents": lambda size: "---\n" * (size // 4),
    "tags": lambda size: "data: [" + "!!str a," * (size // 8) + "]",
    "tag": lambda size: "data: !" + "a" * size + " a",
    "anchor": lambda size: "data: &" + "a" * size + " a",
    "long scalar": lambda size: "data: " + "a" * size,
    "folded": lambda size: "data: >\n" + " a\n" * (size // 3),
    "literal": lambda size: "data: |\n" + " a\n" * (size // 3),
    "quoted": lambda size: 'data: "' + "\\x41" * (size // 4) + '"',
    "quoted lines": lambda size: 'data: "' + "a\n " * (size // 3) + '"',
    "words": lambda size: "data: " + "a " * (size // 2),
    "words lines": lambda size: "data:\n" + " a\n" * (size // 3),
    "colons": lambda size: "data: " + "a:" * (size // 2),
    "digits": lambda size: "data: " + "1" * size,
    "sexagesimal": lambda size: "data: 1" + ":1" * (size // 2),
    "underscores": lambda size: "data: 1" + "_" * size,
    "times": lambda size: "data: [" + "2024-01-01," * (size // 11) + "]",
    "complex keys": lambda size: "? a\n: a\n" * (size // 8),
    "same key": lambda size: "a: a\n" * (size // 5),
    "percents": lambda size: "%" * size,
    "directives": lambda size: "%A a\n" * (size // 5) + "---\na: a",
}

JSON: dict[str, Callable[[int], str]] = {
    "unknown fields": lambda size: HEAD + ",".join(f'"k{n}":1' for n in range(size // 10)) + "}",
    "unknown objects": lambda size: HEAD + ",".join(f'"k{n}":{{}}' for n in range(size // 11)) + "}",
    "same field": lambda size: HEAD + ",".join('"data":{}' for _ in range(size // 10)) + "}",
    "same key": lambda size: HEAD + '"data":{' + ",".join('"a":"a"' for _ in range(size // 8)) + "}}",
    "unknown metadata": lambda size: (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"grown",'
        + ",".join(f'"k{n}":1' for n in range(size // 10))
        + "}}"
    ),
    "numbers": lambda size: HEAD + '"data":[' + "1," * (size // 2) + "1]}",
    "number": lambda size: HEAD + '"data":' + "1" * size + "}",
    "fraction": lambda size: HEAD + '"data":0.' + "1" * size + "}",
    "exponents": lambda size: HEAD + '"data":[' + "1e9," * (size // 4) + "1]}",
    "open lists": lambda size: "[" * size,
    "open objects": lambda size: '{"a":' * (size // 5),
    "nested 900": lambda size: HEAD + '"data":[' + ("[" * 900 + "]" * 900 + ",") * (size // 1801) + "1]}",
    "escapes": lambda size: HEAD + '"data":{"a":"' + "\\u0041" * (size // 6) + '"}}',
    "surrogates": lambda size: HEAD + '"data":{"a":"' + "\\ud800" * (size // 6) + '"}}',
    "spaces": lambda size: " " * size + HEAD + '"data":{}}',
    "list of kinds": lambda size: '{"apiVersion":"v1","kind":"List","items":[' + "{}," * (size // 3) + "{}]}",
    "wrong kind": lambda size: '{"apiVersion":"v1","kind":"' + "a" * size + '"}',
    "wrong version": lambda size: '{"apiVersion":"' + "a/" * (size // 2) + '","kind":"ConfigMap"}',
    "wrong types": lambda size: HEAD + '"data":{' + ",".join(f'"k{n}":1' for n in range(size // 10)) + "}}",
}

BINARY: dict[str, Callable[[int], bytes]] = {
    "unknown fields": lambda size: b"k8s\0" + b"\x7a\x00" * (size // 2),
    "empty types": lambda size: b"k8s\0" + b"\x0a\x00" * (size // 2),
    "metadata": lambda size: _wrapped(b"\x0a\x00" * (size // 2)),
    "data": lambda size: _wrapped(b"\x12\x06\x0a\x01a\x12\x01b" * (size // 8)),
    "owners": lambda size: _wrapped(_field(1, b"\x6a\x00" * (size // 2))),
    "groups": lambda size: _wrapped(b"\x0b" * size),
    "varints": lambda size: _wrapped(b"\x08" + b"\xff" * size),
    "zeros": lambda size: b"k8s\0" + b"\0" * size,
}


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _wrapped(raw: bytes) -> bytes:
    return b"k8s\0" + _field(1, _field(1, b"v1") + _field(2, b"ConfigMap")) + _field(2, raw)


def body_cases() -> Iterator[Case]:
    group = Group("bodies", _setup)
    for size in SIZES:
        for name, make in YAML.items():
            small = LIGHT_YAML if size == LIGHT else size
            yield Case(group, f"YAML {name} {size_name(small)} create", _create(make, small, "application/yaml"))
            if size == MB:
                yield Case(group, f"YAML {name} {size_name(size)} apply", _apply(make, size))
        for name, make in JSON.items():
            yield Case(group, f"JSON {name} {size_name(size)} create", _create(make, size, "application/json"))
        for name, binary in BINARY.items():
            yield Case(group, f"protobuf {name} {size_name(size)} create", _create(binary, size, PROTOBUF))
    for validation in ("Strict", "Ignore"):
        for name in ("unknown fields", "same field", "same key", "unknown metadata"):
            steps = _create(JSON[name], MB, "application/json", f"&fieldValidation={validation}")
            yield Case(group, f"JSON {name} 1M {validation}", steps)
    for name in ("open lists", "numbers", "unknown fields"):
        for target in ("DELETE base", "DELETE collection", "POST token", "POST review", "PUT status", "POST eviction"):
            yield Case(group, f"JSON {name} 1M {target}", _elsewhere(JSON[name], target, "application/json"))
            yield Case(group, f"YAML {name} 1M {target}", _elsewhere(JSON[name], target, "application/yaml"))
    for name in ("spaces", "numbers", "unknown fields"):
        yield Case(group, f"gzip {name} 300M create", _compressed(name))


def _setup() -> Iterator[Step]:
    yield send("base", "POST", CONFIG_MAPS, HEAD.replace("grown", "base") + '"data":{"a":"b"}}')


def _create(make: Callable[[int], str | bytes], size: int, content: str, query: str = "") -> Steps:
    return lambda: [send("create", "POST", f"{CONFIG_MAPS}?dryRun=All{query}", make(size), content)]


def _apply(make: Callable[[int], str], size: int) -> Steps:
    path = f"{CONFIG_MAPS}/grown?fieldManager=a&dryRun=All"
    return lambda: [send("apply", "PATCH", path, make(size), PATCHES["apply"])]


def _elsewhere(make: Callable[[int], str], target: str, content: str) -> Steps:
    method, _, where = target.partition(" ")
    path = {
        "base": f"{CONFIG_MAPS}/base",
        "collection": f"{CONFIG_MAPS}?labelSelector=a=b",
        "token": "/api/v1/namespaces/default/serviceaccounts/default/token",
        "review": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "status": "/api/v1/namespaces/default/status",
        "eviction": "/api/v1/namespaces/default/pods/a/eviction",
    }[where]
    joiner = "&" if "?" in path else "?"
    return lambda: [send(where, method, f"{path}{joiner}dryRun=All", make(MB), content)]


def _compressed(name: str) -> Steps:
    def steps() -> Iterator[Step]:
        piece = {"spaces": b" " * MB, "numbers": b"1," * (MB // 2), "unknown fields": b'"a":1,' * (MB // 6)}[name]
        body = gzip.compress(b"{" + piece * 300)
        yield send("create", "POST", f"{CONFIG_MAPS}?dryRun=All", body, Content_Encoding="gzip")

    return steps
