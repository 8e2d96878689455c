"""A thread that owns one SQLite connection, runs jobs on it one after another, and returns results on the event loop.

Thread and connection start with the first job. A job is a function of the connection.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from shoal.store.interface import StoreUnavailable

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
JobCallback = Callable[[Any, Exception | None], None]


class ConnectionThread:
    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._name = name
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job[Any], JobCallback] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._thread_ended: asyncio.Future[None] = self._loop.create_future()

    def submit(self, job: Job[Any], callback: JobCallback) -> None:
        """Calls `callback` with the result or the error, on the event loop, in the order of submission."""
        if self._stopped:
            raise StoreUnavailable("the store is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, callback))

    async def run(self, job: Job[T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()

        def on_done(result: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(job, on_done)
        try:
            return await future
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store cannot be used now: {error}") from error

    async def stop(self) -> None:
        """Runs what was submitted, closes the connection, ends the thread."""
        self._stopped = True
        if self._thread is None:
            return
        self._jobs.put(None)
        await self._thread_ended
        self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while (item := self._jobs.get()) is not None:
            job, callback = item
            result, failure = None, None
            try:
                if connection is None:
                    connection = self._connect()
                result = job(connection)
            except Exception as error:
                failure = error
            self._call_on_loop(callback, result, failure)
            del item, job, callback, result, failure
        if connection is not None:
            connection.close()
        self._call_on_loop(self._thread_ended.set_result, None)

    def _call_on_loop(self, call: Callable[..., None], *values: Any) -> None:
        # If the event loop was closed before the store, there is nobody to call.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *values)
