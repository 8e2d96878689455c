"""Messages between the server and its child processes: a JSON header and byte strings.

Nothing is unpickled: a child works on what tenants send, and what it answers is data.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

PREFIX = struct.Struct("!II")
"""Length of the header, and length of everything after it."""
MAX_FRAME_BYTES = 64 * 1024 * 1024
_SIZES = "sizes"


def encode_frame(header: Mapping[str, Any], blobs: Sequence[bytes]) -> list[bytes]:
    head = orjson.dumps({**header, _SIZES: [len(blob) for blob in blobs]})
    return [PREFIX.pack(len(head), sum(map(len, blobs))), head, *blobs]


def decode_frame(head: bytes, rest: bytes) -> tuple[dict[str, Any], list[bytes]]:
    header: dict[str, Any] = orjson.loads(head)
    blobs, at = [], 0
    for size in header.pop(_SIZES):
        blobs.append(rest[at : at + size])
        at += size
    return header, blobs
