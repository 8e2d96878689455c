"""The OpenAPI v3 schemas of the built-in kinds, as upstream publishes them, read one definition at a time.

There is one file per package with one definition per line, so a request for ConfigMap parses only ConfigMap. Returned
objects are shared by all callers and must not be modified.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import orjson

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Upstream lists these kinds under every group.
_META_KINDS = frozenset(("DeleteOptions", "WatchEvent"))


@cache
def builtin_schema(name: str) -> dict[str, Any]:
    """Returns the schema of e.g. `io.k8s.api.core.v1.ConfigMap`, with `$ref`s to others. Raises KeyError if there is
    none.
    """
    package = _package_data(name.rpartition(".")[0])
    key = b'\n"%b":' % name.encode()
    start = package.find(key)
    if start < 0:
        raise KeyError(f"no definition {name!r}")
    start += len(key)
    return dict(orjson.loads(package[start : package.index(b"\n", start)].removesuffix(b",")))


def schema_name(group: str, version: str, kind: str) -> str:
    """Returns the name of a kind's schema. Raises KeyError if there is none."""
    if kind in _META_KINDS:
        return _META + kind
    return _names_by_gvk()[f"{group}/{version}/{kind}" if group else f"{version}/{kind}"]


def schema_closure(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns the named schemas and all schemas they refer to."""
    schemas: dict[str, dict[str, Any]] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = builtin_schema(name)
            pending.extend(direct_references(schemas[name]))
    return schemas


def direct_references(schema: Any) -> Iterator[str]:
    """Yields the schemas a schema refers to directly."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from direct_references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from direct_references(value)


@cache
def _package_data(name: str) -> bytes:
    try:
        return pkgutil.get_data("shoal.kinds", f"data/definitions/{name}.json") or b""
    except OSError:
        return b""


@cache
def _names_by_gvk() -> dict[str, str]:
    return dict(orjson.loads(pkgutil.get_data("shoal.kinds", "data/definitions.json") or b"{}"))
