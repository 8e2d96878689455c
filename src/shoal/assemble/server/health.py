"""/healthz, /readyz and /metrics of a process that serves nothing else, over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable

from shoal.apiserver.http import HTTPServer
from shoal.assemble.telemetry.process_metrics import render_process_metrics
from shoal.objects.wire import Request, Response

TEXT_TYPE = "text/plain; charset=utf-8"
STOP_SECONDS = 1.0


class HealthServer:
    def __init__(self, unready_reason: Callable[[], str] = lambda: "") -> None:
        """`unready_reason` is why /readyz answers 503; empty: the process is ready."""
        self._http, self._unready_reason = HTTPServer(self._handle), unready_reason

    async def start(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        return await self._http.start(host, port)

    async def stop(self) -> None:
        await self._http.stop(STOP_SECONDS)

    def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", TEXT_TYPE)
        reason = self._unready_reason() if request.path == "/readyz" else ""
        if reason:
            return Response(503, f"{reason}\n".encode(), TEXT_TYPE)
        if request.path in ("/healthz", "/readyz"):
            return Response(200, b"ok", TEXT_TYPE)
        if request.path == "/metrics":
            return Response(200, render_process_metrics().encode(), f"{TEXT_TYPE}; version=0.0.4")
        return Response(404, b"404 page not found\n", TEXT_TYPE)
