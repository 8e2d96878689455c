"""A progress line on standard error, if it is a terminal, for operations longer than a second. It is cleared at the
end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

DELAY_SECONDS = 1.0
STEP_SECONDS = 0.2
SPINNER = "|/-\\"
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Runs until `finish`; silent without a text. It runs in a thread, so that it continues while the event loop is
    busy.
    """

    def __init__(self, text: str, output: TextIO) -> None:
        self.text = text
        self._output, self._finished = output, threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        if text and output.isatty():
            self._thread.start()

    def _run(self) -> None:
        wait, step = DELAY_SECONDS, 0
        while not self._finished.wait(wait):
            self._output.write(f"{_CLEAR}{self.text} {SPINNER[step % len(SPINNER)]}")
            self._output.flush()
            self._shown, wait, step = True, STEP_SECONDS, step + 1

    def finish(self) -> None:
        self._finished.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._shown:
            self._output.write(_CLEAR)
            self._output.flush()
            self._shown = False


@contextmanager
def progress(text: str, output: TextIO | None = None) -> Iterator[ProgressLine]:
    running = ProgressLine(text, output or sys.stderr)
    try:
        yield running
    finally:
        running.finish()
