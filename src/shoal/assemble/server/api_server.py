"""Assembles the API server: store, cache, identities, handler chain, socket. One per serving process."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakSet

from shoal.apiserver.audit import open_auditor
from shoal.apiserver.authn.authenticator import (
    Authenticator,
    HubUserTokenAuthenticator,
    ServiceAccountTokenAuthenticator,
    User,
)
from shoal.apiserver.authn.bootstrap_token import BootstrapTokens
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.apiserver.authn.worker_certificate import WorkerCertificates
from shoal.apiserver.authz import Attributes, AuthorizationDecision, Authorizer
from shoal.apiserver.authz.node import NodeAuthorizer
from shoal.apiserver.authz.node_graph import CachedNodeGraph
from shoal.apiserver.authz.role_cache import CachedRoleGetter
from shoal.apiserver.authz.syncer import SyncerAuthorizer
from shoal.apiserver.authz.syncer_graph import CachedSyncerGraph
from shoal.apiserver.authz.worker import CachedWorkerGraph, WorkerAuthorizer
from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.cache.compaction import HistoryCompactor
from shoal.apiserver.cache.readiness import StoreReadiness
from shoal.apiserver.chain import HandlerChain
from shoal.apiserver.cluster_addresses import ClusterAddresses
from shoal.apiserver.endpoints.discovery import DiscoveryHandler
from shoal.apiserver.endpoints.nonresource import NonResourceHandler
from shoal.apiserver.endpoints.openapi import OpenAPIService
from shoal.apiserver.finishers import error_response
from shoal.apiserver.flowcontrol import FlowSchemas
from shoal.apiserver.http import HTTPServer
from shoal.apiserver.idle import IdleClusterEvictor
from shoal.apiserver.inprocess import InProcessTransport, Pipe
from shoal.apiserver.limits import ServerLimits
from shoal.apiserver.limits.metrics import LimitUsage
from shoal.apiserver.metrics.requests import APIServerMetrics
from shoal.apiserver.metrics.storage import InstrumentedStore, StateMetrics
from shoal.apiserver.pki.ca import SERVER_NAME, CertificateAuthority, client_ca_bundle, server_tls_context
from shoal.apiserver.pki.cluster_keys import ClusterKeys, load_key_encryption_key
from shoal.apiserver.pki.former_ca import FORMER_SERVING, former_token_keys
from shoal.apiserver.pki.key_rotation import CA
from shoal.apiserver.pki.reload import ServingCertReloader
from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.bootstrap import CONFIG_MAPS, APIAddress, BootstrapObjects
from shoal.apiserver.registry.clusters import LogicalCluster, LogicalClusters
from shoal.apiserver.registry.crds import CRDResources
from shoal.apiserver.registry.policy_source import PolicySource
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.routes import ExtraRoutes
from shoal.apiserver.server import NameGenerator, ServerComponents
from shoal.apiserver.webhooks import metrics as webhook_metrics
from shoal.apiserver.webhooks.client import HTTPTransport
from shoal.apiserver.webhooks.source import WebhookSource
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.client_metrics import add_client_metrics
from shoal.assemble.server.dispatcher import make_dispatcher
from shoal.assemble.server.initial_state import ensure_root_cluster, load_cache
from shoal.assemble.telemetry import event_loop
from shoal.assemble.telemetry.process_metrics import render_process_metrics
from shoal.client.egress import Egress
from shoal.client.tls import client_context
from shoal.client.transport import RESTConfig
from shoal.clock import Clock, SystemClock
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, worker_join
from shoal.store.interface import Store

MASTERS_GROUPS = ("system:masters",)
POLL_SECONDS = 0.01
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM = random.Random()
"""The server's own generator: nobody else in the process can seed it and so repeat a uid."""


