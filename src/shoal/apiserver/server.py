"""What every filter and verb gets: the server's components (`ServerComponents`) and the current request
(`RequestContext`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shoal.apiserver.audit import AuditContext, Auditor
from shoal.apiserver.authn.authenticator import Authenticator, User
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.apiserver.authz import Authorizer
from shoal.apiserver.cache.cacher import CachedObject, ResourceCache, WatchCache
from shoal.apiserver.flowcontrol.flowschema import Flow, FlowSchemas, Headers
from shoal.apiserver.flowcontrol.seats import InFlightLimiter
from shoal.apiserver.flowcontrol.slices import QueuePath, SliceScheduler
from shoal.apiserver.inprocess import IN_PROCESS
from shoal.apiserver.keyed_locks import KeyedLocks
from shoal.apiserver.limits import ServerLimits
from shoal.apiserver.metrics.requests import APIServerMetrics, RequestLabels
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.apiserver.processpool.pool import HeavyLimits, ProcessPool
from shoal.apiserver.registry.clusters import LogicalCluster, LogicalClusters
from shoal.apiserver.registry.policy_source import PolicySource
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.info import RequestInfo
from shoal.apiserver.request_attributes import RequestAttributes
from shoal.apiserver.response.negotiation import OutputMediaType
from shoal.apiserver.routes import AuthorizedRoute, ExtraRoutes
from shoal.apiserver.watch_pacer import WatchPacer
from shoal.apiserver.webhooks.source import WebhookSource
from shoal.clock import Clock
from shoal.kinds.fleet.access import HubUserToken, HubUserTokenRequest
from shoal.objects.errors import BadRequest, NotFound, Unauthorized, format_value
from shoal.objects.names import is_path_segment_name
from shoal.objects.wire import Answer, Request, Response
from shoal.store.interface import Store


@dataclass(frozen=True, slots=True)
class NameGenerator:
    """Source of uids, generated names and random fractions. Tests use a deterministic one."""

    uid: Callable[[], str]
    suffix: Callable[[], str]
    """Five characters for generateName."""
    fraction: Callable[[], float]
    """A number in [0, 1) that spreads work over time."""


def _no_nonresource_paths(ctx: RequestContext) -> Answer:
    return not_found_page()


def _no_probe() -> None:
    """A server without a readiness probe."""


@dataclass(slots=True)
class PathHandlers:
    """Handlers of the paths beside the resource API. They use the server's components and are set after those."""

    extra_routes: ExtraRoutes = field(default_factory=ExtraRoutes)
    nonresource: Callable[[RequestContext], Answer | Awaitable[Answer]] = _no_nonresource_paths
    probe_readiness: Callable[[], Awaitable[None] | None] = _no_probe
    """Runs before /readyz is answered and updates what its checks report."""
    hub_user_tokens: Callable[[HubUserTokenRequest], Awaitable[HubUserToken]] | None = None
    """Of a hub: gets a token from the worker of a ManagedCluster."""


@dataclass(frozen=True, slots=True)
class ServerComponents:
    store: Store
    cache: WatchCache
    clusters: LogicalClusters
    authenticator: Authenticator
    authorizer: Authorizer
    tokens: TokenSigner
    keys: ClusterKeys
    clock: Clock
    name_generator: NameGenerator
    webhooks: WebhookSource
    policies: PolicySource
    flow_schemas: FlowSchemas
    metrics: APIServerMetrics
    limits: ServerLimits
    auditor: Auditor | None = None
    """None if the audit log is off."""
    inflight: InFlightLimiter = field(default_factory=InFlightLimiter)
    paths: PathHandlers = field(default_factory=PathHandlers)
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    processes: ProcessPool = field(default_factory=lambda: ProcessPool("shoal.apiserver.verbs.tasks"))
    """For heavy writes. Started by the first of them."""
    heavy_limits: HeavyLimits = field(default_factory=HeavyLimits)
    slices: SliceScheduler = field(default_factory=SliceScheduler)
    watch_pacer: WatchPacer = field(default_factory=WatchPacer)


ReadVerb = Callable[[ServerComponents, "RequestContext"], Answer | Awaitable[Answer]]
"""Answers at once, unless the answer is long."""
WriteVerb = Callable[[ServerComponents, "RequestContext"], Awaitable[Answer]]
UNKNOWN_USER = User("", ())
"""The user of a request that is not authenticated yet."""


