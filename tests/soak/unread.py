"""Clients that open connections and do not finish: bodies without an end, watches that are not read.

One process and one event loop drive thousands of connections. Nothing is read from them unless it is asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import cast


class _Silent(asyncio.Protocol):
    """Reads the first bytes and then nothing, so that the server's buffers fill."""

    def __init__(self, opening: bytes, reads: bool) -> None:
        self._opening, self._reads = opening, reads
        self.is_open = False
        self.first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast(asyncio.Transport, transport), True
        self._transport.write(self._opening)

    def data_received(self, data: bytes) -> None:
        if len(self.first) < 200:
            self.first += data[:200]
        if not self._reads:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False

    def close(self) -> None:
        self._transport.abort()


@dataclass
class Crowd:
    """Connections that were opened and left alone."""

    members: list[_Silent] = field(default_factory=list)
    failed: int = 0

    @property
    def open_count(self) -> int:
        return sum(each.is_open for each in self.members)

    def statuses(self) -> dict[str, int]:
        """How often the server has answered what."""
        found: dict[str, int] = {}
        for each in self.members:
            status = each.first[9:12].decode() or "none"
            found[status] = found.get(status, 0) + 1
        return found

    async def grow(self, port: int, count: int, opening: bytes, *, reads: bool = True, at_once: int = 200) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(at_once)

        async def open_one() -> None:
            async with gate:
                try:
                    _, member = await loop.create_connection(
                        lambda: _Silent(opening, reads), "127.0.0.1", port, ssl=context, ssl_handshake_timeout=120
                    )
                except OSError:
                    self.failed += 1
                else:
                    self.members.append(member)

        await asyncio.gather(*(open_one() for _ in range(count)))

    def close(self) -> None:
        for each in self.members:
            if each.is_open:
                each.close()
