"""A cache of functions of a text that clients choose: bounded in entries, and for short texts only."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

MAX_TEXT = 1024
"""Longer texts are rare in practice, and a cache full of them would need gigabytes."""


def cached_by_text(maxsize: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize)(function)

        def call(text: str) -> T:
            return cached(text) if len(text) <= MAX_TEXT else function(text)

        call.__doc__ = function.__doc__
        return call

    return decorate
