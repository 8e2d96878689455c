"""`/ui/…`: files for everybody, `/ui/stream` for callers with a token. The API server decides what the token may
see.
"""

from __future__ import annotations

from shoal.clock import Clock
from shoal.dashboard.asked import read
from shoal.dashboard.files import Files
from shoal.dashboard.stream import Fan
from shoal.objects.errors import MethodNotSupported, NotFound, Unauthorized, Unavailable, UnsupportedMedia
from shoal.objects.wire import Answer, Handler, Request, StreamResponse

SEGMENT = "ui"
STREAM = "stream"


class Dashboard:
    def __init__(self) -> None:
        self._files = Files()
        self._server: tuple[Handler, Clock] | None = None

    def serve(self, handler: Handler, clock: Clock) -> None:
        """Sets the server this is a route of, which is created after its routes."""
        self._server = handler, clock

    def answer(self, request: Request) -> Answer:
        prefix = f"/{SEGMENT}/"
        if not request.path.startswith(prefix):
            raise NotFound("the server could not find the requested resource")
        name = request.path.removeprefix(prefix)
        return self._stream(request) if name == STREAM else self._files.answer(request, name)

    def _stream(self, request: Request) -> Answer:
        if request.method != "POST":
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        # Client certificates are not accepted: browsers send them for requests of any site.
        if not request.headers.get("authorization", "").lower().startswith("bearer "):
            raise Unauthorized("Unauthorized")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise UnsupportedMedia("the body of a stream's request is application/json")
        if self._server is None:
            raise Unavailable("the server is starting", retry_after=1)
        watches = read(request.body)
        headers = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
        return StreamResponse(200, Fan(*self._server, request, watches).start, "application/x-ndjson", headers)
