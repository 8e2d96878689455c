"""Sends the spans of this process to the tracing endpoint, in batches, in the background.

A receiver that does not answer costs spans, never requests: spans are kept up to a bound and then dropped, and the log
says so once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import orjson

from shoal import __version__
from shoal.client.transport import Unreachable
from shoal.telemetry import otlp, tracing

log = logging.getLogger("shoal.assemble")

EVERY_SECONDS = 1.0
AT_ONCE = 512
SEND_SECONDS = 10.0
MOST_ANSWERED = 65536


class Exporter:
    def __init__(self, tracer: tracing.Tracer, endpoint: str) -> None:
        # Most processes do not trace, so the client is loaded on demand.
        from shoal.client.posting import Posting  # noqa: PLC0415

        self._tracer = tracer
        self._url = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + otlp.PATH
        self._posting = Posting()
        self._complained = False
        self._resource = {
            "service.name": tracer.service,
            "service.version": __version__,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            while self._tracer.waiting and await self._send():
                pass

    async def close(self) -> None:
        """Sends the remaining spans once."""
        while self._tracer.waiting and await self._send():
            pass
        await self._posting.close()

    async def _send(self) -> bool:
        waiting = self._tracer.waiting
        spans = [waiting.popleft() for _ in range(min(len(waiting), AT_ONCE))]
        body = orjson.dumps(otlp.request(spans, self._resource))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                status, _ = await self._posting.post(self._url, body, most=MOST_ANSWERED)
            problem = "" if status < 300 else f"it answers {status}"
        except (Unreachable, TimeoutError) as error:
            problem = str(error) or "it took too long"
        if problem and not self._complained:
            log.warning("traces cannot be sent to %s: %s; spans are dropped until they can", self._url, problem)
        self._complained = bool(problem)
        return not problem


@asynccontextmanager
async def exporting() -> AsyncIterator[None]:
    """Exports spans for the duration of the context, if tracing is on."""
    if tracing.tracer is None or not tracing.endpoint:
        yield
        return
    exporter = Exporter(tracing.tracer, tracing.endpoint)
    running = asyncio.create_task(exporter.run(), name="tracing")
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await exporter.close()
