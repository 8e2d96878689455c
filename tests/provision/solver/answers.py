"""Functions that tests call in the solver process."""

from __future__ import annotations

import os
import sys
import time


def double(number: int) -> int:
    print("not an answer")
    return 2 * number


def fail() -> None:
    raise ValueError("it cannot be done")


def die(*_: object) -> None:
    os._exit(3)


def die_once(path: str) -> str:
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(3)
    return "alive"


def sleep() -> None:
    time.sleep(3600)


def process() -> int:
    return os.getpid()


def loaded() -> bool:
    return "numpy" in sys.modules
