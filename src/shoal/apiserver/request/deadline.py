"""Request timeout: 60 seconds, or less if the query parameter `timeout` says so. Watches use `timeoutSeconds`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shoal.objects.duration import UNIT_SECONDS
from shoal.objects.errors import BadRequest

MAX_SECONDS = 60.0
LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources without a timeout."""
_match_piece = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)", re.ASCII).match


def request_timeout(query: Mapping[str, str]) -> float:
    text = query.get("timeout", "")
    requested = _parse_duration(text) if text else 0.0
    return requested if 0 < requested < MAX_SECONDS else MAX_SECONDS


def _parse_duration(text: str) -> float:
    """Errors are worded as those of Go's time.ParseDuration."""
    rest, total = text.removeprefix("-") if text[0] == "-" else text.removeprefix("+"), 0.0
    at = 0
    if rest == "0":
        return 0.0
    while True:
        piece = _match_piece(rest, at)
        if piece is None:
            raise _timeout_error(f'time: invalid duration "{text}"')
        if not piece[2]:
            raise _timeout_error(f'time: missing unit in duration "{text}"')
        if piece[2] not in UNIT_SECONDS:
            raise _timeout_error(f'time: unknown unit "{piece[2]}" in duration "{text}"')
        total, at = total + float(piece[1]) * UNIT_SECONDS[piece[2]], piece.end()
        if at == len(rest):
            return -total if text[0] == "-" else total


def _timeout_error(reason: str) -> BadRequest:
    return BadRequest(f"invalid timeout specified in the request URL - {reason}")
