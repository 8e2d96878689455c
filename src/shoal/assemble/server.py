"""Assembles the API server: store, cache, identities, handler chain, socket. One per serving process."""

from __future__ import annotations

import asyncio
import random
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

from shoal.apiserver import builtins
from shoal.apiserver.app import App, failure
from shoal.apiserver.audit import AuditSettings, open_audit
from shoal.apiserver.authn import Authenticator, ServiceAccountTokens, User
from shoal.apiserver.authz import Attributes, Authorizer, Decision
from shoal.apiserver.authz.nodes import NodeAuthorizer
from shoal.apiserver.authz.syncers import SyncerAuthorizer
from shoal.apiserver.authz.workers import WorkerAuthorizer
from shoal.apiserver.bootstrap import Address, Bootstrap
from shoal.apiserver.bootstrap_tokens import BootstrapTokens
from shoal.apiserver.bound import CachedBound
from shoal.apiserver.cache import Cache, store_key
from shoal.apiserver.certificates import Authority, server_context
from shoal.apiserver.clusters import Clusters, LogicalCluster
from shoal.apiserver.compaction import Compactor, Window
from shoal.apiserver.core import Core, Dice
from shoal.apiserver.definitions import Definitions
from shoal.apiserver.discovery import Discovery
from shoal.apiserver.encoding import encode
from shoal.apiserver.fairness import Dispatcher, DispatchSettings, Flows
from shoal.apiserver.fairness.askers import Askers
from shoal.apiserver.fairness.seats import Seats
from shoal.apiserver.http import HttpServer, Limits
from shoal.apiserver.inprocess import InProcessTransport, Pipe
from shoal.apiserver.measured import Readings, TimedStore
from shoal.apiserver.metrics import Metrics
from shoal.apiserver.nonresource import NonResource
from shoal.apiserver.openapi import OpenApi
from shoal.apiserver.paths import ROOT
from shoal.apiserver.policies.configurations import Policies
from shoal.apiserver.readiness import Readiness
from shoal.apiserver.roles import CachedRoles
from shoal.apiserver.rotation import Rotation
from shoal.apiserver.sleep import IDLE_SECONDS, Sleep
from shoal.apiserver.syncers import CachedMeant
from shoal.apiserver.tokens import TokenSigner, signing_key
from shoal.apiserver.webhooks import metrics as webhook_metrics
from shoal.apiserver.webhooks.calling import Poster
from shoal.apiserver.webhooks.configurations import Webhooks
from shoal.apiserver.workers import CachedHoldings
from shoal.assemble.routes import RoutesOf, no_routes
from shoal.assemble.telemetry import process_metrics
from shoal.clock import Clock, SystemClock, rfc3339
from shoal.kinds import joining, logicalcluster
from shoal.store.interface import CompareFailed, Store

