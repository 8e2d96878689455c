"""How long one turn of the server's event loop holds the CPU, while a test does something to the server.

CPU time of the loop's own thread, not wall time: a busy machine makes a turn longer, not its work. It does not see what
other threads hold the interpreter for, unless that of the whole process is asked for.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.serving import Server

STALL = 1.0
"""CPU-seconds. The requests that tests send here took several seconds before they were bounded, and take a few
milliseconds since."""
_EVERY = 0.005


@dataclass
class Stalls:
    longest: float = 0.0
    """CPU-seconds of the loop's thread between two of our turns."""


@contextmanager
def stalls(server: Server, cpu_clock: Callable[[], float] = time.thread_time) -> Iterator[Stalls]:
    """Measures until the block ends."""
    found, running, before = Stalls(), True, 0.0

    def turn() -> None:
        nonlocal before
        now = cpu_clock()
        if before:
            found.longest = max(found.longest, now - before)
        before = now
        if running:
            server.loop.call_later(_EVERY, turn)

    async def settle() -> None:
        turn()

    server.call(settle())
    try:
        yield found
    finally:
        running = False
        server.call(settle())


@contextmanager
def without_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
