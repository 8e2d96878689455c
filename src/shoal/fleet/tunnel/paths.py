"""Paths of hosted clusters, and what of a request the hub forwards to a worker. Pure.

`/managedclusters/<namespace>/<name>/…` is the stable address; at the worker the same cluster is
`/clusters/<namespace>.<name>/…`. A namespace has no dot, so the two are never confused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.kinds.fleet.infrav1 import GROUP, managed_cluster_path
from shoal.objects.errors import BadRequest, NotFound, NotImplementedHere
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain
from shoal.objects.wire import Request

MANAGED_CLUSTERS_SEGMENT = "managedclusters"
HUB_REQUEST_PREFIX = "/hub-requests/"
"""Paths of requests that the hub itself makes to a worker. A request of a client never gets such a path: what the hub
forwards begins with the segment above.
"""
UNREACHABLE_HEADER = "x-shoal-unreachable"
"""Marks the answer of another hub that could not pass a request on, which is not an answer of the hosted cluster."""
HUB_REMOTE = "hub"
"""Remote address that a worker's server sees for such a request."""

UPGRADE_HEADER = "upgrade"
UPGRADED_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})
"""Subresources of pods with an upgrade."""
PROXY_SUBRESOURCE = "proxy"
"""Subresource of pods, services and nodes, with a path behind it. What is there may upgrade."""
_HOP_BY_HOP_HEADERS = frozenset(
    {
        "connection", "content-length", "expect", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_REMOTE_USER_PREFIX = "x-remote-"
"""Headers by which a front proxy would vouch for a user. This proxy vouches for nobody."""

HeaderPairs = tuple[tuple[str, str], ...]


class HostedPath(NamedTuple):
    namespace: str
    name: str
    rest: str
    """Empty, or starts with a slash."""

    @property
    def path(self) -> str:
        return managed_cluster_path(self.namespace, self.name) + self.rest

    @property
    def logical_cluster(self) -> str:
        """The name of the hosted cluster at its worker."""
        return f"{self.namespace}.{self.name}"

    @property
    def local_path(self) -> str:
        return f"/clusters/{self.logical_cluster}{self.rest}"


def parse_hosted_path(path: str) -> HostedPath:
    """Parses a stable address; raises for anything else. Encoded slashes count as slashes."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 3 or parts[0] != MANAGED_CLUSTERS_SEGMENT or not path.startswith("/"):
        raise NotFound("the server could not find the requested resource")
    _, namespace, name, *rest = parts
    if is_dns1123_label(namespace) or is_dns1123_subdomain(name):
        raise managed_cluster_not_found(name)
    if "." in rest or ".." in rest or "\0" in path:
        raise BadRequest("the path has an invalid segment")
    suffix = "".join(f"/{part}" for part in rest)
    return HostedPath(namespace, name, suffix + "/" if path.endswith("/") else suffix)


def managed_cluster_not_found(name: str) -> NotFound:
    return NotFound(
        f'{MANAGED_CLUSTERS_SEGMENT}.{GROUP} "{name}" not found', name=name, group=GROUP, kind=MANAGED_CLUSTERS_SEGMENT
    )


def reject_upgrade(request: Request) -> None:
    """Rejects requests that take the connection over, by SPDY or WebSocket, unless they are for a pod, a service or a
    node. The answer does not depend on the cluster: nobody learns from it that one exists.
    """
    protocol = request.headers.get(UPGRADE_HEADER, "")
    if protocol and not _is_upgradable(request.path):
        raise NotImplementedHere(f"hosted clusters do not support an upgrade to {protocol[:40]} through the hub")


def _is_upgradable(path: str) -> bool:
    parts = path.split("/")
    return parts[-1] in UPGRADED_SUBRESOURCES or PROXY_SUBRESOURCE in parts[4:]


def forwarded_request(request: Request, target: HostedPath) -> Request:
    """Returns the request as it leaves the hub: without client certificate and hop-by-hop headers, with
    X-Forwarded-For. Only an upgrade is passed on.
    """
    dropped = _connection_headers(request.headers) | _HOP_BY_HOP_HEADERS
    forwarded_for = request.headers.get("x-forwarded-for", "")
    forwarded_chain = (
        f"{forwarded_for}, {request.remote_addr}"
        if forwarded_for and request.remote_addr
        else forwarded_for or request.remote_addr
    )
    lines = [
        pair
        for pair in request.raw_headers or request.headers.items()
        if pair[0] not in dropped and pair[0] != "x-forwarded-for" and not pair[0].startswith(_REMOTE_USER_PREFIX)
    ]
    if forwarded_chain:
        lines.append(("x-forwarded-for", forwarded_chain))
    if UPGRADE_HEADER in request.headers:
        lines += [("connection", "Upgrade"), (UPGRADE_HEADER, request.headers[UPGRADE_HEADER])]
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    repeated = tuple(lines) if len(headers) != len(lines) else ()
    return Request(
        request.method, target.path, request.query, headers, request.body, remote_addr=HUB_REMOTE, raw_headers=repeated
    )


def local_request(request: Request) -> Request:
    """Returns the request as a worker's server handles it: for one hosted cluster, never for anything else there.
    Without its upgrade: the server refuses exec and its kin, and knows why.
    """
    target = parse_hosted_path(request.path)
    return Request(
        request.method,
        target.local_path,
        request.query,
        {name: value for name, value in request.headers.items() if name not in ("connection", UPGRADE_HEADER)},
        request.body,
        remote_addr=HUB_REMOTE,
        raw_headers=tuple(pair for pair in request.raw_headers if pair[0] not in ("connection", UPGRADE_HEADER)),
        original_path=target.path,
    )


def end_to_end_headers(headers: Iterable[tuple[str, str]]) -> HeaderPairs:
    """Returns the valid end-to-end headers of a response: a worker may send anything."""
    return tuple(
        (name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP_HEADERS and _is_token(name)
    )


def _is_token(name: str) -> bool:
    return name.isascii() and name.replace("-", "").isalnum()


def _connection_headers(headers: Mapping[str, str]) -> frozenset[str]:
    """Returns the headers that the Connection header declares hop-by-hop."""
    return frozenset(name.strip().lower() for name in headers.get("connection", "").split(",") if name.strip())