class ApiServer:
    """Runs from `start` until `stop`."""

    def __init__(
        self,
        settings: ApiServerSettings,
        core: ServerComponents,
        app: HandlerChain,
        http: HTTPServer,
        authority: CertificateAuthority,
        metrics: APIServerMetrics,
    ) -> None:
        self.settings = settings
        self.core = core
        self.app = app
        self.metrics = metrics
        self.authority = authority
        self.port = 0
        self.address = APIAddress(settings.advertised_host, settings.port)
        self._pipes: WeakSet[Pipe] = WeakSet()
        self._http = http
        self.cluster_addresses = ClusterAddresses(core, http, settings.directory)
        """Serves connections to the own addresses of logical clusters."""
        self.limit_usage = LimitUsage(core.cache, core.clusters, core.limits)
        """What logical clusters use of their limits."""
        self.notices: dict[str, Callable[[], str]] = {}
        """Checks that /readyz?verbose shows and that do not make the server unready."""
        self._draining = False
        self._tasks: list[asyncio.Task[None]] = []
        self.reload_serving_certificate: Callable[[], Coroutine[Any, Any, bool]] | None = None
        """Reads the certificate files again at once; None if somebody else renews them."""

    @classmethod
    async def start(cls, settings: ApiServerSettings, store: Store, clock: Clock | None = None) -> ApiServer:
        clock = clock or SystemClock()
        certificate_hosts = [settings.host, settings.advertised_host, *settings.certificate_names]
        authority = CertificateAuthority(settings.directory, clock)
        if not settings.external_serving_cert:
            authority.ensure_serving_certificate(certificate_hosts)
        address = APIAddress(settings.advertised_host, settings.port)
        metrics = APIServerMetrics()
        timed_store = InstrumentedStore(store, metrics, clock)
        core = await make_components(settings, timed_store, clock, address, metrics)
        core.cache.traced_changes = timed_store.traced_changes
        nonresource = NonResourceHandler(core, DiscoveryHandler(), OpenAPIService(), metrics)
        readiness = StoreReadiness(store)
        nonresource.ready_checks |= {"store": store.health_error, "cache": readiness.last_error}
        core.paths.probe_readiness, core.paths.nonresource = readiness.probe, nonresource.handle
        core.paths.extra_routes = ExtraRoutes(settings.routes(core))
        app = HandlerChain(core)
        dispatcher = make_dispatcher(app, core, metrics, settings.dispatch)
        http = HTTPServer(
            dispatcher.handle, head_handler=app.handle_head, limits=settings.limits, on_error=error_response
        )
        server = cls(settings, core, app, http, authority, metrics)
        nonresource.ready_checks["shutdown"], nonresource.notices = server.shutdown_error, server.notices
        add_client_metrics(metrics, http, core)
        metrics.add_renderer(StateMetrics(core.cache).render)
        metrics.add_renderer(server.limit_usage.render)
        metrics.add_renderer(render_process_metrics)
        metrics.add_renderer(webhook_metrics.render)
        metrics.add_renderer(event_loop.render)
        metrics.add_renderer(core.processes.render_metrics)
        metrics.gauge("shoal_store_revision", "Newest durable revision of the store.", lambda: core.cache.revision)
        idle_evictor = IdleClusterEvictor(core, settings.idle_seconds)
        hosted = "shoal_logical_clusters", "Number of logical clusters, by whether they have had requests recently."
        metrics.gauge(*hosted, idle_evictor.active, 'state="awake"')
        metrics.gauge(*hosted, idle_evictor.idle, 'state="asleep"')

        def new_tls_context() -> ssl.SSLContext:
            return server_tls_context(
                settings.directory, client_ca_bundle(settings.directory, core.keys.ca_bundle(ROOT))
            )

        def on_keys_changed(cluster: str, name: str) -> None:
            if name == CA:
                core.cache.refresh_bootstrap(CONFIG_MAPS, cluster)
            else:
                core.authenticator.forget_tokens(cluster)
            if (cluster, name) == (ROOT, CA):
                http.set_ssl_context(new_tls_context())

        core.keys.add_change_handler(on_keys_changed)
        server.port = await http.start(settings.host, settings.port, new_tls_context())
        address.port = server.port
        settings.egress.own_endpoints.ports.add(server.port)
        settings.egress.own_endpoints.add(settings.advertised_host, server.port)
        server.address = address
        compactor = HistoryCompactor(store, core.cache, clock, settings.history_window)
        server._tasks.append(asyncio.create_task(compactor.run(), name="compactor"))
        server._tasks.append(asyncio.create_task(idle_evictor.run(), name="sleep"))
        server._tasks.append(asyncio.create_task(event_loop.monitor_event_loop(), name="event loop monitor"))
        if not settings.external_serving_cert:

            def on_reload(context: ssl.SSLContext) -> None:
                http.set_ssl_context(context)
                certificates = authority.certificate.decode()
                if core.keys.server_ca != certificates:
                    core.keys.server_ca = certificates
                    core.cache.refresh_bootstrap(CONFIG_MAPS, ROOT)

            cert_reloader = ServingCertReloader(authority, certificate_hosts, clock, new_tls_context, on_reload)
            server._tasks.append(asyncio.create_task(cert_reloader.run(), name="rotation"))
            server.reload_serving_certificate = cert_reloader.reload_if_changed
        return server

    def transport(self) -> InProcessTransport:
        return InProcessTransport(self.app.handle, self._pipes)

    async def wait_in_process_watches(self) -> None:
        """Returns when all in-process watches have read what was delivered before this call."""
        for pipe in list(self._pipes):
            # A few times in the life of a cluster.
            while (pipe.pending_bytes or self.core.watch_pacer.is_sending_to(pipe)) and not pipe.closed:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def server_name(self) -> str:
        """The name that clients of the current authority ask for; empty if every client gets its certificate."""
        return SERVER_NAME if (self.settings.directory / FORMER_SERVING).exists() else ""

    def rest_config(self) -> RESTConfig:
        """How clients reach the server, without credentials."""
        ca_pem, name = self.authority.certificate.decode(), self.server_name
        return RESTConfig(self.url, client_context(ca_pem, name), "", ca_pem, name)

    def shutdown_error(self) -> str:
        """The check `shutdown` of /readyz, with upstream's message."""
        return "process is shutting down" if self._draining else ""

    def drain(self) -> None:
        """Announces the shutdown while it still serves: /readyz fails, and clients are asked to reconnect."""
        self._draining = True
        self._http.drain()

    async def stop(self) -> None:
        self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.stop(self.settings.shutdown_timeout, self.settings.idle_connection_grace)
        await self.core.webhooks.client.close()
        await self.core.processes.close()
        self.app.close()


