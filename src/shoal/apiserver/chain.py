"""The handler chain of every request: cluster, authentication, authorization, verb, response.

`HandlerChain.handle` is a `wire.Handler`. It answers reads synchronously and returns an awaitable for writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping

import orjson

from shoal.apiserver.aio import forward_result
from shoal.apiserver.audit import AUDIT_ID_HEADER, AuditContext, Auditor, audit_id_of
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.endpoints.nonresource import NonResourceHandler, not_found_page
from shoal.apiserver.endpoints.routes import ExtraRoute, ExtraRoutes
from shoal.apiserver.flowcontrol.seats import InFlightLimiter
from shoal.apiserver.impersonation import impersonate
from shoal.apiserver.inprocess import IN_PROCESS
from shoal.apiserver.metrics.requests import APIServerMetrics, RequestLabels, request_labels_of
from shoal.apiserver.registry.clusters import LogicalCluster
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.deadline import LONG_RUNNING, request_timeout
from shoal.apiserver.request.info import ROOT, WILDCARD, RequestInfo, parse_path, verb_of
from shoal.apiserver.request.options import parse_bool, parse_query
from shoal.apiserver.request.tracing import request_span, run_in_span
from shoal.apiserver.request_attributes import RequestAttributes, authorizer_attributes, cached_request_attributes
from shoal.apiserver.response.negotiation import error_media_type, negotiate
from shoal.apiserver.response.serializer import encode_as
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs import find_read, find_write
from shoal.apiserver.write.locks import namespace_lock_key, needs_quota_lock, run_locked
from shoal.objects.errors import (
    Forbidden,
    InternalError,
    MethodNotSupported,
    NotFound,
    StatusError,
    StoreError,
    TimedOut,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade
from shoal.store.interface import ValueTooLarge
from shoal.telemetry import tracing

log = logging.getLogger("shoal.apiserver")

TIMEOUT_MESSAGE = "Timeout: request did not complete within requested timeout - context deadline exceeded"


class HandlerChain:
    def __init__(
        self,
        server: ServerComponents,
        nonresource: NonResourceHandler,
        metrics: APIServerMetrics,
        audit: Auditor | None = None,
        routes: Mapping[str, ExtraRoute] | None = None,
    ) -> None:
        self._server = server
        self._now = server.clock.monotonic
        self._nonresource = nonresource
        self._metrics = metrics
        self._audit = audit
        self._inflight = InFlightLimiter()
        self._routes = ExtraRoutes(routes or {})
        self.passthrough_prefixes = self._routes.passthrough_prefixes
        """Path prefixes of requests that are passed on unread."""
        self.reads_in_flight = 0
        """Number of reads that wait until the store is known to hold nothing newer."""

    @property
    def writes_in_flight(self) -> int:
        return self._inflight.count

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        if request.path.startswith(self.passthrough_prefixes):
            return self._pass_through(request)
        info = parse_path(request.path)
        if info.plural and not (request.query and _accepts_stale_read(request.query)):
            try:
                read_index = self._server.store.read_index()
            except StoreError as error:
                return self._error_response(request, error, None)
            if read_index is not None:
                return self._serve_after_read_index(read_index, request, info)
        elif info.path.startswith("/readyz") and (probe := self._nonresource.probe_readiness()) is not None:
            return self._serve_after_readiness_probe(probe, request, info)
        return self._serve_traced(request, info)

    async def _serve_after_readiness_probe(self, probe: Awaitable[None], request: Request, info: RequestInfo) -> Answer:
        await probe
        result = self._serve_traced(request, info)
        return result if isinstance(result, (Response, StreamResponse, Upgrade)) else await result

    def _serve_after_read_index(
        self, read_index: asyncio.Future[None], request: Request, info: RequestInfo
    ) -> Awaitable[Answer]:
        """Serves the read after the store's read index has arrived. Other servers write the same store, and no client
        may get an older state than another client was already given.

        Uses callbacks, because a coroutine for every read would cost more than the read.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.reads_in_flight += 1

        def on_read_index(future: asyncio.Future[None]) -> None:
            self.reads_in_flight -= 1
            # Retrieved even when the client has gone: asyncio reports an exception that is never retrieved.
            error = None if future.cancelled() else future.exception()
            if answer.done():
                return
            if future.cancelled():
                answer.cancel()
                return
            result = (
                self._serve_traced(request, info)
                if error is None
                else self._error_response(request, _as_exception(error), None)
            )
            if isinstance(result, (Response, StreamResponse, Upgrade)):
                answer.set_result(result)
            else:
                forward_result(asyncio.ensure_future(result), answer)

        read_index.add_done_callback(on_read_index)
        return answer

    def _serve_traced(self, request: Request, info: RequestInfo) -> Answer | Awaitable[Answer]:
        if tracing.tracer is not None and (span := request_span(tracing.tracer, request, info)) is not None:
            return run_in_span(tracing.tracer, span, lambda: self._serve(request, info))
        return self._serve(request, info)

    def _serve(self, request: Request, info: RequestInfo) -> Answer | Awaitable[Answer]:
        started = self._now()
        cached = cached_request_attributes(request.method, request.path) if not request.query else None
        labels = (
            cached.metric_labels
            if cached is not None and request.method != "PATCH"
            else request_labels_of(request, info)
        )
        record = self._audit.begin_request(request, info) if self._audit is not None else None
        try:
            answer = self._run_filters(request, info, cached, record)
        except Exception as error:
            return self._finish_request(request, labels, started, self._error_response(request, error, record), record)
        if isinstance(answer, RequestContext):
            return self._execute_write(answer, labels, started, record)
        return self._finish_request(request, labels, started, answer, record)

    def _pass_through(self, request: Request) -> Answer | Awaitable[Answer]:
        """Passes the request on without authentication, audit or changes. The server that answers it does all of
        that.
        """
        started = self._now()
        name, handler = self._routes.passthrough_handler(request.path)
        labels = (request.method, "", "", name, "", "")
        try:
            answer = handler(request)
        except Exception as error:
            answer = self._error_response(request, error, None)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._metrics.observe(labels, answer.status, self._now() - started)
            return answer
        return self._await_passthrough(request, labels, started, answer)

    async def _await_passthrough(
        self, request: Request, labels: RequestLabels, started: float, pending: Awaitable[Answer]
    ) -> Answer:
        try:
            answer = await pending
        except Exception as error:
            answer = self._error_response(request, error, None)
        self._metrics.observe(labels, answer.status, self._now() - started)
        return answer

    def close(self) -> None:
        """Closes the audit log. Called when no more requests come."""
        if self._audit is not None:
            self._audit.close()

    async def _execute_write(
        self, ctx: RequestContext, labels: RequestLabels, started: float, record: AuditContext | None
    ) -> Answer:
        answer: Answer
        write = find_write(ctx)
        try:
            with self._inflight:
                async with asyncio.timeout(request_timeout(ctx.query)):
                    if (
                        needs_quota_lock(self._server, ctx)
                        and self._server.webhooks.for_cluster(ctx.info.cluster) is None
                    ):
                        result = await run_locked(namespace_lock_key(ctx), write, self._server, ctx)
                    else:
                        result = await write(self._server, ctx)
                    answer = self._finish_response(ctx, result)
        except TimeoutError:
            answer = self._error_response(ctx.request, TimedOut(TIMEOUT_MESSAGE), record)
        except Exception as error:
            answer = self._error_response(ctx.request, error, record)
            answer = answer if _is_router_error(ctx, error) else _add_warnings(ctx, answer)
        if record is not None and ctx.audit_annotations:
            record.annotations = ctx.audit_annotations
        return self._finish_request(ctx.request, labels, started, answer, record)

    @staticmethod
    def _error_response(request: Request, error: Exception, record: AuditContext | None) -> Answer:
        answer = error_response(error)
        if record is not None:
            assert isinstance(answer.body, bytes)
            record.failure_status = orjson.loads(answer.body)
        media_type = error_media_type(request.headers.get("accept", ""))
        return encode_as(answer, media_type) if media_type else answer

    def _run_filters(
        self, request: Request, info: RequestInfo, cached: RequestAttributes | None, record: AuditContext | None
    ) -> Answer | RequestContext:
        """Serves reads synchronously. Returns the RequestContext of a write, which the caller must await."""
        query = parse_query(request.query) if request.query else {}
        if query and "timeout" in query and not parse_bool(query, "watch") and info.subresource not in LONG_RUNNING:
            request_timeout(query)
        user = self._server.authenticator.authenticate(request, info.cluster)
        if record is not None:
            record.user = user
        cluster = self._enter_cluster(info, user)
        user = impersonate(request, user, info.cluster, self._server.authorizer)
        verb = cached.verb if cached is not None else verb_of(request.method, info, parse_bool(query, "watch"))
        if cluster.profile != "hub":
            request.response_headers = self._server.flow_schemas.flow_of(info.cluster, user, verb, info).headers
        if record is not None and user is not record.user:
            record.impersonated_user = user
        if not info.plural:
            route = self._routes.authorized_route(request.path)
            if route is not None:
                self._authorize(route.attributes_of(request.path), user, record)
                return route.handler(request)
            if record is not None:
                self._record_decision(
                    record, user, Attributes(info.cluster, record.verb, path=info.path.rstrip("/") or "/")
                )
            return self._nonresource.handle(request, info, user, cluster, query)
        if record is not None:
            record.verb = verb
        self._authorize(
            cached.attributes if cached is not None else authorizer_attributes(info, verb, query), user, record
        )
        resource = self._find_resource(cluster, info)
        if resource is None:
            return not_found_page()
        if info.cluster == WILDCARD and verb not in ("list", "watch"):
            raise MethodNotSupported("the wildcard view of all logical clusters supports only list and watch")
        output = negotiate(request.headers.get("accept", ""), resource.custom, verb)
        alias = resource.strategy.storage_alias
        resource_cache = self._server.cache.resource_cache(alias.group if alias else resource.group, resource.plural)
        ctx = RequestContext(request, info, verb, user, cluster, resource, resource_cache, output, query)
        if resource.deprecation_warning:
            ctx.warnings.append(resource.deprecation_warning)
        read = find_read(ctx)
        if read is None:
            return ctx
        try:
            return self._finish_response(ctx, read(self._server, ctx))
        except StatusError as error:
            if not ctx.warnings:
                raise
            return _add_warnings(ctx, self._error_response(request, error, record))

    def _enter_cluster(self, info: RequestInfo, user: User) -> LogicalCluster:
        """Returns the logical cluster of the request. Only users who may enter all clusters learn whether a cluster is
        unknown or closed.
        """
        if info.cluster == WILDCARD:
            if user.crosses_clusters:
                root = self._server.clusters.get(ROOT)
                assert root is not None
                return root
            raise Forbidden("the wildcard view of all logical clusters is for administrators of root only")
        cluster = self._server.clusters.get(info.cluster)
        if cluster is not None:
            return cluster
        if user.crosses_clusters:
            raise NotFound(
                f'logicalclusters.core.shoal.dev "{info.cluster}" not found',
                name=info.cluster,
                group="core.shoal.dev",
                kind="logicalclusters",
            )
        raise Forbidden(f'forbidden: User "{user.name}" cannot enter the logical cluster "{info.cluster}"')

    def _record_decision(self, record: AuditContext, user: User, attributes: Attributes) -> None:
        decision = self._server.authorizer.authorize(user, attributes)
        record.authorized, record.authorization_reason = decision.allowed, decision.reason

    def _authorize(self, attributes: Attributes, user: User, record: AuditContext | None) -> None:
        decision = self._server.authorizer.authorize(user, attributes)
        if record is not None:
            record.authorized, record.authorization_reason = decision.allowed, decision.reason
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def _find_resource(self, cluster: LogicalCluster, info: RequestInfo) -> Resource | None:
        """Returns None for a path outside the built-in API groups."""
        registry = self._server.clusters.registry(cluster)
        resource = registry.find(info.group, info.version, info.plural)
        if resource is None and info.cluster == WILDCARD:
            resource = self._server.clusters.builtin(info.group, info.version, info.plural)
        if resource is None and not registry.is_builtin_group(info.group):
            return None
        if resource is None or (info.namespace and not resource.namespaced):
            raise NotFound("the server could not find the requested resource")
        if resource.namespaced and info.name and not info.namespace:
            raise NotFound("the server could not find the requested resource")
        return resource

    @staticmethod
    def _finish_response(ctx: RequestContext, answer: Answer) -> Answer:
        if ctx.output.media_type:
            answer = encode_as(answer, ctx.output.media_type)
        return _add_warnings(ctx, answer)

    def _finish_request(
        self, request: Request, labels: RequestLabels, started: float, answer: Answer, record: AuditContext | None
    ) -> Answer:
        self._metrics.observe(labels, answer.status, self._now() - started)
        if request.response_headers:
            answer.headers += request.response_headers
        if isinstance(answer, Response) and answer.content_type == "application/json" and _wants_pretty(request):
            body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            answer.body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2) + b"\n" if body else body
        if record is not None and self._audit is not None:
            self._audit.finish_request(record, answer)
        elif request.remote_addr != IN_PROCESS:
            answer.headers += ((AUDIT_ID_HEADER, audit_id_of(request.headers)),)
        return answer


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else InternalError(str(error))


