"""/healthz, /readyz and /metrics of a process that serves nothing else, over plain HTTP."""

from __future__ import annotations

from shoal.apiserver.http import HttpServer
from shoal.assemble.telemetry import process_metrics
from shoal.objects.wire import Request, Response

TEXT = "text/plain; charset=utf-8"
STOP_SECONDS = 1.0


class Health:
    def __init__(self) -> None:
        self._http = HttpServer(self._handle)

    async def start(self, host: str, port: int) -> int:
        """Returns the port it listens on."""
        return await self._http.start(host, port)

    async def stop(self) -> None:
        await self._http.stop(STOP_SECONDS)

    def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", TEXT)
        if request.path in ("/healthz", "/readyz"):
            return Response(200, b"ok", TEXT)
        if request.path == "/metrics":
            return Response(200, process_metrics().encode(), f"{TEXT}; version=0.0.4")
        return Response(404, b"404 page not found\n", TEXT)