MASTERS = ("system:masters",)
LOOK_SECONDS = 0.01
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM = random.Random()
"""The server's own generator: nobody else in the process can seed it and so repeat a uid."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    directory: Path
    """Certificates and signing keys."""
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    """The name or address clients use, if it is not the host."""
    names: tuple[str, ...] = ()
    """Further names of the serving certificate."""
    tokens: dict[str, User] = field(default_factory=dict)
    root_profile: str = ""
    """hub or cluster; empty keeps the stored profile, hub at first."""
    limits: Limits = field(default_factory=Limits)
    window: Window = field(default_factory=Window)
    audit: AuditSettings = field(default_factory=AuditSettings)
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    stop_seconds: float = 20.0
    """How long requests in flight may take to end: longer than a write waits for etcd."""
    linger_seconds: float = 0.0
    """How long a client that connected before shutdown may still send its first request."""
    idle_seconds: float = IDLE_SECONDS
    """A logical cluster without requests becomes idle after this time."""
    serving_given: bool = False
    """True if `serving.pem` is provided and renewed by somebody else."""
    bare_certificates: bool = False
    """True if client certificates that name no logical cluster belong to users of root."""
    routes: RoutesOf = no_routes
    """The routes beside the Kubernetes API."""

    @property
    def reached_at(self) -> str:
        return self.advertise or ("127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host)


class ApiServer:
    """Runs from `start` until `stop`."""

    def __init__(
        self,
        settings: ServerSettings,
        core: Core,
        app: App,
        http: HttpServer,
        authority: Authority,
        metrics: Metrics,
    ) -> None:
        self.settings = settings
        self.core = core
        self.app = app
        self.metrics = metrics
        self.authority = authority
        self.port = 0
        self._pipes: WeakSet[Pipe] = WeakSet()
        self._http = http
        self._draining = False
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, settings: ServerSettings, store: Store, clock: Clock | None = None) -> ApiServer:
        clock = clock or SystemClock()
        authority = Authority(settings.directory, clock)
        covered = [settings.host, settings.reached_at, *settings.names]
        if not settings.serving_given:
            authority.ensure_serving(covered)
        address = Address(settings.reached_at, settings.port)
        metrics = Metrics()
        timed = TimedStore(store, metrics, clock)
        core = await make_core(settings, timed, clock, address)
        core.cache.traced = timed.changes
        nonresource = NonResource(core, Discovery(), OpenApi(), metrics)
        readiness = Readiness(store)
        nonresource.ready_checks |= {"store": store.problem, "cache": readiness.problem}
        nonresource.look = readiness.look
        app = App(core, nonresource, metrics, open_audit(settings.audit, clock), settings.routes(core))
        dispatcher = make_dispatcher(app, core, metrics, settings.dispatch)
        http = HttpServer(dispatcher.handle, limits=settings.limits, on_error=failure)
        server = cls(settings, core, app, http, authority, metrics)
        nonresource.ready_checks["shutdown"] = server.stopping
        metrics.also(Readings(core.cache).render)
        metrics.also(process_metrics)
        metrics.also(webhook_metrics.render)
        inflight = "apiserver_current_inflight_requests", "Requests that wait for the store."
        metrics.gauge(*inflight, lambda: app.writes_under_way, 'request_kind="mutating"')
        metrics.gauge(*inflight, lambda: app.reads_under_way, 'request_kind="readOnly"')
        metrics.gauge("shoal_store_revision", "The newest durable revision.", lambda: core.cache.revision)
        metrics.gauge("shoal_watchers", "Open watches.", lambda: _watchers(core.cache))
        sleep = Sleep(core, settings.idle_seconds)
        hosted = "shoal_logical_clusters", "Logical clusters, by whether they were asked anything lately."
        metrics.gauge(*hosted, sleep.awake, 'state="awake"')
        metrics.gauge(*hosted, sleep.asleep, 'state="asleep"')
        server.port = await http.start(settings.host, settings.port, server_context(settings.directory))
        address.port = server.port
        compactor = Compactor(store, core.cache, clock, settings.window)
        server._tasks.append(asyncio.create_task(compactor.run(), name="compactor"))
        server._tasks.append(asyncio.create_task(sleep.run(), name="sleep"))
        if not settings.serving_given:
            rotation = Rotation(authority, covered, clock, http.renew)
            server._tasks.append(asyncio.create_task(rotation.run(), name="rotation"))
        return server

    def transport(self) -> InProcessTransport:
        return InProcessTransport(self.app.handle, self._pipes)

    async def heard(self) -> None:
        """Returns when all in-process watches have read what was delivered before this call."""
        for pipe in list(self._pipes):
            while pipe.pending and not pipe.closed:  # noqa: ASYNC110 - a few times in the life of a cluster
                await asyncio.sleep(LOOK_SECONDS)

    @property
    def url(self) -> str:
        host = self.settings.reached_at
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{self.port}"

    def stopping(self) -> str:
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
        await self._http.stop(self.settings.stop_seconds, self.settings.linger_seconds)
        await self.core.webhooks.calls.close()
        self.app.close()


def make_dispatcher(app: App, core: Core, metrics: Metrics, settings: DispatchSettings) -> Dispatcher:
    """The dispatcher in front of the handler chain, for requests from the socket; controllers of this process bypass
    it.
    """

    def exists(cluster: str) -> bool:
        return core.clusters.get(cluster) is not None

    askers = Askers(core.authenticator, core.flows, exists, app.passed)
    seats = Seats(settings.seats, core.flows.levels)
    made = Dispatcher(app.handle, askers.flow_of, failure, seats, settings)
    flowcontrol = "apiserver_flowcontrol"
    metrics.gauge(f"{flowcontrol}_current_inqueue_requests", "Requests that wait.", lambda: made.waiting)
    metrics.gauge(f"{flowcontrol}_current_executing_requests", "Writes of clients under way.", lambda: seats.taken)
    metrics.counter(f"{flowcontrol}_rejected_requests_total", "Requests told to come back.", lambda: made.rejected)
    metrics.counter(f"{flowcontrol}_dispatched_requests_total", "Requests that waited.", lambda: made.dispatched)
    metrics.also(seats.render)
    return made


async def make_core(settings: ServerSettings, store: Store, clock: Clock, address: Address) -> Core:
    def known(name: str) -> LogicalCluster | None:
        return clusters.get(name)

    cache = Cache(Bootstrap(known, (settings.directory / "ca.crt").read_text(), address))
    definitions = Definitions()
    clusters = Clusters(cache, builtins.resources, definitions)
    await _load(store, cache)
    await _ensure_root(store, cache, clock, settings.root_profile)
    signer = TokenSigner(
        signing_key(settings.directory / "service-account.key"),
        brought=lambda name: found.token_keys if (found := clusters.get(name)) is not None else (),
    )

    def uid_of(cluster: str, resource: str, namespace: str, name: str) -> str | None:
        entry = cache.kind("", resource).get(cluster, namespace, name)
        metadata = entry.object()["metadata"] if entry is not None else {}
        return None if "deletionTimestamp" in metadata else metadata.get("uid")

    roles = CachedRoles(cache)
    beside = (
        WorkerAuthorizer(CachedHoldings(cache)).authorize,
        SyncerAuthorizer(CachedMeant(cache)).authorize,
        NodeAuthorizer(CachedBound(cache)).authorize,
    )

    def opinion(user: User, wanted: Attributes) -> Decision | None:
        return next((said for each in beside if (said := each(user, wanted)) is not None), None)

    authorizer = Authorizer(roles, opinion)
    clusters.on_gone(roles.forget)
    clusters.on_gone(authorizer.forget)
    webhooks = Webhooks(cache, _posting)
    clusters.on_gone(webhooks.forget)
    clusters.on_gone(webhook_metrics.forget)
    policies = Policies(cache)
    clusters.on_gone(policies.forget)
    flows = Flows(cache)
    clusters.on_gone(flows.forget)
    return Core(
        store=store,
        cache=cache,
        clusters=clusters,
        authenticator=Authenticator(
            tokens=settings.tokens,
            service_accounts=ServiceAccountTokens(signer, uid_of, clock.now),
            others=BootstrapTokens(cache, clock.now).user,
            uid_of=lambda name: found.uid if (found := clusters.get(name)) is not None else None,
            bare_certificates=settings.bare_certificates,
        ),
        authorizer=authorizer,
        tokens=signer,
        clock=clock,
        dice=Dice(
            uid=_random_uid,
            suffix=lambda: "".join(_RANDOM.choices(_LETTERS, k=5)),
            fraction=_RANDOM.random,
        ),
        webhooks=webhooks,
        policies=policies,
        flows=flows,
    )


def _posting() -> Poster:
    # Most servers never call a webhook, so its library is loaded on demand.
    from shoal.client.posting import Posting  # noqa: PLC0415

    return Posting()


def _random_uid() -> str:
    """Returns a version 4 UUID. It has to be unique, not secret, so it does not need the kernel's random numbers."""
    digits = f"{_RANDOM.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