def _accepts_stale_read(query: str) -> bool:
    """Reports whether the client accepts any state (`resourceVersion=0`)."""
    return "resourceVersion=0" in query and parse_query(query).get("resourceVersion") == "0"


def _is_router_error(ctx: RequestContext, error: Exception) -> bool:
    """Reports whether upstream's router would refuse this for a built-in kind. Such an error carries no warnings."""
    if ctx.resource.custom:
        return False
    return isinstance(error, MethodNotSupported) or (isinstance(error, UnsupportedMedia) and ctx.verb == "patch")


def _add_warnings(ctx: RequestContext, answer: Answer) -> Answer:
    if ctx.warnings:
        answer.headers += tuple(("Warning", f'299 - "{_escape_warning(text)}"') for text in dict.fromkeys(ctx.warnings))
    return answer


def _escape_warning(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")[:1024]


def _wants_pretty(request: Request) -> bool:
    """As upstream: `pretty` is set in the query, or the user agent is a browser, curl or Wget."""
    if "pretty=" in request.query:
        return parse_query(request.query).get("pretty", "") in ("1", "true")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def error_response(error: Exception) -> Response:
    """Converts an exception to the Status response a client understands."""
    if isinstance(error, ValueTooLarge):
        error = TooLarge(f"Request entity too large: {error}")
    elif isinstance(error, StoreError):
        log.error("store error: %s", error)
        error = Unavailable(str(error), retry_after=1)
    elif not isinstance(error, StatusError):
        log.error("unexpected error", exc_info=error)
        error = InternalError(f"Internal error occurred: {type(error).__name__}")
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.status_code, orjson.dumps(error.to_status()), headers=headers)
