"""/healthz, /readyz and /metrics of a process that serves nothing else, over plain HTTP."""

from __future__ import annotations

from shoal.apiserver.http import HTTPServer
from shoal.assemble.telemetry.process_metrics import render_process_metrics
from shoal.objects.wire import Request, Response

TEXT_TYPE = "text/plain; charset=utf-8"
STOP_SECONDS = 1.0


class HealthServer:
    def __init__(self) -> None:
        self._http = HTTPServer(self._handle)

    async def start(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        return await self._http.start(host, port)

    async def stop(self) -> None:
        await self._http.stop(STOP_SECONDS)

    def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", TEXT_TYPE)
        if request.path in ("/healthz", "/readyz"):
            return Response(200, b"ok", TEXT_TYPE)
        if request.path == "/metrics":
            return Response(200, render_process_metrics().encode(), f"{TEXT_TYPE}; version=0.0.4")
        return Response(404, b"404 page not found\n", TEXT_TYPE)
