"""The handler chain: every request passes FILTERS in order, then its verb, then FINISHERS.

`HandlerChain.handle` is a `wire.Handler`. It answers reads synchronously and returns an awaitable for writes and for
reads whose answer takes long. The filters are plain functions, because a coroutine per read would cost more than the
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from shoal.apiserver.authn.authenticator import (
    ANONYMOUS,
    UNAUTHENTICATED,
    User,
    cluster_of_user,
)
from shoal.apiserver.filters import (
    Suspension,
    authenticate,
    authorize,
    classify_flow,
    count_connection,
    ensure_cluster_keys,
    enter_cluster,
    find_resource,
    hides_cluster,
    impersonate,
    negotiate,
    nonresource_paths,
    request_info,
    start_span,
    wait_for_store,
)
from shoal.apiserver.finishers import (
    add_headers,
    add_warnings,
    failure_response,
    finish_audit,
    observe_metrics,
    pretty_print,
    serialize,
)
from shoal.apiserver.flowcontrol.flowschema import Flow, PriorityLevel
from shoal.apiserver.http.body_budget import body_refused_error
from shoal.apiserver.request.deadline import request_timeout
from shoal.apiserver.request.info import ROOT, WILDCARD
from shoal.apiserver.response.serializer import encoding_slices, is_long
from shoal.apiserver.server import RequestContext, ServerComponents, slice_path
from shoal.apiserver.verbs import select_verb
from shoal.objects.errors import StatusError, TimedOut, Unauthorized
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade, continue_response
from shoal.telemetry import tracing

Filter = Callable[[ServerComponents, RequestContext], Answer | Awaitable[Answer] | Suspension | None]
"""Returns None to go on. Raises StatusError to refuse the request."""
Finisher = Callable[[ServerComponents, RequestContext], None]

FILTERS: tuple[Filter, ...] = (
    request_info,
    start_span,
    wait_for_store,
    authenticate,
    enter_cluster,
    count_connection,
    impersonate,
    classify_flow,
    authorize,
    ensure_cluster_keys,
    nonresource_paths,
    find_resource,
    negotiate,
    select_verb,
)
HEAD_FILTERS: tuple[Filter, ...] = tuple(
    step for step in FILTERS if step not in (start_span, ensure_cluster_keys, nonresource_paths)
)
"""Filters that the head of a request passes before its body is read. They need no body and change nothing."""
FINISHERS: tuple[Finisher, ...] = (
    serialize,
    add_warnings,
    pretty_print,
    add_headers,
    observe_metrics,
    finish_audit,
)
PLAIN_FINISHERS: tuple[Finisher, ...] = (pretty_print, add_headers, observe_metrics)
"""All that does something for JSON without warnings while the audit log is off: for most reads."""
PASSTHROUGH_FINISHERS: tuple[Finisher, ...] = (serialize, observe_metrics)

TIMEOUT_MESSAGE = "Timeout: request did not complete within requested timeout - context deadline exceeded"
PROBE_PATHS = ("/healthz", "/livez", "/readyz")
_PROXIED_QUEUE_LENGTH = 300
_PROXIED_LEVEL = PriorityLevel(
    "elsewhere", shares=20, is_queuing=True, max_queued_per_flow=_PROXIED_QUEUE_LENGTH, max_queued=_PROXIED_QUEUE_LENGTH
)
"""The priority level of requests proxied to another server, which authenticates its own users."""


class HandlerChain:
    def __init__(self, server: ServerComponents) -> None:
        self._server = server
        self._passthrough_prefixes = server.paths.extra_routes.passthrough_prefixes
        self._filters = tuple(step for step in FILTERS if step is not start_span or tracing.tracer is not None)
        self._filters_after_queue = tuple(step for step in self._filters if step is not request_info)

    def handle(self, request: Request, ctx: RequestContext | None = None) -> Answer | Awaitable[Answer]:
        """`ctx` is the context of a request that the dispatcher has classified."""
        if request.path.startswith(self._passthrough_prefixes):
            return pass_through(self._server, request)
        if ctx is None:
            return run_filters(self._server, RequestContext(request), iter(self._filters))
        return run_filters(self._server, ctx, iter(self._filters_after_queue))

    def handle_head(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answers the head of a request whose body has not arrived: with an error, or with 100 and an owner of the
        body. The whole request then passes the whole chain.
        """
        if request.path.startswith(self._passthrough_prefixes):
            _, flow = self.classify(request)
            return admit_body(request, flow.body_owner if flow is not None else None)
        return run_head_filters(self._server, RequestContext(request), iter(HEAD_FILTERS))

    def classify(self, request: Request) -> tuple[RequestContext | None, Flow | None]:
        """Returns the flow of a request, and its context for `handle`. A request without a flow never waits."""
        if request.path.startswith(PROBE_PATHS):
            return None, None
        if request.path.startswith(self._passthrough_prefixes):
            # One flow per target and peer address: the user is not known here.
            return None, Flow("/".join(request.path.split("/", 4)[:4]), _PROXIED_LEVEL, request.remote_addr, ())
        return classify(self._server, request)

    def close(self) -> None:
        """Closes the audit log. Called when no more requests come."""
        if self._server.auditor is not None:
            self._server.auditor.close()


