"""The frame of a serving process: event loop, signals, shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import uvloop

from shoal.apiserver.malloc import tune
from shoal.assemble.tracing import exporting
from shoal.objects.errors import StoreError
from shoal.telemetry.logs import say

END_SECONDS = 20.0
"""A process that does not stop is killed after this time."""


class Running(Protocol):
    @property
    def failure(self) -> asyncio.Future[StoreError]: ...

    async def stop(self) -> None: ...


def serve(start: Callable[[], Awaitable[Running]]) -> None:
    """Runs until SIGTERM or SIGINT, or until the store is lost."""
    tune()
    # Loaded modules stay; objects of requests die young. Python's default thresholds suit small programs.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)

    async def main() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        running = await start()
        asked = asyncio.ensure_future(stopping.wait())
        ends: list[asyncio.Future[Any]] = [asked, running.failure]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        lost = running.failure.result() if running.failure.done() else None
        say("stopping")
        await running.stop()
        if lost is not None:
            raise lost

    async def traced() -> None:
        async with exporting():
            await main()

    uvloop.run(traced())


def end_with_input() -> None:
    """Stops this process when its standard input is closed, because its parent, which holds the other end, is gone.
    Runs in a thread, so that a blocked event loop does not prevent it.
    """

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(END_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-input", daemon=True).start()
