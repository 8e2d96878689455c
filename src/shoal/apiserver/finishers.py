"""The finishers of the handler chain: what happens to every answer. `chain.FINISHERS` has their order.

A finisher changes `ctx.answer` or records it. Also converts exceptions to the Status responses clients understand.
"""

from __future__ import annotations

import logging

import orjson

from shoal.apiserver.audit import AUDIT_ID_HEADER, audit_id_of
from shoal.apiserver.inprocess import IN_PROCESS
from shoal.apiserver.response.negotiation import error_media_type, wants_pretty
from shoal.apiserver.response.serializer import encode_as
from shoal.apiserver.response.warnings import warning_headers
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.objects.errors import (
    InternalError,
    MethodNotSupported,
    StatusError,
    StoreError,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from shoal.objects.wire import Response
from shoal.store.interface import ValueTooLarge

log = logging.getLogger("shoal.apiserver")


def error_response(error: Exception) -> Response:
    """Converts an exception to the Status response a client understands. Nobody needs its traceback afterwards."""
    original = error
    if isinstance(error, ValueTooLarge):
        error = TooLarge(f"Request entity too large: {error}")
    elif isinstance(error, StoreError):
        log.error("store error: %s", error)
        # Without Retry-After, with which clients would repeat the request ten times before they show the reason.
        error = Unavailable(str(error))
    elif not isinstance(error, StatusError):
        log.error("unexpected error", exc_info=error)
        error = InternalError(f"Internal error occurred: {type(error).__name__}")
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    answer = Response(error.status_code, orjson.dumps(error.to_status()), headers=headers)
    _forget_frames(original)
    return answer


def _forget_frames(error: BaseException) -> None:
    """Frees what the frames of the error refer to. A frame that refers to the error would keep body and objects of the
    request until the next run of the garbage collector, which counts objects and not bytes.
    """
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            pending += (each.__cause__, each.__context__)


def failure_response(ctx: RequestContext, error: Exception) -> Response:
    """As `error_response` for a request in the chain: in its media type, and noted in its audit record."""
    answer = error_response(error)
    if ctx.audit is not None:
        assert isinstance(answer.body, bytes)
        ctx.audit.failure_status = orjson.loads(answer.body)
    ctx.is_rendered = False
    ctx.media_type = error_media_type(ctx.request.headers.get("accept", ""))
    if ctx.warnings and _is_router_error(ctx, error):
        ctx.warnings.clear()
    return answer


def _is_router_error(ctx: RequestContext, error: Exception) -> bool:
    """Reports whether upstream's router would refuse this for a built-in kind. Such an error carries no warnings."""
    if ctx.resource.custom:
        return False
    return isinstance(error, MethodNotSupported) or (isinstance(error, UnsupportedMedia) and ctx.verb == "patch")


def serialize(server: ServerComponents, ctx: RequestContext) -> None:
    if ctx.media_type:
        ctx.answer = encode_as(ctx.answer, ctx.media_type)


def add_warnings(server: ServerComponents, ctx: RequestContext) -> None:
    if ctx.warnings:
        ctx.answer.headers += warning_headers(ctx.warnings)


def pretty_print(server: ServerComponents, ctx: RequestContext) -> None:
    """Lists are indented by their verb."""
    answer = ctx.answer
    if ctx.is_rendered or not wants_pretty(ctx.request):
        return
    if isinstance(answer, Response) and answer.content_type == "application/json":
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        answer.body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2) + b"\n" if body else body


def add_headers(server: ServerComponents, ctx: RequestContext) -> None:
    """The flow and, without an audit log, an audit id all the same, unless no person sees it."""
    request = ctx.request
    if ctx.audit is None and request.remote_addr != IN_PROCESS:
        ctx.answer.headers += (*ctx.response_headers, (AUDIT_ID_HEADER, audit_id_of(request.headers)))
    elif ctx.response_headers:
        ctx.answer.headers += ctx.response_headers


def observe_metrics(server: ServerComponents, ctx: RequestContext) -> None:
    server.metrics.observe(ctx.labels, ctx.answer.status, server.clock.monotonic() - ctx.started)


def finish_audit(server: ServerComponents, ctx: RequestContext) -> None:
    """Writes the audit event, and its id to the answer."""
    if ctx.audit is not None and server.auditor is not None:
        if ctx.audit_annotations:
            ctx.audit.annotations = ctx.audit_annotations
        server.auditor.finish_request(ctx.audit, ctx.answer)
