"""The routes of a hub beside the Kubernetes API: hosted clusters, worker tunnels, the certificate authority for
joining, and the dashboard.
"""

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
"""Builds the routes after the server's components, because routes need the components and the server needs its
routes.
"""

MOST_REMEMBERED = 16_384


def no_routes(core: Core) -> Mapping[str, Route]:
    return {}


def hub_routes(tunnels: Tunnels, authority: Path, dashboard: Dashboard) -> RoutesOf:
    """`ca_file` holds the certificate of the hub's own certificate authority."""

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
    """Returns an event handler that closes the tunnel of a Worker that was deleted or expelled."""

    def changed(change: Change) -> None:
        if change.last.namespace != fleet.NAMESPACE:
            return
        if change.new is None or joining.is_expelled(change.new.object()):
            tunnels.disconnect(change.last.name)

    return changed


def authority_route(certificate: bytes) -> Handler:
    """Serves the hub's CA certificate to everybody; the client compares it with the hash it was given."""

    def answer(request: Request) -> Response:
        if request.path != joining.AUTHORITY_PATH:
            raise NotFound("the server could not find the requested resource")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        return Response(200, certificate, "application/x-pem-file")

    return answer


def tunnel_attributes(path: str) -> Attributes:
    """Opening a tunnel is authorized as creating the subresource `tunnel` of the own Worker."""
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
    """Returns the worker that hosts a ManagedCluster of root, from the server's cache. Called for every request."""

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
