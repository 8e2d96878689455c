"""List digests: a few bytes that tell two parties if they hold the same objects. Pure.

Objects are spread over buckets by their key (`namespace/name`). The sum of a bucket covers key and revision of every
object in it, independent of order. If two sums differ, only that bucket has to be compared.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import blake2b
from zlib import crc32

SUM_BYTES = 8
"""Bytes of one sum."""
MIN_BUCKETS, MAX_BUCKETS = 8, 128
OBJECTS_PER_BUCKET = 8
"""Objects per bucket while the bucket count is below its maximum. The digest then has about as many bytes as one
object.
"""


def buckets_for(count: int) -> int:
    """Returns a power of two, so that few sizes are in use."""
    buckets = MIN_BUCKETS
    while buckets < MAX_BUCKETS and buckets * OBJECTS_PER_BUCKET < count:
        buckets *= 2
    return buckets


def bucket_of(key: str, buckets: int) -> int:
    return crc32(key.encode()) % buckets


def bucket_sums(revisions_by_key: Iterable[tuple[str, int]], buckets: int) -> tuple[int, ...]:
    """Returns the sum of each bucket, from pairs of key and revision."""
    totals = [0] * buckets
    for key, revision in revisions_by_key:
        text = f"{key}@{revision}".encode()
        totals[crc32(key.encode()) % buckets] ^= int.from_bytes(blake2b(text, digest_size=SUM_BYTES).digest())
    return tuple(totals)


def encode(sums_by_bucket: Iterable[int]) -> str:
    """Encodes the sums for a URL."""
    return base64.urlsafe_b64encode(b"".join(each.to_bytes(SUM_BYTES) for each in sums_by_bucket)).decode().rstrip("=")


def decode(text: str) -> tuple[int, ...]:
    """Raises ValueError if the text is not a digest."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not data or len(data) % SUM_BYTES or len(data) > MAX_BUCKETS * SUM_BYTES:
        raise ValueError(f"{len(data)} bytes do not encode the sums of 1 to {MAX_BUCKETS} buckets")
    return tuple(int.from_bytes(data[at : at + SUM_BYTES]) for at in range(0, len(data), SUM_BYTES))


def differing_buckets(ours: tuple[int, ...], theirs: tuple[int, ...]) -> list[int]:
    return [at for at, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
