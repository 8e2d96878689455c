"""One case: a named sequence of requests, whose bodies are made when they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from zlib import crc32

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class Step:
    name: str
    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    follows: bool = False
    """Sent only if the first step of the case succeeded."""


Steps = Callable[[], Iterable[Step]]
"""Made when the case is sent: all bodies together would not fit into memory."""


@dataclass(frozen=True)
class Group:
    """Cases that one logical cluster sees, and what is there before the first of them."""

    name: str
    setup: Steps = tuple


@dataclass(frozen=True)
class Case:
    group: Group
    what: str
    steps: Steps

    @property
    def name(self) -> str:
        return f"{self.group.name} {self.what}"


def compact(value: object) -> str:
    """JSON without the spaces that would count towards the limit."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def own_name(case: str) -> str:
    """A name of an object that no other case has."""
    return f"g{crc32(case.encode()):08x}"


def send(name: str, method: str, path: str, body: str | bytes | None = None, content: str = "", **headers: str) -> Step:
    """Header names use `_` for `-`."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    if body is not None:
        sent.setdefault("Content-Type", content or "application/json")
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    return Step(name, method, path, data, sent)


def follow(name: str, method: str, path: str, body: str | None = None, **headers: str) -> Step:
    made = send(name, method, path, body, **headers)
    return Step(made.name, method, path, made.body, made.headers, follows=True)


def reads(collection: str, name: str, *, protobuf: bool = False) -> Iterator[Step]:
    """What somebody would read after a write."""
    yield follow("get", "GET", f"{collection}/{name}")
    yield follow("list", "GET", collection)
    yield follow("table", "GET", collection, Accept=TABLE)
    yield follow("pretty", "GET", f"{collection}?pretty=true")
    yield follow("yaml", "GET", f"{collection}/{name}", Accept="application/yaml")
    if protobuf:
        yield follow("protobuf list", "GET", collection, Accept=PROTOBUF)


def removal(collection: str, name: str) -> Iterator[Step]:
    yield follow("delete", "DELETE", f"{collection}/{name}", '{"gracePeriodSeconds":0}')
    yield follow(
        "release", "PATCH", f"{collection}/{name}", '{"metadata":{"finalizers":null}}', Content_Type=PATCHES["merge"]
    )
