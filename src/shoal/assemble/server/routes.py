"""The routes of a hub beside the Kubernetes API: hosted clusters, tunnels of workers and of other hubs, the certificate
authority for joining, and the dashboard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from shoal.apiserver.authn.authenticator import Authenticator
from shoal.apiserver.authz import Attributes
from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.cache.objects import CacheEvent
from shoal.apiserver.chain import HandlerChain
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.routes import AuthorizedRoute, ExtraRoute, PassthroughRoute
from shoal.apiserver.server import ServerComponents
from shoal.apiserver.verbs.watch import terminate_watches
from shoal.assemble.server.hub_users import hub_user_tokens
from shoal.dashboard import PATH_SEGMENT as DASHBOARD
from shoal.dashboard import Dashboard
from shoal.fleet.tunnel import TunnelRegistry, managed_cluster_route, tunnel_worker
from shoal.fleet.tunnel.disclosure import Disclosure, PublishedToken
from shoal.fleet.tunnel.paths import parse_hosted_path
from shoal.fleet.tunnel.peer_acceptor import PeerAcceptor
from shoal.fleet.tunnel.peers import HUBS_SEGMENT
from shoal.kinds.clusterapi.capi import kubeconfig_token
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.errors import MethodNotSupported, NotFound, Unauthorized
from shoal.objects.wire import Answer, Handler, Request, Response

RouteFactory = Callable[[ServerComponents], Mapping[str, ExtraRoute]]
"""Builds the routes after the server's components, because routes need the components and the server needs its
routes.
"""

MAX_CACHED_ASSIGNMENTS = 16_384
NO_CLUSTER = "-"
"""A name that no logical cluster can have."""


def no_routes(core: ServerComponents) -> Mapping[str, ExtraRoute]:
    return {}


def hub_routes(
    tunnels: TunnelRegistry, ca_file: Path, dashboard: Dashboard, peer_acceptor: PeerAcceptor | None = None
) -> RouteFactory:
    """`ca_file` holds the certificate of the hub's own certificate authority. Without `peer_acceptor` there are no
    other hubs.
    """

    def routes(core: ServerComponents) -> Mapping[str, ExtraRoute]:
        core.cache.resource_cache(infrav1.GROUP, "workers").add_event_handler(
            ROOT, disconnect_removed_workers(core, tunnels)
        )
        worker_of = AssignedWorkers(core.cache)
        core.paths.hub_user_tokens = hub_user_tokens(tunnels, worker_of)
        found: dict[str, ExtraRoute] = {
            "managedclusters": PassthroughRoute(
                managed_cluster_route(
                    tunnels,
                    worker_of,
                    keep_hub_credentials(core.authenticator),
                    Disclosure(unknown_cluster_handler(core), published_token(core.cache), core.clock),
                )
            ),
            "workers": AuthorizedRoute(tunnels.accept, tunnel_attributes),
            "join": PassthroughRoute(ca_route(ca_file)),
            DASHBOARD: PassthroughRoute(dashboard.handle),
        }
        if peer_acceptor is not None:
            # Its token belongs to no user: no role or group grants what it grants.
            found[HUBS_SEGMENT] = PassthroughRoute(peer_acceptor.route(worker_of))
        return found

    return routes


def keep_hub_credentials(authenticator: Authenticator) -> Callable[[Request], None]:
    """Returns a check that rejects tokens of the hub, which would tell a worker how to act as their users."""

    def check(request: Request) -> None:
        if authenticator.is_root_token(request):
            raise Unauthorized("a token of the hub is not valid in a hosted cluster; get one: shoal kubeconfig NAME")

    return check


def unknown_cluster_handler(core: ServerComponents) -> Handler:
    """Answers requests for stable addresses as the server of a worker answers them for a cluster that does not
    exist.
    """
    chain = HandlerChain(core)

    def handle(request: Request) -> Answer | Awaitable[Answer]:
        target = parse_hosted_path(request.path)
        return chain.handle(
            Request(
                request.method,
                f"/clusters/{NO_CLUSTER}{target.rest}",
                request.query,
                request.headers,
                request.body,
                remote_addr=request.remote_addr,
                raw_headers=request.raw_headers,
                original_path=target.path,
            )
        )

    return handle


def published_token(cache: WatchCache) -> PublishedToken:
    """Returns a function that returns the token in the kubeconfig Secret of a ManagedCluster, from the server's
    cache.
    """
    secrets = cache.resource_cache("", "secrets")

    def token_of(namespace: str, name: str) -> str:
        entry = secrets.get(ROOT, namespace, infrav1.kubeconfig_secret_name(name))
        return kubeconfig_token(entry.object()) if entry is not None else ""

    return token_of


def disconnect_removed_workers(core: ServerComponents, tunnels: TunnelRegistry) -> Callable[[CacheEvent], None]:
    """Returns an event handler that closes the tunnel and the watches of a Worker that was deleted or expelled."""

    def handle_worker_event(change: CacheEvent) -> None:
        if change.latest.namespace != infrav1.NAMESPACE:
            return
        if change.new is None or worker_join.is_expelled(change.new.object()):
            tunnels.disconnect(change.latest.name)
            terminate_watches(core, ROOT, worker_join.user_name(change.latest.name))

    return handle_worker_event


def ca_route(file: Path) -> Handler:
    """Serves the hub's CA certificate to everybody; the client compares it with the hash it was given. A rotation
    replaces the file.
    """

    def handle(request: Request) -> Response:
        if request.path != worker_join.CA_PATH:
            raise NotFound("the server could not find the requested resource")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        return Response(200, file.read_bytes(), "application/x-pem-file")

    return handle


def tunnel_attributes(path: str) -> Attributes:
    """Opening a tunnel is authorized as creating the subresource `tunnel` of the own Worker."""
    return Attributes(
        cluster=ROOT,
        verb="create",
        group=infrav1.GROUP,
        version=infrav1.VERSION,
        resource="workers",
        subresource="tunnel",
        namespace=infrav1.NAMESPACE,
        name=tunnel_worker(path),
    )


class AssignedWorkers:
    """Returns the worker that hosts a ManagedCluster of root, from the server's cache. Called for every request."""

    def __init__(self, cache: WatchCache) -> None:
        self._kind = cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._assigned: dict[tuple[str, str], tuple[int, str]] = {}

    def __call__(self, namespace: str, name: str) -> str | None:
        entry = self._kind.get(ROOT, namespace, name)
        if entry is None:
            return None
        assigned = self._assigned.get((namespace, name))
        if assigned is None or assigned[0] != entry.revision:
            if len(self._assigned) >= MAX_CACHED_ASSIGNMENTS:
                self._assigned.clear()
            assigned = self._assigned[namespace, name] = entry.revision, infrav1.assigned_worker(entry.object())
        return assigned[1]
