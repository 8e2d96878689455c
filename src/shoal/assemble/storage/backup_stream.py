"""Encodes a snapshot as the bytes of a backup file, for the command and for the server's route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from shoal import __version__
from shoal.clock import rfc3339
from shoal.store.backup.format import BackupHeader, BackupWriter
from shoal.store.backup.snapshot import StoreSnapshot


async def encode_backup(
    snapshot: StoreSnapshot, now: float, keys: Mapping[str, str] | None = None
) -> AsyncIterator[bytes]:
    """Yields the bytes as they are produced. Compression runs in a thread."""
    chunks: list[bytes] = []
    details = snapshot.revision, snapshot.newest_revision, rfc3339(now), __version__
    writer = BackupWriter(chunks.append, BackupHeader(snapshot.id, snapshot.kind, *details), keys)
    async for page in snapshot.pages():
        await asyncio.to_thread(writer.add_all, page)
        if chunks:
            yield b"".join(chunks)
            chunks.clear()
    await asyncio.to_thread(writer.close)
    yield b"".join(chunks)
