"""What a set of objects amounts to, in a few bytes: two who hold the same see it without showing it. Pure.

Objects are spread over buckets by their key (`namespace/name`). A bucket's sum is of key and revision of each object in
it, in no order; where two sums differ, only that bucket has to be looked at.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import blake2b
from zlib import crc32

WIDTH = 8
"""Bytes of a sum."""
FEWEST, MOST = 8, 128
PER_BUCKET = 8
"""Objects in one, as far as there are enough buckets: about as many bytes as one object has."""


def buckets_for(count: int) -> int:
    """A power of two, so that few sizes are in use."""
    found = FEWEST
    while found < MOST and found * PER_BUCKET < count:
        found *= 2
    return found


def bucket_of(key: str, buckets: int) -> int:
    return crc32(key.encode()) % buckets


def sums(held: Iterable[tuple[str, int]], buckets: int) -> tuple[int, ...]:
    """Of keys and revisions."""
    found = [0] * buckets
    for key, revision in held:
        text = f"{key}@{revision}".encode()
        found[crc32(key.encode()) % buckets] ^= int.from_bytes(blake2b(text, digest_size=WIDTH).digest())
    return tuple(found)


def encode(found: Iterable[int]) -> str:
    """For a URL."""
    return base64.urlsafe_b64encode(b"".join(each.to_bytes(WIDTH) for each in found)).decode().rstrip("=")


def decode(text: str) -> tuple[int, ...]:
    """ValueError: it is none."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not data or len(data) % WIDTH or len(data) > MOST * WIDTH:
        raise ValueError(f"{len(data)} bytes are no sums of 1 to {MOST} buckets")
    return tuple(int.from_bytes(data[at : at + WIDTH]) for at in range(0, len(data), WIDTH))


def differing(ours: tuple[int, ...], theirs: tuple[int, ...]) -> list[int]:
    return [at for at, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
