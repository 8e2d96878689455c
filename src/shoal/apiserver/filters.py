"""The filters of the handler chain, one function each. `chain.FILTERS` has their order.

A filter fills in the context and returns None, answers the request, or raises a StatusError. None of them waits: a
filter that has to returns a `Suspension`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from shoal.apiserver.aio import forward_result
from shoal.apiserver.authn.authenticator import ANONYMOUS
from shoal.apiserver.authz import Attributes, AuthorizationDecision, forbidden
from shoal.apiserver.flowcontrol.seats import InFlightLimiter
from shoal.apiserver.impersonation import HEADER_PREFIX, impersonated_user
from shoal.apiserver.metrics.requests import request_labels_of
from shoal.apiserver.registry import mirrored_pods
from shoal.apiserver.request.deadline import LONG_RUNNING, request_timeout
from shoal.apiserver.request.info import ROOT, WILDCARD, parse_path, verb_of
from shoal.apiserver.request.options import parse_bool, parse_query
from shoal.apiserver.request.tracing import request_span, run_in_span
from shoal.apiserver.request_attributes import authorizer_attributes, cached_request_attributes
from shoal.apiserver.response import negotiation
from shoal.apiserver.server import UNKNOWN_USER, RequestContext, ServerComponents, not_found_page, slice_path
from shoal.objects.errors import Forbidden, InternalError, MethodNotSupported, NotFound
from shoal.objects.wire import Answer, Response, StreamResponse, Upgrade
from shoal.telemetry import tracing

JWKS_PATH = "/openid/v1/jwks"
PUBLIC_INFO_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What the default roles of a cluster let everybody read."""
Result = Answer | Awaitable[Answer]
Proceed = Callable[[], Result]
"""Runs the rest of the chain."""
Suspension = Callable[[Proceed, Callable[[Exception], Answer]], Awaitable[Answer]]
"""Waits for something, then calls its first argument, or its second if that failed."""


def request_info(server: ServerComponents, ctx: RequestContext) -> None:
    """What method, path and query ask for. From here on the request is counted and audited, even if it fails."""
    request = ctx.request
    ctx.started = server.clock.monotonic()
    if not request.query:
        ctx.attributes = attributes = cached_request_attributes(request.method, request.path)
        ctx.info, ctx.verb, ctx.query = attributes.info, attributes.verb, {}
        ctx.labels = (
            attributes.metric_labels if request.method != "PATCH" else request_labels_of(request, attributes.info)
        )
        if server.auditor is not None:
            ctx.audit = server.auditor.begin_request(request, ctx.info)
        return
    ctx.attributes, ctx.info = None, parse_path(request.path)
    ctx.labels = request_labels_of(request, ctx.info)
    if server.auditor is not None:
        ctx.audit = server.auditor.begin_request(request, ctx.info)
    ctx.query = query = parse_query(request.query)
    watching = parse_bool(query, "watch")
    ctx.verb = verb_of(request.method, ctx.info, watching)
    if "timeout" in query and not watching and ctx.info.subresource not in LONG_RUNNING:
        request_timeout(query)


def start_span(server: ServerComponents, ctx: RequestContext) -> Suspension | None:
    """Traces the rest of the chain. Left out if tracing is off."""
    tracer = tracing.tracer
    span = request_span(tracer, ctx.request, ctx.info) if tracer is not None else None
    if tracer is None or span is None:
        return None
    return lambda proceed, fail: run_in_span(tracer, span, proceed)


def wait_for_store(server: ServerComponents, ctx: RequestContext) -> Suspension | None:
    """Waits for the store's read index. Other servers write the same store, and no client may get an older state than
    another client was already given.
    """
    if ctx.info.plural:
        if ctx.query and ctx.query.get("resourceVersion") == "0":
            return None  # the client accepts any state
        read_index = server.store.read_index()
        return None if read_index is None else partial(_after_read_index, server.inflight, read_index)
    if ctx.info.path.startswith("/readyz") and (probe := server.paths.probe_readiness()) is not None:
        return partial(_after, probe)
    return None


