"""Connections of the HTTPS transport."""

from __future__ import annotations

import socket

from shoal.client.https import keepalive_socket


def test_the_kernel_asks_whether_the_other_end_is_still_there() -> None:
    made = keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1)))
    with made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            seconds = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            probes = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            assert seconds + probes * made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) <= 30
