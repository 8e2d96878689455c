"""Encodes a snapshot as the bytes of a backup file, for the command and for the server's route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from shoal import __version__
from shoal.clock import rfc3339
from shoal.store.backup.format import Header, Writer
from shoal.store.backup.snapshot import Snapshot


async def encoded(snapshot: Snapshot, now: float, keys: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
    """Yields the bytes as they are produced. Compression runs in a thread."""
    out: list[bytes] = []
    about = snapshot.revision, snapshot.newest, rfc3339(now), __version__
    writer = Writer(out.append, Header(snapshot.id, snapshot.kind, *about), keys)
    async for page in snapshot.pages():
        await asyncio.to_thread(writer.add_all, page)
        if out:
            yield b"".join(out)
            out.clear()
    await asyncio.to_thread(writer.close)
    yield b"".join(out)
