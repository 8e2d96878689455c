"""Parses a URL path into RequestInfo: logical cluster, group, version, resource, namespace, name and subresource. Also
derives the verb.

Pure. Does not check whether any of it exists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

ROOT = "root"
WILDCARD = "*"
READS = ("GET", "HEAD", "OPTIONS")
"""HTTP methods that change nothing."""

LONGEST = 1024
"""Longest path that is cached. Paths of objects are shorter, and longer ones must not fill the memory."""
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Target(NamedTuple):
    """A path of the resource API, or any other path if `plural` is empty."""

    cluster: str
    path: str
    """The path after the cluster prefix."""
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False
    """True for the legacy form below `watch/`, from before there was a query parameter for it."""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)


def parse(path: str) -> Target:
    return _known(path) if len(path) <= LONGEST else _parsed(path)


def _parsed(path: str) -> Target:
    cluster = ROOT
    if path.startswith("/clusters/"):
        cluster, slash, rest = path[10:].partition("/")
        path = slash + rest or "/"
    if path.startswith("//"):
        return Target(cluster, path)
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _resource(cluster, path, "", parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:
        return _resource(cluster, path, parts[1], parts[2], parts[3:])
    return Target(cluster, path)


_known = lru_cache(maxsize=4096)(_parsed)


def _resource(cluster: str, path: str, group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    watched = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if watched else rest
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    return Target(cluster, path, group, version, plural, namespace, name, subresource, watched)


def verb_of(method: str, target: Target, watching: bool) -> str:
    """Returns the verb RBAC knows: GET of a collection is list or watch, DELETE of a collection is deletecollection."""
    if not target.plural:
        return method.lower()
    verb = _VERBS.get(method, method.lower())
    watching = watching or target.watched
    if not target.name:
        if verb == "get":
            return "watch" if watching else "list"
        if verb == "delete":
            return "deletecollection"
    elif verb == "get" and watching and not target.subresource:
        return "watch"
    return verb
