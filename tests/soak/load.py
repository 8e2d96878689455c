"""A steady load of many clients at servers of one store, and what to make of it when it ends."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

from tests.faults.processes import HANG
from tests.soak.clients import Client, Follower, Place, Worker
from tests.soak.history import Outcome, Problem, problems

CLOSING = 10_000
"""Clients of the end are numbered from here on."""


class Load:
    def __init__(self, place: Place, workers: int, followers: int, keys: int, pause: float) -> None:
        """`pause`: seconds between two requests of a worker, on the average."""
        self._place, self._keys = place, keys
        self._stop = threading.Event()
        self.workers = [Worker(number, place, self._stop, keys, pause) for number in range(1, workers + 1)]
        first = workers + 1
        self.followers = [Follower(number, place, self._stop) for number in range(first, first + followers)]
        self._closing: list[Client] = []

    @property
    def clients(self) -> list[Client]:
        return [*self.workers, *self.followers, *self._closing]

    @property
    def done(self) -> int:
        """Requests that were answered for good."""
        return sum(len(worker.record.requests) for worker in self.workers)

    @property
    def statuses(self) -> Counter[int]:
        # Copies: the clients go on.
        return sum((Counter(client.record.statuses) for client in self.clients), Counter())

    @property
    def unanswered(self) -> Counter[str]:
        return sum((Counter(client.record.unanswered) for client in self.clients), Counter())

    def start(self) -> None:
        for follower in self.followers:
            follower.start()
        for follower in self.followers:
            assert follower.began.wait(HANG), "a watch cannot begin"
        for worker in self.workers:
            worker.start()

    def more(self, requests: int, seconds: float = 0.0) -> None:
        """Until so many more requests are answered, and not before those seconds are over."""
        wanted, end = self.done + requests, time.monotonic() + HANG
        time.sleep(seconds)
        while self.done < wanted:
            self.check()
            assert time.monotonic() < end, f"{self.done} of {wanted}: {self.statuses}"
            time.sleep(0.02)

    def check(self) -> None:
        for client in self.clients:
            if client.wrong is not None:
                raise client.wrong

    def end(self) -> list[Problem]:
        """Everybody stops, followers when they have been told of the last write; then all is read once more, at every
        server, and judged."""
        self._stop.set()
        for worker in self.workers:
            worker.join(HANG)
        last = self._last_write("last")
        for follower in self.followers:
            follower.until = last
        self._last_write("wake")
        for follower in self.followers:
            follower.join(HANG)
            assert not follower.is_alive(), f"a watch does not come to {last}"
        self._read_everything()
        self.check()
        requests = [each for client in self.clients for each in client.record.requests]
        return problems(requests, [each for client in self.clients for each in client.record.followed])

    def _last_write(self, name: str) -> int:
        writer = self._closer(self._place)
        for attempt in range(1000):
            writer.write("create", f"{name}{attempt}")
            made = writer.record.requests[-1]
            if made.outcome is Outcome.DONE:
                writer.leave()
                return made.revision
            time.sleep(0.1)
        raise AssertionError(f"nothing can be written any more: {writer.record.statuses}")

    def _read_everything(self) -> None:
        for server in self._place.servers:
            reader = self._closer(replace(self._place, servers=[server]))
            reader.listed()
            for key in range(self._keys):
                reader.get(f"k{key}")
            reader.leave()

    def _closer(self, place: Place) -> Worker:
        made = Worker(CLOSING + len(self._closing), place, self._stop, self._keys, 0.0)
        self._closing.append(made)
        return made


def said(found: list[Problem], most: int = 20) -> str:
    counted = Counter(each.kind for each in found)
    return "\n".join([str(dict(counted)), *(f"{each.kind}: {each.text}" for each in found[:most])])
