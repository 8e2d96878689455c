"""Clients that do not speak properly, speak slowly, or do not listen. Everybody else is served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.serving import Cluster, Server, config_map

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HANG = 10.0


@contextmanager
def plain(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as connection:
        yield connection


@contextmanager
def secure(server: Server) -> Iterator[ssl.SSLSocket]:
    with plain(server) as raw, server.context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65536):
            found += piece
    return found


def answer_to(server: Server, *pieces: bytes) -> tuple[int, bytes]:
    """Status and body of the first answer to what is sent on a fresh connection."""
    with secure(server) as connection:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for piece in pieces:
                connection.sendall(piece)
        return first_answer(connection)


def first_answer(connection: socket.socket) -> tuple[int, bytes]:
    with http.client.HTTPResponse(connection) as answer:
        answer.begin()
        return answer.status, answer.read()


def request(cluster: Cluster, path: str, method: str = "GET", more: str = "", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return (
        f"{method} {cluster.prefix}{path} HTTP/1.1\r\nHost: shoal\r\nAuthorization: Bearer {cluster.server.token}\r\n"
        f"Connection: close\r\n{length}{more}\r\n"
    ).encode("latin-1") + body


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n\r\n", b"GET /\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\x00\x05hello", b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n",
        b"\xff\xfe\xfd / HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda data: repr(data[:30]),
)  # fmt: skip
def test_what_is_no_http_is_refused(cluster: Cluster, garbage: bytes) -> None:
    with secure(cluster.server) as connection:
        connection.sendall(garbage)
        if garbage == b"\r\n\r\n":
            connection.sendall(b"GET /\r\n\r\n")
        status, body = first_answer(connection)
    assert status in (400, 505), body
    assert json.loads(body)["code"] == status


def test_huge_headers_are_refused(cluster: Cluster) -> None:
    for more in ("X-Large: " + "x" * 100_000 + "\r\n", "X-Many: x\r\n" * 10_000):
        status, body = answer_to(cluster.server, request(cluster, CONFIG_MAPS, more=more))
        assert (status, json.loads(body)["reason"]) == (431, "RequestHeaderFieldsTooLarge")
    status, body = answer_to(cluster.server, request(cluster, "/" + "x" * 100_000))
    assert (status, json.loads(body)["code"]) == (431, 431)


def test_line_breaks_in_paths_and_values_make_no_headers(cluster: Cluster) -> None:
    path = f"{CONFIG_MAPS}?labelSelector=a%0d%0aX-Evil:%201&pretty=%0d%0aX-Evil:%201"
    answer = cluster.get(path)
    assert (answer.status, "x-evil" in answer.headers) == (400, False)
    odd = config_map("a") | {"unknown\r\nX-Evil: 1": 1}
    answer = cluster.post(CONFIG_MAPS, odd)
    assert (answer.status, "x-evil" in answer.headers) == (201, False)
    assert "\\n" not in answer.headers["warning"]


def test_host_and_absolute_targets_do_not_matter(cluster: Cluster) -> None:
    for host in ("evil.example.com", "127.0.0.1:1", "[::1]", "x" * 1000):
        sent = request(cluster, "/version").replace(b"Host: shoal", b"Host: " + host.encode())
        assert answer_to(cluster.server, sent)[0] == 200
    sent = request(cluster, "/version").replace(b"GET /", b"GET https://evil.example.com/")
    assert answer_to(cluster.server, sent)[0] == 200


def test_plain_http_and_noise_on_the_tls_port_hurt_nobody(cluster: Cluster) -> None:
    for noise in (
        request(cluster, CONFIG_MAPS),
        b"\x16\x03\x01\xff\xff" + b"\0" * 500,
        b"\x80\x2e\x01",
        b"SSH-2.0-x\r\n",
    ):
        with plain(cluster.server) as connection:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            assert b"HTTP/1.1 200" not in rest(connection)
        assert cluster.get("/version").status == 200


def test_half_sent_requests_hold_up_nobody(cluster: Cluster) -> None:
    whole = request(cluster, CONFIG_MAPS, "POST", body=json.dumps(config_map("a")).encode())
    with contextlib.ExitStack() as open_ones:
        for length in (0, 1, 20, len(whole) // 2, len(whole) - 1):
            connection = open_ones.enter_context(secure(cluster.server))
            connection.sendall(whole[:length])
        handshake = open_ones.enter_context(plain(cluster.server))
        handshake.sendall(b"\x16\x03\x01")
        assert cluster.get(CONFIG_MAPS).status == 200
    assert [item["metadata"]["name"] for item in cluster.get(CONFIG_MAPS).ok()["items"]] == []


def test_a_client_that_sends_one_byte_at_a_time_is_served(cluster: Cluster) -> None:
    sent = request(cluster, CONFIG_MAPS, "POST", body=json.dumps(config_map("a")).encode())
    with secure(cluster.server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(sent)):
            connection.send(sent[index : index + 1])
            if index == len(sent) // 2:
                assert cluster.get(f"{CONFIG_MAPS}/a").status == 404
        assert rest(connection).startswith(b"HTTP/1.1 201 ")
    assert cluster.get(f"{CONFIG_MAPS}/a").status == 200


def test_a_watch_that_is_not_read_holds_little_and_loses_nothing(cluster: Cluster) -> None:
    """Each event is larger than what is buffered for a client. What it has not read is not kept for it alone."""
    large, count = {"k": "v" * 900_000}, 30
    with secure(cluster.server) as deaf, cluster.watch(CONFIG_MAPS) as watch:
        sent = request(cluster, f"{CONFIG_MAPS}?watch=1").replace(b"Connection: close\r\n", b"")
        deaf.sendall(sent)
        assert deaf.recv(1), "the watch is open"
        for number in range(count):
            cluster.post(CONFIG_MAPS, config_map(f"c{number}", large)).ok()
            assert watch.next()["object"]["metadata"]["name"] == f"c{number}"
        unread = [connection.unread_bytes for connection in cluster.server.shoal.server._http.unread]
        assert sum(unread) < 4 * 900_000
        names: list[bytes] = []
        before = b""
        while len(names) < count:
            piece = before + deaf.recv(1 << 20)
            found = re.findall(rb'"name":"(c\d+)"', piece)
            names += found
            before = piece[-20:] if not found else piece[piece.rindex(found[-1]) + len(found[-1]) :][-20:]
    assert names == [b"c%d" % number for number in range(count)]
    cluster.delete(CONFIG_MAPS)


def test_clients_that_leave_in_the_middle_of_an_answer_hurt_nobody(cluster: Cluster) -> None:
    cluster.post(CONFIG_MAPS, config_map("a", {"k": "v" * 900_000})).ok()
    for _ in range(20):
        with secure(cluster.server) as connection:
            connection.sendall(request(cluster, CONFIG_MAPS) * 2)
            connection.recv(10)
    assert cluster.get(f"{CONFIG_MAPS}/a").status == 200