def _after_read_index(
    inflight: InFlightLimiter,
    read_index: asyncio.Future[None],
    proceed: Proceed,
    fail: Callable[[Exception], Answer],
) -> Awaitable[Answer]:
    """Uses callbacks, because a coroutine for every read would cost more than the read."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    inflight.waiting_reads += 1

    def on_read_index(future: asyncio.Future[None]) -> None:
        inflight.waiting_reads -= 1
        # Retrieved even when the client has gone: asyncio reports an exception that is never retrieved.
        error = None if future.cancelled() else future.exception()
        if answer.done():
            return
        if future.cancelled():
            answer.cancel()
            return
        if error is None:
            result = proceed()
        else:
            result = fail(error if isinstance(error, Exception) else InternalError(str(error)))
        if isinstance(result, (Response, StreamResponse, Upgrade)):
            answer.set_result(result)
        else:
            forward_result(asyncio.ensure_future(result), answer)

    read_index.add_done_callback(on_read_index)
    return answer


async def _after(step: Awaitable[object], proceed: Proceed, fail: Callable[[Exception], Answer]) -> Answer:
    try:
        await step
    except Exception as error:
        return fail(error)
    result = proceed()
    return result if isinstance(result, (Response, StreamResponse, Upgrade)) else await result


def authenticate(server: ServerComponents, ctx: RequestContext) -> None:
    if ctx.user is UNKNOWN_USER:
        ctx.user = server.authenticator.authenticate(ctx.request, ctx.info.cluster)
    elif ctx.authentication_error is not None:
        raise ctx.authentication_error
    connection = ctx.request.connection
    if connection is not None and connection.on_known is not None and ctx.user.name != ANONYMOUS:
        connection.identify()
    if ctx.audit is not None:
        ctx.audit.user = ctx.user


def enter_cluster(server: ServerComponents, ctx: RequestContext) -> None:
    """Only users who may enter all clusters learn whether a cluster is unknown or closed."""
    name, user = ctx.info.cluster, ctx.user
    cluster = server.clusters.get(ROOT if name == WILDCARD and user.crosses_clusters else name)
    if user.name == ANONYMOUS and hides_cluster(ctx):
        _check_public(server, ctx, exists=cluster is not None)
    if cluster is not None:
        ctx.cluster = cluster
    elif name == WILDCARD:
        raise Forbidden("the wildcard view of all logical clusters is for administrators of root only")
    elif user.crosses_clusters:
        message = f'logicalclusters.core.shoal.dev "{name}" not found'
        raise NotFound(message, name=name, group="core.shoal.dev", kind="logicalclusters")
    else:
        raise Forbidden(f'forbidden: User "{user.name}" cannot enter the logical cluster "{name}"')


def hides_cluster(ctx: RequestContext) -> bool:
    """Reports whether a client without a credential must not learn that the cluster of the request exists. At its own
    address a cluster shows its own certificate.
    """
    return ctx.info.cluster not in (ROOT, WILDCARD) and not ctx.request.at_own_address


def _check_public(server: ServerComponents, ctx: RequestContext, *, exists: bool) -> None:
    """Refuses all that the administrator of the cluster has not opened to everybody, in the same words if there is no
    such cluster. What default roles open is refused too, because it is open in every cluster.
    """
    attributes = _requested_attributes(ctx)
    may_be_open = exists and attributes.path not in PUBLIC_INFO_PATHS
    if not may_be_open or not server.authorizer.authorize(ctx.user, attributes).allowed:
        raise forbidden(ctx.user, attributes)


def _requested_attributes(ctx: RequestContext) -> Attributes:
    if ctx.attributes is not None:
        return ctx.attributes.attributes
    return authorizer_attributes(ctx.info, ctx.verb, ctx.query)


def count_connection(server: ServerComponents, ctx: RequestContext) -> None:
    """Counts the connection for the logical cluster of its last request. Most requests are of the same one."""
    connection, cluster = ctx.request.connection, ctx.info.cluster
    if connection is not None and connection.cluster != cluster and cluster != WILDCARD:
        server.limits.count_connection(connection, ctx.cluster)


def impersonate(server: ServerComponents, ctx: RequestContext) -> None:
    # One search in all header names is cheaper than one per header. False positives are sorted out below.
    if HEADER_PREFIX not in "".join(ctx.request.headers):
        return
    user = impersonated_user(ctx.request, ctx.user, ctx.info.cluster, server.authorizer)
    if user is not ctx.user:
        ctx.user, ctx.flow = user, None
        if ctx.audit is not None:
            ctx.audit.impersonated_user = user


def classify_flow(server: ServerComponents, ctx: RequestContext) -> None:
    """The flow of a request that has waited is known, unless it impersonates another user."""
    if ctx.cluster.profile != "hub":
        if ctx.flow is None:
            ctx.flow = server.flow_schemas.flow_of(ctx.info.cluster, ctx.user, ctx.verb, ctx.info)
        ctx.response_headers = ctx.flow.headers


def authorize(server: ServerComponents, ctx: RequestContext) -> Suspension | None:
    """The only place that authorizes a request as such: resources, extra routes and non-resource paths."""
    attributes = None
    if not ctx.info.plural:
        ctx.route = route = server.paths.extra_routes.authorized_route(ctx.request.path)
        attributes = route.attributes_of(ctx.request.path) if route is not None else None
    if attributes is None:
        attributes = _requested_attributes(ctx)
    decision = server.authorizer.authorize_steps(ctx.user, attributes)
    if not isinstance(decision, AuthorizationDecision):
        decided = server.slices.run(slice_path(ctx), decision)
        if not isinstance(decided, AuthorizationDecision):
            return partial(_after, _authorize_later(ctx, attributes, decided))
        decision = decided
    _check_decision(ctx, attributes, decision)
    return None


async def _authorize_later(
    ctx: RequestContext, attributes: Attributes, decision: Awaitable[AuthorizationDecision]
) -> None:
    """Of a user with so many roles that they are searched in slices."""
    _check_decision(ctx, attributes, await decision)


def _check_decision(ctx: RequestContext, attributes: Attributes, decision: AuthorizationDecision) -> None:
    if ctx.audit is not None:
        ctx.audit.verb = ctx.verb
        ctx.audit.authorized, ctx.audit.authorization_reason = decision.allowed, decision.reason
    if not decision.allowed:
        raise forbidden(ctx.user, attributes, decision.reason)


def ensure_cluster_keys(server: ServerComponents, ctx: RequestContext) -> Suspension | None:
    """Creates the keys of a cluster before somebody reads their public part: its authority is in the ConfigMap
    `kube-root-ca.crt`, its token keys are at /openid/v1/jwks.
    """
    if ctx.info.plural == "configmaps" and not ctx.info.group:
        if ctx.cluster.profile == "cluster" and ctx.info.cluster != WILDCARD and not ctx.cluster.terminating:
            name = ctx.cluster.name
            return None if server.keys.ca_bundle(name) else partial(_after, server.keys.ensure_root_ca(name))
    elif ctx.info.path == JWKS_PATH and not server.keys.signing_keys(ctx.cluster.name) and not ctx.cluster.terminating:
        return partial(_after, server.keys.ensure_signing_key(ctx.cluster.name))
    return None


def nonresource_paths(server: ServerComponents, ctx: RequestContext) -> Answer | Awaitable[Answer] | None:
    """Extra routes, and everything else that is no resource."""
    if ctx.info.plural:
        return None
    return ctx.route.handler(ctx.request) if ctx.route is not None else server.paths.nonresource(ctx)


def find_resource(server: ServerComponents, ctx: RequestContext) -> Answer | None:
    info = ctx.info
    registry = server.clusters.registry(ctx.cluster)
    resource = registry.find(info.group, info.version, info.plural)
    if resource is None:
        if info.cluster == WILDCARD:
            resource = server.clusters.builtin(info.group, info.version, info.plural)
        if resource is None and not registry.is_builtin_group(info.group):
            return not_found_page()
    if resource is None or (info.name and not info.namespace if resource.namespaced else info.namespace):
        kind = (info.group, info.version, info.plural)
        if ctx.cluster.profile == "hub" and kind in mirrored_pods.KINDS_OF_WORKLOAD_CLUSTERS:
            raise NotFound(mirrored_pods.UNSERVED_MESSAGE.format(plural=info.plural))
        raise NotFound("the server could not find the requested resource")
    if info.cluster == WILDCARD and ctx.verb not in ("list", "watch"):
        raise MethodNotSupported("the wildcard view of all logical clusters supports only list and watch")
    alias = resource.strategy.storage_alias
    ctx.resource = resource
    ctx.resource_cache = server.cache.resource_cache(alias.group if alias else resource.group, resource.plural)
    return None


def negotiate(server: ServerComponents, ctx: RequestContext) -> None:
    ctx.output = output = negotiation.negotiate(ctx.request.headers.get("accept", ""), ctx.resource.custom, ctx.verb)
    ctx.media_type = output.media_type
