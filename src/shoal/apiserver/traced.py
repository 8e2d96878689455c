"""Request spans: for requests with a `traceparent`, and for writes by anyone but Shoal's own controllers.

Controllers write all the time. Their own writes are not traced; writes they make because of a traced change are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.paths import READS, Target
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade
from shoal.telemetry import tracing

UNTOLD = ("events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews")
OWN_LOOPS = "shoal-"
"""Prefix of the controllers' user agents."""


def span_of(tracer: tracing.Tracer, request: Request, target: Target) -> tracing.Span | None:
    """Returns None if the request is not traced."""
    given = request.headers.get("traceparent", "")
    parent = tracing.parsed(given) if given else None
    if parent is None:
        own = request.headers.get("user-agent", "").startswith(OWN_LOOPS)
        if given or own or request.method in READS or not target.plural or target.plural in UNTOLD:
            return None
    place = "/".join(filter(None, (target.plural, target.subresource)))
    about = {
        "http.request.method": request.method,
        "url.path": request.path,
        "shoal.cluster": target.cluster,
        "k8s.resource": f"{target.plural}.{target.group}" if target.group else target.plural,
        "k8s.namespace": target.namespace,
        "k8s.name": target.name,
        "user_agent.original": request.headers.get("user-agent", ""),
    }
    said = {key: value for key, value in about.items() if value}
    return tracer.begin("apiserver", f"{request.method} {place or target.path}", tracing.SERVER, parent, **said)


async def carried_out(
    tracer: tracing.Tracer, span: tracing.Span, begin: Callable[[], Answer | Awaitable[Answer]]
) -> Answer:
    before = tracing.current.set(span.context)
    error = "cancelled"
    try:
        made = begin()
        answer = made if isinstance(made, (Response, StreamResponse, Upgrade)) else await made
        span.attributes["http.response.status_code"] = answer.status
        error = "" if answer.status < 500 else f"status {answer.status}"
        return answer
    finally:
        tracing.current.reset(before)
        tracer.end(span, error)
