"""Serves the built page: content types, ETags, gzip computed once, and strict security headers.

Everybody may read these files; they contain only the program. Only files that were in the folder at the first request
can be named, so no path leads out of it.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from shoal.objects.errors import MethodNotSupported, NotFound
from shoal.objects.wire import Request, Response

STATIC_DIR = Path(__file__).parent / "static"
INDEX = "index.html"
MIN_COMPRESSED_BYTES = 512

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Cache-Control", "no-cache"),
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept-Encoding"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""A browser revalidates every file, so an upgraded hub is never shown by an old page."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    content_type: str
    body: bytes
    compressed: bytes
    """Empty if compression is not worth it."""
    etag: str


class StaticFiles:
    def __init__(self, folder: Path = STATIC_DIR) -> None:
        self._folder = folder
        self._files: dict[str, StaticFile] | None = None

    def handle(self, request: Request, name: str) -> Response:
        """`name` is the path after `/ui/`; empty is the page itself."""
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        if self._files is None:
            self._files = _load_files(self._folder)
        file = self._files.get(name or INDEX)
        if file is None:
            raise NotFound("the server could not find the requested resource")
        headers = (*HEADERS, ("ETag", file.etag))
        if _etag_matches(request.headers.get("if-none-match", ""), file.etag):
            return Response(304, b"", "", headers)
        if file.compressed and _accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, file.compressed, file.content_type, (*headers, ("Content-Encoding", "gzip")))
        return Response(200, file.body, file.content_type, headers)


def _load_files(folder: Path) -> dict[str, StaticFile]:
    return {
        path.relative_to(folder).as_posix(): _load_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in CONTENT_TYPES
    }


def _load_file(path: Path) -> StaticFile:
    body = path.read_bytes()
    # Without a timestamp, so that all replicas of a hub send the same bytes.
    compressed = gzip.compress(body, mtime=0) if len(body) >= MIN_COMPRESSED_BYTES else b""
    return StaticFile(CONTENT_TYPES[path.suffix], body, compressed, f'"{sha256(body).hexdigest()[:20]}"')


def _etag_matches(if_none_match: str, etag: str) -> bool:
    """Weak comparison, as for GET: a proxy may have marked the ETag as weak."""
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in if_none_match.split(","))


def _accepts_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.split(","):
        coding, _, quality = choice.partition(";")
        if coding.strip().lower() == "gzip":
            return quality.replace(" ", "").rstrip("0").rstrip(".") != "q="
    return False
