"""A progress line on standard error, if it is a terminal, for operations longer than a second. It is cleared at the
end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SILENT_SECONDS = 1.0
STEP_SECONDS = 0.2
MARKS = "|/-\\"
_CLEAR = "\r\x1b[K"


class Progress:
    """Runs until `finish`; silent without a text. It runs in a thread, so that it continues while the event loop is
    busy.
    """

    def __init__(self, doing: str, to: TextIO) -> None:
        self.doing = doing
        self._to, self._done = to, threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        if doing and to.isatty():
            self._thread.start()

    def _run(self) -> None:
        wait, step = SILENT_SECONDS, 0
        while not self._done.wait(wait):
            self._to.write(f"{_CLEAR}{self.doing} {MARKS[step % len(MARKS)]}")
            self._to.flush()
            self._shown, wait, step = True, STEP_SECONDS, step + 1

    def done(self) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._shown:
            self._to.write(_CLEAR)
            self._to.flush()
            self._shown = False


@contextmanager
def progress(doing: str, to: TextIO | None = None) -> Iterator[Progress]:
    running = Progress(doing, to or sys.stderr)
    try:
        yield running
    finally:
        running.done()