def classify(server: ServerComponents, request: Request) -> tuple[RequestContext | None, Flow | None]:
    """Runs the filters that tell the flow of a request. `HandlerChain.handle` does not run them again."""
    ctx = RequestContext(request)
    ctx.authentication_error = None
    try:
        request_info(server, ctx)
    except StatusError:
        return None, None  # refused at once, which costs less than to let it wait
    name = ctx.info.cluster
    try:
        authenticate(server, ctx)
    except Unauthorized as error:
        ctx.user = User(ANONYMOUS, (UNAUTHENTICATED,), cluster=cluster_of_user(name))
        ctx.authentication_error = error
    if ctx.user.crosses_clusters:
        return ctx, None
    nobody = ctx.user.name == ANONYMOUS and hides_cluster(ctx)
    # Those without a credential wait in root, as for a cluster that does not exist.
    cluster = ROOT if nobody or name == WILDCARD or server.clusters.get(name) is None else name
    ctx.flow = server.flow_schemas.flow_of(cluster, ctx.user, ctx.verb, ctx.info)
    return ctx, ctx.flow


def run_filters(server: ServerComponents, ctx: RequestContext, filters: Iterator[Filter]) -> Answer | Awaitable[Answer]:
    """Runs the remaining filters and the verb. Reads are answered here."""
    try:
        for step in filters:
            result = step(server, ctx)
            if result is not None:
                if isinstance(result, (Response, StreamResponse, Upgrade)):
                    return finish(server, ctx, result)
                if not callable(result):  # the answer of a path that is no resource, not a suspension
                    return await_answer(server, ctx, result)
                return result(
                    lambda: run_filters(server, ctx, filters), lambda error: finish_failed(server, ctx, error)
                )
        if ctx.read is not None:
            answer = ctx.read(server, ctx)
            if ctx.media_type and isinstance(answer, Response) and is_long(answer, ctx.media_type):
                answer = server.slices.run(slice_path(ctx), encoding_slices(answer, ctx.media_type))
            if not isinstance(answer, (Response, StreamResponse, Upgrade)):
                return await_answer(server, ctx, answer)
            return finish(server, ctx, answer)
    except Exception as error:
        return finish_failed(server, ctx, error)
    return execute_write(server, ctx)


def run_head_filters(
    server: ServerComponents, ctx: RequestContext, filters: Iterator[Filter]
) -> Answer | Awaitable[Answer]:
    """As `run_filters`, up to the verb."""
    try:
        for step in filters:
            if step is find_resource and not ctx.info.plural:
                break
            result = step(server, ctx)
            if result is not None:
                if isinstance(result, (Response, StreamResponse, Upgrade)):
                    return finish(server, ctx, result)
                if not callable(result):
                    return await_answer(server, ctx, result)
                return result(
                    lambda: run_head_filters(server, ctx, filters), lambda error: finish_failed(server, ctx, error)
                )
        return admit_body(ctx.request, _body_owner(server, ctx))
    except Exception as error:
        return finish_failed(server, ctx, error)


def _body_owner(server: ServerComponents, ctx: RequestContext) -> tuple[str, str] | None:
    """Whoever is not known takes from the share of all unknown clients, not from that of a cluster."""
    if ctx.user.crosses_clusters:
        return None
    if ctx.user.name == ANONYMOUS:
        return UNAUTHENTICATED, ctx.request.remote_addr
    flow = ctx.flow or server.flow_schemas.flow_of(ctx.cluster.name, ctx.user, ctx.verb, ctx.info)
    return flow.body_owner


def admit_body(head: Request, owner: tuple[str, str] | None) -> Response:
    if head.hold is not None and not head.hold.assign(owner):
        raise body_refused_error()
    return continue_response()


async def execute_write(server: ServerComponents, ctx: RequestContext) -> Answer:
    with server.inflight:
        return await await_answer(server, ctx, ctx.write(server, ctx))


async def await_answer(server: ServerComponents, ctx: RequestContext, answer: Awaitable[Answer]) -> Answer:
    """Of a write or a long read."""
    try:
        async with asyncio.timeout(request_timeout(ctx.query)):
            result = await answer
            if ctx.media_type and isinstance(result, Response) and is_long(result, ctx.media_type):
                result = await server.slices.complete(slice_path(ctx), encoding_slices(result, ctx.media_type))
            return finish(server, ctx, result)
    except TimeoutError:
        return finish_failed(server, ctx, TimedOut(TIMEOUT_MESSAGE))
    except Exception as error:
        return finish_failed(server, ctx, error)


def finish(server: ServerComponents, ctx: RequestContext, answer: Answer) -> Answer:
    ctx.answer = answer
    for step in FINISHERS if ctx.media_type or ctx.warnings or ctx.audit is not None else PLAIN_FINISHERS:
        step(server, ctx)
    return ctx.answer


def finish_failed(server: ServerComponents, ctx: RequestContext, error: Exception) -> Answer:
    return finish(server, ctx, failure_response(ctx, error))


def pass_through(server: ServerComponents, request: Request) -> Answer | Awaitable[Answer]:
    """Passes the request on without authentication, audit or changes. The server that answers it does all of that."""
    ctx = RequestContext(request)
    ctx.started = server.clock.monotonic()
    name, handler = server.paths.extra_routes.passthrough_handler(request.path)
    ctx.labels = (request.method, "", "", name, "", "")
    try:
        answer = handler(request)
    except Exception as error:
        answer = failure_response(ctx, error)
    if isinstance(answer, (Response, StreamResponse, Upgrade)):
        return _finish_passed_through(server, ctx, answer)
    return _await_passed_through(server, ctx, answer)


async def _await_passed_through(server: ServerComponents, ctx: RequestContext, pending: Awaitable[Answer]) -> Answer:
    try:
        answer = await pending
    except Exception as error:
        answer = failure_response(ctx, error)
    return _finish_passed_through(server, ctx, answer)


def _finish_passed_through(server: ServerComponents, ctx: RequestContext, answer: Answer) -> Answer:
    ctx.answer = answer
    request = ctx.request
    if request.connection is not None and answer.status < 400 and "authorization" in request.headers:
        request.connection.identify()  # the server that has answered knows the client
    for step in PASSTHROUGH_FINISHERS:
        step(server, ctx)
    return ctx.answer
