"""Paths of hosted clusters, and what of a request the hub forwards to a worker. Pure.

`/managedclusters/<namespace>/<name>/…` is the stable address; at the worker the same cluster is
`/clusters/<namespace>.<name>/…`. A namespace has no dot, so the two are never confused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.kinds.fleet import GROUP, stable_path
from shoal.objects.errors import BadRequest, NotFound, NotImplementedHere
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain
from shoal.objects.wire import Request

SEGMENT = "managedclusters"
HUB = "hub"
"""Remote address that a worker's server sees for such a request."""

_OF_ONE_HOP = frozenset(
    {
        "connection", "content-length", "expect", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_OF_A_FRONT_PROXY = "x-remote-"
"""Headers by which a front proxy would vouch for a user. This proxy vouches for nobody."""

Pairs = tuple[tuple[str, str], ...]


class Hosted(NamedTuple):
    namespace: str
    name: str
    rest: str
    """Empty, or starts with a slash."""

    @property
    def path(self) -> str:
        return stable_path(self.namespace, self.name) + self.rest

    @property
    def cluster_path(self) -> str:
        return f"/clusters/{self.namespace}.{self.name}{self.rest}"


def hosted(path: str) -> Hosted:
    """Parses a stable address; raises for anything else. Encoded slashes count as slashes."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 3 or parts[0] != SEGMENT or not path.startswith("/"):
        raise NotFound("the server could not find the requested resource")
    _, namespace, name, *rest = parts
    if is_dns1123_label(namespace) or is_dns1123_subdomain(name):
        raise unknown(name)
    if "." in rest or ".." in rest or "\0" in path:
        raise BadRequest("the path has a segment that is no name")
    below = "".join(f"/{part}" for part in rest)
    return Hosted(namespace, name, below + "/" if path.endswith("/") else below)


def unknown(name: str) -> NotFound:
    return NotFound(f'{SEGMENT}.{GROUP} "{name}" not found', name=name, group=GROUP, kind=SEGMENT)


def refuse_upgrade(request: Request) -> None:
    """Rejects exec, attach and port-forward: they take the connection over, by SPDY or WebSocket, which the tunnel does
    not carry.
    """
    wanted = request.headers.get("upgrade", "")
    if wanted:
        raise NotImplementedHere(f"the address of a hosted cluster does not carry an upgrade to {wanted[:40]}")


def outgoing(request: Request, target: Hosted) -> Request:
    """Returns the request as it leaves the hub: without client certificate and hop-by-hop headers, with
    X-Forwarded-For.
    """
    dropped = _named(request.headers) | _OF_ONE_HOP
    seen = request.headers.get("x-forwarded-for", "")
    path_of = f"{seen}, {request.remote}" if seen and request.remote else seen or request.remote
    lines = [
        pair
        for pair in request.repeated or request.headers.items()
        if pair[0] not in dropped and pair[0] != "x-forwarded-for" and not pair[0].startswith(_OF_A_FRONT_PROXY)
    ]
    if path_of:
        lines.append(("x-forwarded-for", path_of))
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    repeated = tuple(lines) if len(headers) != len(lines) else ()
    return Request(request.method, target.path, request.query, headers, request.body, remote=HUB, repeated=repeated)


def incoming(request: Request) -> Request:
    """Returns the request as a worker's server handles it: for one hosted cluster, never for anything else there."""
    target = hosted(request.path)
    return Request(
        request.method,
        target.cluster_path,
        request.query,
        request.headers,
        request.body,
        remote=HUB,
        repeated=request.repeated,
        asked=target.path,
    )


def kept(headers: Iterable[tuple[str, str]]) -> Pairs:
    """Returns the valid end-to-end headers of a response: a worker may send anything."""
    return tuple((name, value) for name, value in headers if name.lower() not in _OF_ONE_HOP and _is_token(name))


def _is_token(name: str) -> bool:
    return name.isascii() and name.replace("-", "").isalnum()


def _named(headers: Mapping[str, str]) -> frozenset[str]:
    """Returns the headers that the Connection header declares hop-by-hop."""
    return frozenset(name.strip().lower() for name in headers.get("connection", "").split(",") if name.strip())
