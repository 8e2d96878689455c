"""What a hub serves beside the Kubernetes API: the addresses of hosted clusters, the tunnels of its workers, its
certificate authority for those who join, and the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from shoal.apiserver.authz import Attributes
from shoal.apiserver.cache import Cache
from shoal.apiserver.core import Core
from shoal.apiserver.entries import Change
from shoal.apiserver.paths import ROOT
from shoal.apiserver.routes import GuardedRoute, OpenRoute, Route
from shoal.dashboard import SEGMENT as DASHBOARD
from shoal.dashboard import Dashboard
from shoal.fleet.tunnel import Tunnels, managed_cluster_route, tunnel_worker
from shoal.kinds import fleet, joining
from shoal.objects.errors import MethodNotSupported, NotFound
from shoal.objects.wire import Handler, Request, Response

RoutesOf = Callable[[Core], Mapping[str, Route]]
"""Routes need the server's core, and the server its routes."""

MOST_REMEMBERED = 16_384


def no_routes(core: Core) -> Mapping[str, Route]:
    return {}


def hub_routes(tunnels: Tunnels, authority: Path, dashboard: Dashboard) -> RoutesOf:
    """`authority` is the file with the certificate of the hub's own authority."""

    def routes(core: Core) -> Mapping[str, Route]:
        core.cache.kind(fleet.GROUP, "workers").listen(ROOT, cutting_off(tunnels))
        return {
            "managedclusters": OpenRoute(managed_cluster_route(tunnels, Assignments(core.cache))),
            "workers": GuardedRoute(tunnels.accept, tunnel_attributes),
            "join": OpenRoute(authority_route(authority.read_bytes())),
            DASHBOARD: OpenRoute(dashboard.answer),
        }

    return routes


def cutting_off(tunnels: Tunnels) -> Callable[[Change], None]:
    """Told of every change of a Worker: one that is gone or expelled has no tunnel."""

    def changed(change: Change) -> None:
        if change.last.namespace != fleet.NAMESPACE:
            return
        if change.new is None or joining.is_expelled(change.new.object()):
            tunnels.disconnect(change.last.name)

    return changed


def authority_route(certificate: bytes) -> Handler:
    """Tells anybody whom the hub's certificates are signed by; who asks compares it with the hash it was given."""

    def answer(request: Request) -> Response:
        if request.path != joining.AUTHORITY_PATH:
            raise NotFound("the server could not find the requested resource")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        return Response(200, certificate, "application/x-pem-file")

    return answer


def tunnel_attributes(path: str) -> Attributes:
    """Keeping a tunnel is creating the subresource `tunnel` of one's Worker."""
    return Attributes(
        cluster=ROOT,
        verb="create",
        group=fleet.GROUP,
        version=fleet.VERSION,
        resource="workers",
        subresource="tunnel",
        namespace=fleet.NAMESPACE,
        name=tunnel_worker(path),
    )


class Assignments:
    """Which worker hosts a ManagedCluster of root, from the server's own memory: asked for every request."""

    def __init__(self, cache: Cache) -> None:
        self._kind = cache.kind(fleet.GROUP, "managedclusters")
        self._known: dict[tuple[str, str], tuple[int, str]] = {}

    def __call__(self, namespace: str, name: str) -> str | None:
        entry = self._kind.get(ROOT, namespace, name)
        if entry is None:
            return None
        known = self._known.get((namespace, name))
        if known is None or known[0] != entry.revision:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[namespace, name] = entry.revision, fleet.assigned_worker(entry.object())
        return known[1]
