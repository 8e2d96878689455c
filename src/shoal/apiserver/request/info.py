"""Parses a URL path into RequestInfo: logical cluster, group, version, resource, namespace, name and subresource. Also
derives the verb.

Pure. Does not check whether any of it exists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

ROOT = "root"
WILDCARD = "*"
READ_METHODS = ("GET", "HEAD", "OPTIONS")
"""HTTP methods that change nothing."""

MAX_CACHED_PATH = 1024
"""Longest path that is cached. Paths of objects are shorter, and longer ones must not fill the memory."""
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class RequestInfo(NamedTuple):
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
    legacy_watch: bool = False
    """True for the legacy form below `watch/`, from before there was a query parameter for it."""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)


def parse_path(path: str) -> RequestInfo:
    return _parse_path_cached(path) if len(path) <= MAX_CACHED_PATH else _parse_path(path)


def _parse_path(path: str) -> RequestInfo:
    cluster = ROOT
    if path.startswith("/clusters/"):
        cluster, slash, rest = path[10:].partition("/")
        path = slash + rest or "/"
    if path.startswith("//"):
        return RequestInfo(cluster, path)
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _resource_info(cluster, path, "", parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:
        return _resource_info(cluster, path, parts[1], parts[2], parts[3:])
    return RequestInfo(cluster, path)


_parse_path_cached = lru_cache(maxsize=4096)(_parse_path)


def _resource_info(cluster: str, path: str, group: str, version: str, rest: list[str]) -> RequestInfo:
    namespace = ""
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if legacy_watch else rest
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    return RequestInfo(cluster, path, group, version, plural, namespace, name, subresource, legacy_watch)


def verb_of(method: str, info: RequestInfo, watching: bool) -> str:
    """Returns the verb RBAC knows: GET of a collection is list or watch, DELETE of a collection is deletecollection."""
    if not info.plural:
        return method.lower()
    verb = _VERBS.get(method, method.lower())
    watching = watching or info.legacy_watch
    if not info.name:
        if verb == "get":
            return "watch" if watching else "list"
        if verb == "delete":
            return "deletecollection"
    elif verb == "get" and watching and not info.subresource:
        return "watch"
    return verb
