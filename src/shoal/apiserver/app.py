"""The handler chain of every request: cluster, authentication, authorization, verb, response.

`HandlerChain.handle` is a `wire.Handler`. It answers reads synchronously and returns an awaitable for writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping

import orjson

from shoal.apiserver.asked import Asked, plainly, wanted
from shoal.apiserver.audit import AUDIT_ID, Audit, Record, audit_id
from shoal.apiserver.authn import User
from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.clusters import LogicalCluster
from shoal.apiserver.core import Call, Core
from shoal.apiserver.deadline import LONG_RUNNING, seconds_for
from shoal.apiserver.forms import converted
from shoal.apiserver.impersonation import impersonated
from shoal.apiserver.inflight import InFlight
from shoal.apiserver.inprocess import IN_PROCESS
from shoal.apiserver.metrics import Labels, Metrics, labels_of
from shoal.apiserver.negotiate import failure_form, negotiated
from shoal.apiserver.nonresource import NonResource, no_page
from shoal.apiserver.options import boolean, parse_query
from shoal.apiserver.paths import ROOT, WILDCARD, Target, parse, verb_of
from shoal.apiserver.registry import Resource
from shoal.apiserver.routes import Route, Routes
from shoal.apiserver.traced import carried_out, span_of
from shoal.apiserver.turns import namespace_of, take_turn, takes_turns
from shoal.apiserver.verbs import find_read, find_write
from shoal.apiserver.waiting import hand_on
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

LATE = "Timeout: request did not complete within requested timeout - context deadline exceeded"


class App:
    def __init__(
        self,
        core: Core,
        nonresource: NonResource,
        metrics: Metrics,
        audit: Audit | None = None,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        self._core = core
        self._now = core.clock.monotonic
        self._nonresource = nonresource
        self._metrics = metrics
        self._audit = audit
        self._inflight = InFlight()
        self._routes = Routes(routes or {})
        self.passed = self._routes.prefixes
        """Path prefixes of requests that are passed on unread."""
        self.reads_under_way = 0
        """Number of reads that wait until the store is known to hold nothing newer."""

    @property
    def writes_under_way(self) -> int:
        return self._inflight.now

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        if request.path.startswith(self.passed):
            return self._pass_on(request)
        target = parse(request.path)
        if target.plural and not (request.query and _any_state(request.query)):
            try:
                fresh = self._core.store.fresh()
            except StoreError as error:
                return self._failed(request, error, None)
            if fresh is not None:
                return self._when(fresh, request, target)
        elif target.path.startswith("/readyz") and (looking := self._nonresource.look()) is not None:
            return self._after(looking, request, target)
        return self._begin(request, target)

    async def _after(self, looking: Awaitable[None], request: Request, target: Target) -> Answer:
        await looking
        made = self._begin(request, target)
        return made if isinstance(made, (Response, StreamResponse, Upgrade)) else await made

    def _when(self, fresh: asyncio.Future[None], request: Request, target: Target) -> Awaitable[Answer]:
        """Serves the read after the store's read index has arrived. Other servers write the same store, and no client
        may get an older state than another client was already given.

        Uses callbacks, because a coroutine for every read would cost more than the read.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.reads_under_way += 1

        def go_on(done: asyncio.Future[None]) -> None:
            self.reads_under_way -= 1
            # Retrieved even when the client has gone: asyncio reports an exception that is never retrieved.
            error = None if done.cancelled() else done.exception()
            if answer.done():
                return
            if done.cancelled():
                answer.cancel()
                return
            made = self._begin(request, target) if error is None else self._failed(request, _as_error(error), None)
            if isinstance(made, (Response, StreamResponse, Upgrade)):
                answer.set_result(made)
            else:
                hand_on(asyncio.ensure_future(made), answer)

        fresh.add_done_callback(go_on)
        return answer

    def _begin(self, request: Request, target: Target) -> Answer | Awaitable[Answer]:
        if tracing.tracer is not None and (span := span_of(tracing.tracer, request, target)) is not None:
            return carried_out(tracing.tracer, span, lambda: self._serve(request, target))
        return self._serve(request, target)

    def _serve(self, request: Request, target: Target) -> Answer | Awaitable[Answer]:
        began = self._now()
        plain = plainly(request.method, request.path) if not request.query else None
        labels = plain.labels if plain is not None and request.method != "PATCH" else labels_of(request, target)
        record = self._audit.begin(request, target) if self._audit is not None else None
        try:
            answer = self._answer(request, target, plain, record)
        except Exception as error:
            return self._done(request, labels, began, self._failed(request, error, record), record)
        if isinstance(answer, Call):
            return self._wait(answer, labels, began, record)
        return self._done(request, labels, began, answer, record)

    def _pass_on(self, request: Request) -> Answer | Awaitable[Answer]:
        """Passes the request on without authentication, audit or changes. The server that answers it does all of
        that.
        """
        began = self._now()
        name, handler = self._routes.opened(request.path)
        labels = (request.method, "", "", name, "", "")
        try:
            answer = handler(request)
        except Exception as error:
            answer = self._failed(request, error, None)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._metrics.observe(labels, answer.status, self._now() - began)
            return answer
        return self._passed_on(request, labels, began, answer)

    async def _passed_on(self, request: Request, labels: Labels, began: float, coming: Awaitable[Answer]) -> Answer:
        try:
            answer = await coming
        except Exception as error:
            answer = self._failed(request, error, None)
        self._metrics.observe(labels, answer.status, self._now() - began)
        return answer

    def close(self) -> None:
        """Closes the audit log. Called when no more requests come."""
        if self._audit is not None:
            self._audit.close()

    async def _wait(self, call: Call, labels: Labels, began: float, record: Record | None) -> Answer:
        answer: Answer
        write = find_write(call)
        try:
            with self._inflight:
                async with asyncio.timeout(seconds_for(call.query)):
                    if takes_turns(self._core, call) and self._core.webhooks.of(call.target.cluster) is None:
                        made = await take_turn(namespace_of(call), write, self._core, call)
                    else:
                        made = await write(self._core, call)
                    answer = self._finished(call, made)
        except TimeoutError:
            answer = self._failed(call.request, TimedOut(LATE), record)
        except Exception as error:
            answer = self._failed(call.request, error, record)
            answer = answer if _unrouted(call, error) else _warned(call, answer)
        if record is not None and call.annotations:
            record.annotations = call.annotations
        return self._done(call.request, labels, began, answer, record)

    @staticmethod
    def _failed(request: Request, error: Exception, record: Record | None) -> Answer:
        answer = failure(error)
        if record is not None:
            assert isinstance(answer.body, bytes)
            record.failure = orjson.loads(answer.body)
        form = failure_form(request.headers.get("accept", ""))
        return converted(answer, form) if form else answer

    def _answer(self, request: Request, target: Target, plain: Asked | None, record: Record | None) -> Answer | Call:
        """Serves reads synchronously. Returns the RequestContext of a write, which the caller must await."""
        query = parse_query(request.query) if request.query else {}
        if query and "timeout" in query and not boolean(query, "watch") and target.subresource not in LONG_RUNNING:
            seconds_for(query)
        user = self._core.authenticator.authenticate(request, target.cluster)
        if record is not None:
            record.user = user
        cluster = self._enter(target, user)
        user = impersonated(request, user, target.cluster, self._core.authorizer)
        verb = plain.verb if plain is not None else verb_of(request.method, target, boolean(query, "watch"))
        if cluster.profile != "hub":
            request.promised = self._core.flows.of(target.cluster, user, verb, target).headers
        if record is not None and user is not record.user:
            record.acts_as = user
        if not target.plural:
            route = self._routes.guarded(request.path)
            if route is not None:
                self._allow(route.wanted(request.path), user, record)
                return route.handler(request)
            if record is not None:
                self._decide(record, user, Attributes(target.cluster, record.verb, path=target.path.rstrip("/") or "/"))
            return self._nonresource.answer(request, target, user, cluster, query)
        if record is not None:
            record.verb = verb
        self._allow(plain.wanted if plain is not None else wanted(target, verb, query), user, record)
        resource = self._find(cluster, target)
        if resource is None:
            return no_page()
        if target.cluster == WILDCARD and verb not in ("list", "watch"):
            raise MethodNotSupported("the wildcard view of all logical clusters can be listed and watched only")
        view = negotiated(request.headers.get("accept", ""), resource.custom, verb)
        shared = resource.rules.shared
        kind = self._core.cache.kind(shared.group if shared else resource.group, resource.plural)
        call = Call(request, target, verb, user, cluster, resource, kind, view, query)
        if resource.deprecated:
            call.warnings.append(resource.deprecated)
        read = find_read(call)
        if read is None:
            return call
        try:
            return self._finished(call, read(self._core, call))
        except StatusError as error:
            if not call.warnings:
                raise
            return _warned(call, self._failed(request, error, record))

    def _enter(self, target: Target, user: User) -> LogicalCluster:
        """Returns the logical cluster of the request. Only users who may enter all clusters learn whether a cluster is
        unknown or closed.
        """
        if target.cluster == WILDCARD:
            if user.crosses_clusters:
                root = self._core.clusters.get(ROOT)
                assert root is not None
                return root
            raise Forbidden("the wildcard view of all logical clusters is for administrators of root only")
        cluster = self._core.clusters.get(target.cluster)
        if cluster is not None:
            return cluster
        if user.crosses_clusters:
            raise NotFound(
                f'logicalclusters.core.shoal.dev "{target.cluster}" not found',
                name=target.cluster,
                group="core.shoal.dev",
                kind="logicalclusters",
            )
        raise Forbidden(f'forbidden: User "{user.name}" cannot enter the logical cluster "{target.cluster}"')

    def _decide(self, record: Record, user: User, attributes: Attributes) -> None:
        decision = self._core.authorizer.authorize(user, attributes)
        record.allowed, record.reason = decision.allowed, decision.reason

    def _allow(self, attributes: Attributes, user: User, record: Record | None) -> None:
        decision = self._core.authorizer.authorize(user, attributes)
        if record is not None:
            record.allowed, record.reason = decision.allowed, decision.reason
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def _find(self, cluster: LogicalCluster, target: Target) -> Resource | None:
        """Returns None for a path outside the built-in API groups."""
        registry = self._core.clusters.registry(cluster)
        resource = registry.find(target.group, target.version, target.plural)
        if resource is None and target.cluster == WILDCARD:
            resource = self._core.clusters.builtin(target.group, target.version, target.plural)
        if resource is None and not registry.has_own(target.group):
            return None
        if resource is None or (target.namespace and not resource.namespaced):
            raise NotFound("the server could not find the requested resource")
        if resource.namespaced and target.name and not target.namespace:
            raise NotFound("the server could not find the requested resource")
        return resource

    @staticmethod
    def _finished(call: Call, answer: Answer) -> Answer:
        if call.view.form:
            answer = converted(answer, call.view.form)
        return _warned(call, answer)

    def _done(self, request: Request, labels: Labels, began: float, answer: Answer, record: Record | None) -> Answer:
        self._metrics.observe(labels, answer.status, self._now() - began)
        if request.promised:
            answer.headers += request.promised
        if isinstance(answer, Response) and answer.content_type == "application/json" and _wants_pretty(request):
            body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            answer.body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2) + b"\n" if body else body
        if record is not None and self._audit is not None:
            self._audit.end(record, answer)
        elif request.remote != IN_PROCESS:
            answer.headers += ((AUDIT_ID, audit_id(request.headers)),)
        return answer