class RequestContext:
    """One request on its way through the handler chain. The filters fill it in their order (`chain.FILTERS`).

    Reading an attribute before the filter that sets it is a defect and raises AttributeError. `__init__` sets only
    what some requests never get.
    """

    __slots__ = (
        "answer", "attributes", "audit", "audit_annotations", "authentication_error", "cluster", "flow",
        "info", "is_rendered", "labels", "media_type", "output", "query", "read", "request", "resource",
        "resource_cache", "response_headers", "route", "started", "user", "verb", "warnings", "write",
    )  # fmt: skip
    request: Request
    # --- request_info
    info: RequestInfo
    attributes: RequestAttributes | None
    """What follows from method and path; None if the query matters as well."""
    labels: RequestLabels
    started: float
    query: dict[str, str]
    verb: str
    audit: AuditContext | None
    """None if the audit log is off."""
    # --- authenticate, impersonate
    user: User
    authentication_error: Unauthorized | None
    """Set by the dispatcher alone: why it could not authenticate the request. The chain answers with it."""
    # --- enter_cluster, classify_flow, authorize
    cluster: LogicalCluster
    flow: Flow | None
    response_headers: Headers
    """Headers added to the response, whatever the response is."""
    route: AuthorizedRoute | None
    # --- find_resource, negotiate, select_verb
    resource: Resource
    resource_cache: ResourceCache
    output: OutputMediaType
    read: ReadVerb | None
    """The verb if it answers synchronously, else None and `write` is set."""
    write: WriteVerb
    # --- verbs
    warnings: list[str]
    audit_annotations: dict[str, str] | None
    """Audit annotations set by webhooks and policies."""
    is_rendered: bool
    """Whether the verb has encoded its answer as the client wants it, indentation included."""
    # --- finishers
    answer: Answer
    media_type: str
    """The media type the response is encoded in. Empty: as the verb has encoded it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.user = UNKNOWN_USER
        self.flow = self.audit = self.audit_annotations = None
        self.response_headers = ()
        self.media_type = ""
        self.is_rendered = False
        self.warnings = []

    def derive(
        self,
        *,
        info: RequestInfo | None = None,
        resource: Resource | None = None,
        resource_cache: ResourceCache | None = None,
        output: OutputMediaType | None = None,
    ) -> RequestContext:
        """Returns the context of another operation of the same request. Both share their warnings."""
        ctx = RequestContext(self.request)
        ctx.info = info or self.info
        ctx.verb, ctx.query, ctx.user, ctx.cluster = self.verb, self.query, self.user, self.cluster
        ctx.resource = resource or self.resource
        ctx.resource_cache = resource_cache or self.resource_cache
        ctx.output = output or self.output
        ctx.warnings, ctx.audit_annotations = self.warnings, self.audit_annotations
        return ctx

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def namespace(self) -> str:
        return self.info.namespace

    def cached_object(self) -> CachedObject | None:
        return self.resource_cache.get(self.info.cluster, self.info.namespace, self.info.name)

    def require_object(self) -> CachedObject:
        entry = self.cached_object()
        if entry is None:
            raise self.not_found()
        return entry

    def not_found(self, name: str = "") -> NotFound | BadRequest:
        name = name or self.info.name
        if problems := is_path_segment_name(name):
            # No object can have such a name. Upstream reports it at lookup.
            return BadRequest(f"Name parameter invalid: {format_value(name)}: {';'.join(problems)}")
        return NotFound(
            f'{self.resource.group_resource} "{name}" not found',
            name=name,
            group=self.resource.group,
            kind=self.resource.plural,
        )


def not_found_page() -> Response:
    """Upstream sends no Status for a path outside all resources."""
    return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")


def slice_path(ctx: RequestContext) -> QueuePath:
    """The place of a long read among others. Each logical cluster has its share, and so have the server's own
    controllers, whichever cluster they read.
    """
    cluster = ctx.user.cluster if ctx.request.remote_addr != IN_PROCESS else IN_PROCESS
    flow = ctx.flow
    if flow is None:
        return (cluster, 1.0), ((cluster, ""), 1.0), (ctx.user.name, 1.0)
    return (cluster, 1.0), ((cluster, flow.level.name), max(flow.level.shares, 1)), (flow.name, 1.0)
