"""Request spans: for requests with a `traceparent`, and for writes by anyone but Shoal's own controllers.

Controllers write all the time. Their own writes are not traced; writes they make because of a traced change are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.request.info import READ_METHODS, RequestInfo
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade
from shoal.telemetry import tracing

UNTRACED_RESOURCES = ("events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews")
CONTROLLER_AGENT_PREFIX = "shoal-"
"""Prefix of the controllers' user agents."""


def request_span(tracer: tracing.Tracer, request: Request, info: RequestInfo) -> tracing.Span | None:
    """Returns None if the request is not traced."""
    traceparent = request.headers.get("traceparent", "")
    parent = tracing.parse_traceparent(traceparent) if traceparent else None
    if parent is None:
        is_controller = request.headers.get("user-agent", "").startswith(CONTROLLER_AGENT_PREFIX)
        if (
            traceparent
            or is_controller
            or request.method in READ_METHODS
            or not info.plural
            or info.plural in UNTRACED_RESOURCES
        ):
            return None
    resource_path = "/".join(filter(None, (info.plural, info.subresource)))
    attributes = {
        "http.request.method": request.method,
        "url.path": request.path,
        "shoal.cluster": info.cluster,
        "k8s.resource": f"{info.plural}.{info.group}" if info.group else info.plural,
        "k8s.namespace": info.namespace,
        "k8s.name": info.name,
        "user_agent.original": request.headers.get("user-agent", ""),
    }
    non_empty = {key: value for key, value in attributes.items() if value}
    return tracer.start_span(
        "apiserver", f"{request.method} {resource_path or info.path}", tracing.SPAN_KIND_SERVER, parent, **non_empty
    )


async def run_in_span(
    tracer: tracing.Tracer, span: tracing.Span, begin: Callable[[], Answer | Awaitable[Answer]]
) -> Answer:
    before = tracing.current_context.set(span.context)
    error = "cancelled"
    try:
        result = begin()
        answer = result if isinstance(result, (Response, StreamResponse, Upgrade)) else await result
        span.attributes["http.response.status_code"] = answer.status
        error = "" if answer.status < 500 else f"status {answer.status}"
        return answer
    finally:
        tracing.current_context.reset(before)
        tracer.end_span(span, error)
