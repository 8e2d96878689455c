"""Readiness for systemd: a unit with Type=notify is started when the process says so."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify_ready() -> None:
    """Does nothing in a process that systemd has not given a socket, such as one in a terminal."""
    # Child processes are not asked.
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if not address:
        return
    # A leading @ is how systemd writes an abstract address.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    # A socket that is gone is that of a unit that has ended, and of whose shell this process is.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
        notification.connect(path)
        notification.send(b"READY=1")
