"""The header cache of the request parser gives the same result as the parser."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.http.body_budget import BodyBudget
from shoal.apiserver.http.parser import ParsedRequest, RequestParser
from shoal.objects.errors import StatusError
from shoal.objects.wire import ClientCertificate
from tests.apiserver.http.loopback import GET

CERTIFICATE = ClientCertificate("someone", ())
HEADERS = b" HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nContent-Length: 0\r\n\r\n"
PIECES = [
    GET % b"/a",
    GET % b"/b?c=d&e",
    GET % b"/a%20b",
    GET % b"/a#b",
    GET % b"http://a/b",
    GET % b"",
    b"GET /x" + HEADERS,
    b"GET /y" + HEADERS,
    b"GET /y" + HEADERS + b"GET /z" + HEADERS,
    b"GET /x HTTP/1.1\r\nA: b" + HEADERS,
    b"GET /" + b"l" * 400 + HEADERS,
    b"\r\nGET /y" + HEADERS,
    b"HEAD /y" + HEADERS,
    b"PUT /y HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /y HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /y HTTP/1.1\r\nHost: a\r\nA: b\r\nA: c\r\n\r\n",
    b"GET /y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: r\r\n\r\n",
    b"GET /y HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
    b"GET /y HTTP/1.1\r\n",
    b"Host: shoal\r\n\r\n",
    b"GET /y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
]


class UncachedParser(RequestParser):
    """Parses everything."""

    def _cache_headers(self, data: bytes) -> None:
        pass


def outcome(reader: RequestParser) -> tuple[object, ...]:
    """All that is known after what was fed."""
    ready = [str(each) if isinstance(each, StatusError) else each for each in reader.parsed]
    return ready, reader.is_done, reader.has_trailing_bytes, reader.phase, reader.wants_continue


def parser_pair() -> tuple[RequestParser, RequestParser]:
    limits = HTTPLimits(max_header_bytes=300)
    bodies = BodyBudget(1 << 20)
    return (
        RequestParser(limits, "127.0.0.1", CERTIFICATE, bodies),
        UncachedParser(limits, "127.0.0.1", CERTIFICATE, bodies),
    )


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_it_makes_no_difference_what_came_before(pieces: list[bytes]) -> None:
    reader, forgetful = parser_pair()
    for piece in pieces:
        reader.feed(piece)
        forgetful.feed(piece)
        assert outcome(reader) == outcome(forgetful)


@pytest.mark.parametrize("at", [b"/a%bc", b"%b/a", b"/a?b%bc"])
def test_any_byte_of_a_target_is_taken_or_refused_as_the_parser_does(at: bytes) -> None:
    for byte in range(256):
        reader, forgetful = parser_pair()
        for each in (reader, forgetful):
            each.feed(b"GET /first" + HEADERS)
            each.feed(b"GET " + at.replace(b"%b", bytes([byte])) + HEADERS)
        assert outcome(reader) == outcome(forgetful), byte


def test_headers_are_parsed_once() -> None:
    reader, _ = parser_pair()
    for path in (b"/a", b"/b?c"):
        reader.feed(b"GET " + path + HEADERS)
    first, second = (each.request for each in reader.parsed if isinstance(each, ParsedRequest))
    assert (second.path, second.query, second.remote_addr, second.certificate) == ("/b", "c", "127.0.0.1", CERTIFICATE)
    assert second.headers is first.headers
