"""List digests: a few bytes that tell two parties if they hold the same objects. Pure.

Objects are spread over buckets by their key (`namespace/name`). The sum of a bucket covers key and revision of every
object in it, independent of order. If two sums differ, only that bucket has to be compared.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import blake2b
from zlib import crc32

WIDTH = 8
"""Bytes of one sum."""
FEWEST, MOST = 8, 128
PER_BUCKET = 8
"""Objects per bucket while the bucket count is below its maximum. The digest then has about as many bytes as one
object.
"""


def buckets_for(count: int) -> int:
    """Returns a power of two, so that few sizes are in use."""
    found = FEWEST
    while found < MOST and found * PER_BUCKET < count:
        found *= 2
    return found


def bucket_of(key: str, buckets: int) -> int:
    return crc32(key.encode()) % buckets


def sums(held: Iterable[tuple[str, int]], buckets: int) -> tuple[int, ...]:
    """Returns the sum of each bucket, from pairs of key and revision."""
    found = [0] * buckets
    for key, revision in held:
        text = f"{key}@{revision}".encode()
        found[crc32(key.encode()) % buckets] ^= int.from_bytes(blake2b(text, digest_size=WIDTH).digest())
    return tuple(found)


def encode(found: Iterable[int]) -> str:
    """Encodes the sums for a URL."""
    return base64.urlsafe_b64encode(b"".join(each.to_bytes(WIDTH) for each in found)).decode().rstrip("=")


def decode(text: str) -> tuple[int, ...]:
    """Raises ValueError if the text is not a digest."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not data or len(data) % WIDTH or len(data) > MOST * WIDTH:
        raise ValueError(f"{len(data)} bytes are no sums of 1 to {MOST} buckets")
    return tuple(int.from_bytes(data[at : at + WIDTH]) for at in range(0, len(data), WIDTH))


def differing(ours: tuple[int, ...], theirs: tuple[int, ...]) -> list[int]:
    return [at for at, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
