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
_EVERYWHERE = frozenset(("DeleteOptions", "WatchEvent"))


@cache
def definition(name: str) -> dict[str, Any]:
    """Returns the schema of e.g. `io.k8s.api.core.v1.ConfigMap`, with `$ref`s to others. Raises KeyError if there is
    none.
    """
    package = _package(name.rpartition(".")[0])
    key = b'\n"%b":' % name.encode()
    start = package.find(key)
    if start < 0:
        raise KeyError(f"no definition {name!r}")
    start += len(key)
    return dict(orjson.loads(package[start : package.index(b"\n", start)].removesuffix(b",")))


def definition_of(group: str, version: str, kind: str) -> str:
    """Returns the name of a kind's schema. Raises KeyError if there is none."""
    if kind in _EVERYWHERE:
        return _META + kind
    return _index()[f"{group}/{version}/{kind}" if group else f"{version}/{kind}"]


def closure(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns the named schemas and all schemas they refer to."""
    found: dict[str, dict[str, Any]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definition(name)
            waiting.extend(references(found[name]))
    return found


def references(schema: Any) -> Iterator[str]:
    """Yields the schemas a schema refers to directly."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


@cache
def _package(name: str) -> bytes:
    try:
        return pkgutil.get_data("shoal.kinds", f"data/definitions/{name}.json") or b""
    except OSError:
        return b""


@cache
def _index() -> dict[str, str]:
    return dict(orjson.loads(pkgutil.get_data("shoal.kinds", "data/definitions.json") or b"{}"))