def _as_error(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else InternalError(str(error))


def _any_state(query: str) -> bool:
    """Reports whether the client accepts any state (`resourceVersion=0`)."""
    return "resourceVersion=0" in query and parse_query(query).get("resourceVersion") == "0"


def _unrouted(call: Call, error: Exception) -> bool:
    """Reports whether upstream's router would refuse this for a built-in kind. Such an error carries no warnings."""
    if call.resource.custom:
        return False
    return isinstance(error, MethodNotSupported) or (isinstance(error, UnsupportedMedia) and call.verb == "patch")


def _warned(call: Call, answer: Answer) -> Answer:
    if call.warnings:
        answer.headers += tuple(("Warning", f'299 - "{_quoted(text)}"') for text in dict.fromkeys(call.warnings))
    return answer


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")[:1024]


def _wants_pretty(request: Request) -> bool:
    """As upstream: `pretty` is set in the query, or the user agent is a browser, curl or Wget."""
    if "pretty=" in request.query:
        return parse_query(request.query).get("pretty", "") in ("1", "true")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def failure(error: Exception) -> Response:
    """Converts an exception to the Status response a client understands."""
    if isinstance(error, ValueTooLarge):
        error = TooLarge(f"Request entity too large: {error}")
    elif isinstance(error, StoreError):
        log.error("the store refused: %s", error)
        error = Unavailable(str(error), retry_after=1)
    elif not isinstance(error, StatusError):
        log.error("unexpected error", exc_info=error)
        error = InternalError(f"Internal error occurred: {type(error).__name__}")
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.status_code, orjson.dumps(error.wire()), headers=headers)
