"""Stalls of the event loop: how long others have to wait while one callback runs.

A timer notices that it was called late, which gives the metric. A thread notices that the timer is not called at all
and looks at what the loop is doing, which gives the log line. Servers of one process share a loop and one monitor.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from pathlib import Path
from types import FrameType
from urllib.parse import quote
from weakref import WeakKeyDictionary

import shoal
from shoal.apiserver.server import UNKNOWN_USER, RequestContext
from shoal.objects.wire import Request
from shoal.telemetry.metrics import HistogramSeries

log = logging.getLogger("shoal.eventloop")

NAME = "shoal_event_loop_stall_seconds"
PERIOD_SECONDS = 0.05
MIN_STALL_SECONDS = 0.02
"""As much as requests may take of one turn of the loop. Shorter delays are not stalls."""
LOGGED_SECONDS = 0.5
STALLS = HistogramSeries((0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0))

_IMPORT = " <module>"
"""The first use of a module takes long on a busy machine, and happens once."""
_PACKAGE = str(Path(shoal.__file__).parent) + "/"
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def render(only_cluster: str | None = None) -> str:
    """For /metrics. Empty for the scrape of one logical cluster."""
    if only_cluster is not None:
        return ""
    text = "Delays of the event loop of more than 20 ms, in seconds."
    return "\n".join([f"# HELP {NAME} {text}", f"# TYPE {NAME} histogram", *STALLS.lines(NAME, ""), ""])


async def monitor_event_loop() -> None:
    """Runs until it is cancelled. A second one of the same loop waits until the first has ended."""
    loop = asyncio.get_running_loop()
    async with _locks.setdefault(loop, asyncio.Lock()):
        watchdog = Watchdog(threading.get_ident(), threading.get_native_id())
        try:
            while True:
                due = loop.time() + PERIOD_SECONDS
                await asyncio.sleep(PERIOD_SECONDS)
                watchdog.beats += 1
                if (late := loop.time() - due) > MIN_STALL_SECONDS:
                    STALLS.observe(late)
        finally:
            watchdog.stop()


class Watchdog:
    """A thread that logs what another thread does when its beats stop. A thread that gets no CPU does nothing."""

    def __init__(self, thread_id: int, native_id: int) -> None:
        self.beats = 0
        self._thread_id, self._native_id = thread_id, native_id
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="event-loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        seen, reported, waited = self.beats, -1, seconds_without_cpu(self._native_id)
        while not self._stopped.wait(LOGGED_SECONDS):
            waited_before, waited = waited, seconds_without_cpu(self._native_id)
            was_busy = waited - waited_before < LOGGED_SECONDS / 2
            if self.beats == seen != reported and was_busy:
                frame = sys._current_frames().get(self._thread_id)
                if frame is not None and not (what := describe(frame)).endswith(_IMPORT):
                    log.warning("the event loop has been busy for %g s with %s", LOGGED_SECONDS, what)
                reported = seen
            seen = self.beats


def seconds_without_cpu(native_id: int) -> float:
    """Returns how long a thread has been ready to run while others had the CPU; 0 where the kernel does not tell."""
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def describe(frame: FrameType) -> str:
    """Names the innermost function of this program and the request that called it, without its body."""
    place, each = "", frame
    while each is not None:
        code = each.f_code
        if code.co_filename.startswith(_PACKAGE):
            place = place or f"{code.co_filename.removeprefix(_PACKAGE)}:{each.f_lineno} {code.co_qualname}"
            ctx, request = each.f_locals.get("ctx"), each.f_locals.get("request")
            if isinstance(ctx, RequestContext):
                user = f" of user {ctx.user.name!r}" if ctx.user is not UNKNOWN_USER else ""
                return f"{ctx.request.method} {quote(ctx.request.path)}{user} in {place}"
            if isinstance(request, Request):
                return f"{request.method} {quote(request.path)} in {place}"
        each = each.f_back  # type: ignore[assignment]
    return place or "code outside of this program"
