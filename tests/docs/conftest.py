"""Pages press Ctrl-C: what they start has to hear it, even where the tests themselves run in the background."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """A shell starts what it runs in the background with the interrupt ignored, and that is inherited."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
