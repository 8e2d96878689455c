"""Tasks of the processes that the tests of the pool start."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.objects.errors import Conflict

Object = dict[str, Any]
Reply = tuple[Object, list[bytes]]


def echo(header: Object, blobs: list[bytes]) -> Reply:
    return header, blobs


def refuse(header: Object, blobs: list[bytes]) -> Reply:
    raise Conflict("no", name="a", group="g", kind="things", uid="u")


def fail(header: Object, blobs: list[bytes]) -> Reply:
    raise KeyError("gone")


def spin(header: Object, blobs: list[bytes]) -> Reply:
    while True:
        pass


def sleep(header: Object, blobs: list[bytes]) -> Reply:
    time.sleep(3600)
    return {}, []


def allocate(header: Object, blobs: list[bytes]) -> Reply:
    return {"length": len(bytearray(header["bytes"]))}, []


def wait_for_file(header: Object, blobs: list[bytes]) -> Reply:
    while not Path(header["file"]).exists():
        time.sleep(0.01)
    return {}, []


def describe(header: Object, blobs: list[bytes]) -> Reply:
    """What the process has from its parent, without standard error."""
    files = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the directory itself
            files += [os.readlink(f"/proc/self/fd/{name}")] if name != "2" else []
    return {"pid": os.getpid(), "environment": dict(os.environ), "files": files}, []


TASKS = {task.__name__: task for task in (echo, refuse, fail, spin, sleep, allocate, wait_for_file, describe)}