async def make_components(
    settings: ApiServerSettings, store: Store, clock: Clock, address: APIAddress, metrics: APIServerMetrics
) -> ServerComponents:
    def get_logical_cluster(name: str) -> LogicalCluster | None:
        return clusters.get(name)

    def keys_generation(name: str) -> int:
        cluster = clusters.get(name)
        return cluster.keys_generation if cluster is not None else 1

    cache = WatchCache(
        BootstrapObjects(
            get_logical_cluster, lambda name: keys.root_ca(name), lambda name: keys.root_ca_revision(name), address
        )
    )
    server_ca = (settings.directory / "ca.crt").read_text()
    key_ring = load_key_encryption_key(settings.directory)
    keys = ClusterKeys(store, cache, key_ring, server_ca, clock, keys_generation)
    definitions = CRDResources()
    clusters = LogicalClusters(
        cache, builtins.profile_resources, definitions, settings.cluster_limits, settings.root_limits
    )
    await load_cache(store, cache)
    await ensure_root_cluster(store, cache, clock, settings.root_profile)
    shared_token_keys = former_token_keys(settings.directory)

    def former_keys(name: str) -> tuple[str, ...]:
        cluster = clusters.get(name)
        if keys.refuses_former_tokens(name) or (cluster is not None and cluster.refuses_former_keys):
            return ()
        return (*shared_token_keys, *(cluster.token_keys if cluster is not None else ()))

    def issuer(name: str) -> str:
        """The address at which clients reach the cluster."""
        cluster = clusters.get(name)
        if cluster is not None and cluster.endpoint is not None:
            return f"https://{cluster.endpoint}"
        if address.hub_url and "." in name:
            return address.hub_url + infrav1.managed_cluster_path(*embedded.owner_of_logical_cluster(name))
        return address.url if name == ROOT else f"{address.url}/clusters/{name}"

    signer = TokenSigner(keys.signing_keys, issuer, former_keys)

    def uid_of(cluster: str, resource: str, namespace: str, name: str) -> str | None:
        entry = cache.resource_cache("", resource).get(cluster, namespace, name)
        metadata = entry.object()["metadata"] if entry is not None else {}
        return None if "deletionTimestamp" in metadata else metadata.get("uid")

    def cluster_uid(name: str) -> str | None:
        cluster = clusters.get(name)
        return cluster.uid if cluster is not None else None

    roles = CachedRoleGetter(cache)
    identity_authorizers = (
        WorkerAuthorizer(CachedWorkerGraph(cache)).authorize,
        SyncerAuthorizer(CachedSyncerGraph(cache)).authorize,
        NodeAuthorizer(CachedNodeGraph(cache)).authorize,
    )

    def authorize_by_identity(user: User, attributes: Attributes) -> AuthorizationDecision | None:
        return next((said for each in identity_authorizers if (said := each(user, attributes)) is not None), None)

    authorizer = Authorizer(roles, authorize_by_identity)
    clusters.on_deleted(roles.forget)
    clusters.on_deleted(authorizer.forget)
    webhooks = WebhookSource(cache, lambda: _new_http_transport(settings.egress), settings.egress.discloses_failures)
    clusters.on_deleted(webhooks.forget)
    clusters.on_deleted(webhook_metrics.forget)
    policies = PolicySource(cache)
    clusters.on_deleted(policies.forget)
    flows = FlowSchemas(cache)
    clusters.on_deleted(flows.invalidate)
    limits = ServerLimits(cache, store)
    clusters.on_deleted(limits.forget)
    return ServerComponents(
        store=store,
        cache=cache,
        clusters=clusters,
        authenticator=Authenticator(
            tokens=settings.tokens,
            service_accounts=ServiceAccountTokenAuthenticator(signer, uid_of, clock.now),
            other_tokens=BootstrapTokens(cache, clock.now).user,
            hub_users=HubUserTokenAuthenticator(signer, cluster_uid, clock.now),
            uid_of=cluster_uid,
            accepts_worker=WorkerCertificates(cache).is_accepted,
            accept_certificates_without_uri=settings.bare_certificates,
            outside_controllers=settings.outside_controllers,
        ),
        authorizer=authorizer,
        tokens=signer,
        keys=keys,
        clock=clock,
        name_generator=NameGenerator(
            uid=_random_uid,
            suffix=lambda: "".join(_RANDOM.choices(_SUFFIX_LETTERS, k=5)),
            fraction=_RANDOM.random,
        ),
        webhooks=webhooks,
        policies=policies,
        flow_schemas=flows,
        metrics=metrics,
        limits=limits,
        auditor=open_auditor(settings.audit, clock),
    )


def _new_http_transport(egress: Egress) -> HTTPTransport:
    # Most servers never call a webhook, so its library is loaded on demand.
    from shoal.client.webhook_transport import WebhookTransport  # noqa: PLC0415

    return WebhookTransport(egress)


def _random_uid() -> str:
    """Returns a version 4 UUID. It has to be unique, not secret, so it does not need the kernel's random numbers."""
    digits = f"{_RANDOM.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def admin_user(name: str = "shoal-admin") -> User:
    return User(name, MASTERS_GROUPS, cluster=ROOT)


def worker_user(name: str) -> User:
    return User(worker_join.user_name(name), (worker_join.WORKERS_GROUP,), cluster=ROOT)
