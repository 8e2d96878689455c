"""A `shoal` command that runs beside a test, against an API server of its own or of others."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.processes import command
from tests.real.hubs import KubectlAt

Object = dict[str, Any]

HANG = 180.0
"""kube-controller-manager leaves the pods of a deleted node alone for 40 s and looks every 20 s."""
SIGNS = {
    "controllers": "controllers are running",
    "nodes": "next: ",
    "provisioner": "provisioning nodes until",
    "syncer": "syncing ",
}
"""What each says once it works."""


class Command:
    def __init__(self, verb: str, *flags: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(command(verb, *flags), stderr=self._errors)
        until(lambda: SIGNS[verb] in self.said() or self._process.poll() is not None)
        assert self._process.poll() is None, self.said()

    def said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(HANG)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._errors.close()


@contextmanager
def shoal(verb: str, *flags: str) -> Iterator[Command]:
    running = Command(verb, *flags)
    try:
        yield running
    finally:
        running.close()


def until(look: Callable[[], object]) -> None:
    end = time.monotonic() + HANG
    while not look():
        assert time.monotonic() < end, f"it did not come to that: {look()!r}"
        time.sleep(0.1)


def items(kubectl: KubectlAt, *what: str) -> list[Object]:
    found: list[Object] = json.loads(kubectl("get", *what, "-o", "json"))["items"]
    return found
