"""Links that can be cut, for machines that are not in namespaces: proxies in a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

from tests.serving import HANG
from tests.wires import Wire


class Links:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._wires: defaultdict[str, list[Wire]] = defaultdict(list)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Links:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            for server in self._servers:
                server.close()
            for wires in self._wires.values():
                for wire in wires:
                    wire.cut()
            await asyncio.sleep(0.1)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(HANG)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG)
        self._loop.close()

    def add(self, name: str, target: int) -> int:
        """A port by which that one reaches another port."""

        async def add() -> int:
            wire = Wire(target)
            server = await asyncio.start_server(wire.pass_on, "127.0.0.1", 0)
            self._servers.append(server)
            self._wires[name].append(wire)
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(add(), self._loop).result(HANG)

    def cut(self, name: str) -> None:
        for wire in self._wires[name]:
            self._loop.call_soon_threadsafe(wire.cut)

    def restore(self, name: str) -> None:
        for wire in self._wires[name]:
            self._loop.call_soon_threadsafe(wire.restore)
