"""The frame of a serving process: event loop, signals, shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import uvloop

from shoal.apiserver.malloc import tune
from shoal.assemble.telemetry.otlp_exporter import export_spans
from shoal.objects.errors import StoreError
from shoal.telemetry.logs import print_message

MAX_OPEN_FILES = 65_536
FORCED_EXIT_SECONDS = 20.0
"""A process that does not stop is killed after this time."""


class RunningServer(Protocol):
    @property
    def failure(self) -> asyncio.Future[StoreError]: ...

    async def stop(self) -> None: ...


def raise_open_files_limit() -> None:
    """Raises the soft limit of open files, as programs in Go do: every connection is one, at a worker perhaps three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_until_stopped(start: Callable[[], Awaitable[RunningServer]]) -> None:
    """Runs until SIGTERM or SIGINT, or until the store is lost."""
    tune()
    raise_open_files_limit()
    # Loaded modules stay; objects of requests die young. Python's default thresholds suit small programs.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)

    async def run_server() -> None:
        stop_event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop_event.set)
        running = await start()
        stop_requested = asyncio.ensure_future(stop_event.wait())
        futures: list[asyncio.Future[Any]] = [stop_requested, running.failure]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        stop_requested.cancel()
        store_error = running.failure.result() if running.failure.done() else None
        print_message("stopping")
        await running.stop()
        if store_error is not None:
            raise store_error

    async def main_with_tracing() -> None:
        async with export_spans():
            await run_server()

    uvloop.run(main_with_tracing())


def stop_on_stdin_close() -> None:
    """Stops this process when its standard input is closed, because its parent, which holds the other end, is gone.
    Runs in a thread, so that a blocked event loop does not prevent it.
    """

    def watch_stdin() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(FORCED_EXIT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch_stdin, name="end-with-input", daemon=True).start()
