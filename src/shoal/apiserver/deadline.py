"""Request timeout: 60 seconds, or less if the query parameter `timeout` says so. Watches use `timeoutSeconds`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shoal.objects.duration import UNITS
from shoal.objects.errors import BadRequest

LONGEST = 60.0
LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources without a timeout."""
_piece = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)", re.ASCII)


def seconds_for(query: Mapping[str, str]) -> float:
    text = query.get("timeout", "")
    asked = _seconds(text) if text else 0.0
    return asked if 0 < asked < LONGEST else LONGEST


def _seconds(text: str) -> float:
    """Errors are worded as those of Go's time.ParseDuration."""
    rest, total = text.removeprefix("-") if text[0] == "-" else text.removeprefix("+"), 0.0
    if rest == "0":
        return 0.0
    while True:
        piece = _piece.match(rest)
        if piece is None:
            raise _wrong(f'time: invalid duration "{text}"')
        if not piece[2]:
            raise _wrong(f'time: missing unit in duration "{text}"')
        if piece[2] not in UNITS:
            raise _wrong(f'time: unknown unit "{piece[2]}" in duration "{text}"')
        total, rest = total + float(piece[1]) * UNITS[piece[2]], rest[piece.end() :]
        if not rest:
            return -total if text[0] == "-" else total


def _wrong(said: str) -> BadRequest:
    return BadRequest(f"invalid timeout specified in the request URL - {said}")
