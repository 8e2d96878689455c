"""The dashboard at `/ui/`: static files for everybody, and one stream of all watches of a browser.

`files` serves the bundle that is built from `web/`. `stream` joins many watches into one response, each requested with
the caller's own token: the API server decides what the token may see. The dashboard has no permissions of its own.
"""

from __future__ import annotations

from shoal.clock import Clock
from shoal.dashboard.files import StaticFiles
from shoal.dashboard.stream import WatchMultiplexer
from shoal.dashboard.stream_request import parse_watches
from shoal.objects.errors import MethodNotSupported, NotFound, Unauthorized, Unavailable, UnsupportedMedia
from shoal.objects.wire import Answer, Handler, Request, StreamResponse

__all__ = ["PATH_SEGMENT", "Dashboard"]

PATH_SEGMENT = "ui"
STREAM_NAME = "stream"


class Dashboard:
    def __init__(self) -> None:
        self._files = StaticFiles()
        self._server: tuple[Handler, Clock] | None = None

    def attach_server(self, handler: Handler, clock: Clock) -> None:
        """Sets the server this is a route of, which is created after its routes."""
        self._server = handler, clock

    def handle(self, request: Request) -> Answer:
        prefix = f"/{PATH_SEGMENT}/"
        if not request.path.startswith(prefix):
            raise NotFound("the server could not find the requested resource")
        name = request.path.removeprefix(prefix)
        return self._handle_stream(request) if name == STREAM_NAME else self._files.handle(request, name)

    def _handle_stream(self, request: Request) -> Answer:
        if request.method != "POST":
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        # Client certificates are not accepted: browsers send them for requests of any site.
        if not request.headers.get("authorization", "").lower().startswith("bearer "):
            raise Unauthorized("Unauthorized")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise UnsupportedMedia("the body of a stream request must be application/json")
        if self._server is None:
            raise Unavailable("the server is starting", retry_after=1)
        watches = parse_watches(request.body)
        headers = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
        return StreamResponse(
            200, WatchMultiplexer(*self._server, request, watches).start, "application/x-ndjson", headers
        )
