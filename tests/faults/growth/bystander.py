"""Another tenant, in a process of its own: it gets one object again and again, and tells how long the longest took."""

from __future__ import annotations

import http.client
import multiprocessing
import ssl
import time
from multiprocessing.sharedctypes import SynchronizedArray

PAUSE = 0.002
"""Seconds between two gets: the server has to have time for the case itself."""
HANG = 120.0
BEGAN, WORST, COUNT = range(3)


class Bystander:
    """Runs from its construction until `close`."""

    def __init__(self, port: int, authority: str, path: str, token: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._seen: SynchronizedArray[float] = context.Array("d", 3)
        self._process = context.Process(target=_ask, args=(self._seen, port, authority, path, token), daemon=True)
        self._process.start()
        while not self.count:
            if not self._process.is_alive():
                raise ConnectionError("the bystander was never answered")
            time.sleep(0.01)

    def begin(self) -> None:
        """What was seen before does not count."""
        with self._seen.get_lock():
            self._seen[WORST] = 0.0

    def worst(self) -> float:
        """The longest get since `begin`, in seconds. Those that are under way now have ended."""
        now = time.monotonic()
        while self._seen[BEGAN] < now:
            if not self._process.is_alive() or time.monotonic() > now + HANG:
                raise ConnectionError("the bystander is not answered any more")
            time.sleep(0.0005)
        return float(self._seen[WORST])

    @property
    def count(self) -> int:
        return int(self._seen[COUNT])

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _ask(seen: SynchronizedArray[float], port: int, authority: str, path: str, token: str) -> None:
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG)
    headers = {"Authorization": f"Bearer {token}"}
    while True:
        began = time.monotonic()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        took = time.monotonic() - began
        if answer.status != 200:
            raise ConnectionError(f"{path}: {answer.status}")
        with seen.get_lock():
            seen[WORST] = max(seen[WORST], took)
            seen[BEGAN] = began
            seen[COUNT] += 1
        time.sleep(PAUSE)