async def _load(store: Store, cache: Cache) -> None:
    """Loads the oldest state of the history, then the history itself, so that watches resume where they were cut."""
    oldest = store.compacted
    found, _ = await store.range("", revision=oldest)
    cache.load(iter(found), oldest)
    store.watch(oldest, cache.apply, cache.advance)
    # Others may write meanwhile. From the moment both revisions are equal the watch is live, and neither runs ahead.
    while cache.revision < store.revision:
        arrived = asyncio.ensure_future(cache.reached(store.revision))
        ends: list[asyncio.Future[Any]] = [arrived, store.failure]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if store.failure.done():
            arrived.cancel()
            raise store.failure.result()


async def _ensure_root(store: Store, cache: Cache, clock: Clock, profile: str) -> None:
    """Root exists from the first start on. A profile requested later replaces its own."""
    kind = cache.kind(logicalcluster.GROUP, logicalcluster.PLURAL)
    entry = kind.get(ROOT, "", ROOT)
    key = store_key(kind.key, ROOT, "", ROOT)
    if entry is None:
        obj = logicalcluster.root(rfc3339(clock.now()), str(uuid.uuid4()), profile or "hub")
        with suppress(CompareFailed):  # another server of the store was faster
            await store.put(key, encode(obj), 0)
    elif profile and entry.object()["spec"].get("profile") != profile:
        obj = entry.object()
        obj["spec"]["profile"] = profile
        await store.put(key, encode(obj), entry.revision)


def _watchers(cache: Cache) -> float:
    return float(sum(kind.watchers for kind in cache.kinds.values()))


def administrator(name: str = "shoal-admin") -> User:
    return User(name, MASTERS, cluster=ROOT)


def worker_user(name: str) -> User:
    return User(joining.user_name(name), (joining.GROUP,), cluster=ROOT)
