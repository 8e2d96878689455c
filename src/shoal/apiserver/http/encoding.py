"""Encodes responses: status line and headers, body batches, gzip, and the `v1.Status` of an error."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus

import orjson

from shoal.objects.errors import InternalError, StatusError
from shoal.objects.wire import Request, Response, Sink, StreamResponse

log = logging.getLogger(__name__)

WRITE_BATCH_BYTES = 256 * 1024
"""Bodies up to this size are sent in one write, larger ones in writes of about this size."""
SMALL_WRITE_BATCH_BYTES = 64 * 1024
"""The batch size of streams, and on a crowded server, where buffers per connection add up."""

Headers = tuple[tuple[str, str], ...]

_REASON_PHRASES = {status.value: status.phrase for status in HTTPStatus}

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def encode_head(status: int, content_type: str, headers: Headers, date: bytes, framing: bytes) -> bytes:
    """Returns the status line and headers. `date` and `framing` (length, connection) are complete header lines."""
    header_lines = _header_lines(headers) if headers else ""
    add_cache_control = not (header_lines.startswith("Cache-Control:") or "\nCache-Control:" in header_lines)
    return b"%b%b%b%b\r\n" % (
        _encode_status_line(status, content_type, add_cache_control),
        date,
        framing,
        header_lines.encode(),
    )


@lru_cache(maxsize=512)
def _encode_status_line(status: int, content_type: str, cache_control: bool) -> bytes:
    status_line = f"HTTP/1.1 {status} {_REASON_PHRASES.get(status, 'Unknown')}\r\n"
    if content_type:
        status_line += _header_lines((("Content-Type", content_type),))
    if cache_control:
        status_line += "Cache-Control: no-cache, private\r\n"
    return status_line.encode()


def _header_lines(headers: Headers) -> str:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        # A line break in a value would allow header injection.
        folded = ((name, value.replace("\r", " ").replace("\n", " ")) for name, value in headers)
        lines = "".join([f"{name}: {value}\r\n" for name, value in folded])
    return lines


def encode_date_header(seconds: float) -> bytes:
    """Returns the `Date` header. Day and month names are spelled here because strftime's depend on the locale."""
    at = datetime.fromtimestamp(int(seconds), UTC)
    return f"Date: {_DAYS[at.weekday()]}, {at:%d} {_MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT\r\n".encode()


def body_size(body: bytes | list[bytes]) -> int:
    return len(body) if isinstance(body, bytes) else sum(map(len, body))


def body_batches(body: bytes | list[bytes], batch_bytes: int = WRITE_BATCH_BYTES) -> Iterator[bytes | memoryview]:
    """Yields the body in parts of about `batch_bytes`: small pieces joined, large ones sliced without a copy."""
    small_pieces: list[bytes] = []
    size = 0
    for piece in [body] if isinstance(body, bytes) else body:
        if len(piece) < batch_bytes:
            small_pieces.append(piece)
            size += len(piece)
        if size >= batch_bytes or (len(piece) >= batch_bytes and small_pieces):
            yield b"".join(small_pieces)
            small_pieces, size = [], 0
        if len(piece) >= batch_bytes:
            view = memoryview(piece)
            yield from (view[at : at + batch_bytes] for at in range(0, len(view), batch_bytes))
    if small_pieces:
        yield b"".join(small_pieces)


def accepts_gzip(request: Request, response: Response) -> bool:
    """True if the client accepts gzip and the body is not encoded yet."""
    if any(name.lower() == "content-encoding" for name, _ in response.headers):
        return False
    for choice in request.headers.get("accept-encoding", "").split(","):
        coding, _, parameters = choice.partition(";")
        if coding.strip() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def encode_gzip(request: Request, response: Response, min_bytes: int = 128 * 1024) -> Response:
    """Returns the response compressed, or unchanged if it is small, already encoded or the client does not accept
    gzip.
    """
    if body_size(response.body) < min_bytes or not accepts_gzip(request, response):
        return response
    return gzip_response(response)


_COMPRESS_IN_THREAD_ABOVE = 1024 * 1024
_GZIP_HEADERS = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


def compress(response: Response, size: int) -> Response | StreamResponse:
    return gzip_stream(response) if size > _COMPRESS_IN_THREAD_ABOVE else gzip_response(response)


def gzip_response(response: Response) -> Response:
    deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
    pieces = [deflate.compress(part) for part in body_batches(response.body)]
    pieces.append(deflate.flush())
    return Response(response.status, pieces, response.content_type, (*response.headers, *_GZIP_HEADERS))


def gzip_stream(response: Response) -> StreamResponse:
    """Returns the response compressed as the client reads it, in another thread. The whole would be a copy for each
    slow client.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def send(sink: Sink) -> None:
        deflate, has_room = zlib.compressobj(1, zlib.DEFLATED, 31), asyncio.Event()
        sink.on_drain(has_room.set)
        sink.on_close(has_room.set)
        for part in body_batches(response.body):
            sink.write(await asyncio.to_thread(deflate.compress, part))
            while sink.pending_bytes > SMALL_WRITE_BATCH_BYTES and not sink.closed:
                has_room.clear()
                await has_room.wait()
            if sink.closed:
                return
        sink.write(deflate.flush())
        sink.close()

    def start(sink: Sink) -> None:
        task = asyncio.get_running_loop().create_task(send(sink))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return StreamResponse(response.status, start, response.content_type, (*response.headers, *_GZIP_HEADERS))


def encode_chunk(pieces: Iterable[bytes], size: int) -> bytes:
    """Returns one chunk of a chunked body that holds all pieces."""
    return b"".join([b"%x\r\n" % size, *pieces, b"\r\n"])


def status_response(error: StatusError) -> Response:
    """Returns the `v1.Status` of an error as JSON."""
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.status_code, orjson.dumps(error.to_status()), headers=headers)


def render_error(error: BaseException, on_error: Callable[[StatusError], Response]) -> Response:
    """Returns the response to a request that failed. An error that is not meant for clients is logged."""
    if not isinstance(error, StatusError):
        log.error("request failed", exc_info=error)
        error = InternalError("Internal error occurred: the server's log has the details")
    try:
        return on_error(error)
    except Exception:
        log.exception("cannot render error response")
        return status_response(error)
