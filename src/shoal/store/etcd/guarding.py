"""Watches the claim of a store: a server must not go on with objects that a restore has put aside.

Writes are compared with the claim as well, and none is acknowledged after it has changed; this is for who only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from shoal.store.etcd import messages
from shoal.store.etcd.connection import Connection
from shoal.store.etcd.messages import Keys
from shoal.store.interface import StoreUnavailable

PAUSE_SECONDS = 1.0


async def guard(connection: Connection, keys: Keys, written: int, check: Callable[[], Awaitable[None]]) -> None:
    """Calls `check`, which raises if it is another store, when the claim is not what it was at etcd's revision
    `written`. What becomes of cut connections is the feed's to say."""
    while True:
        call: Any = None
        try:
            await connection.authenticate()
            call = connection.member.watch.Watch(metadata=connection.headers)
            await call.write(messages.watch(keys.claim, b"", written + 1))
            seen = await _changed(call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, StoreUnavailable):
            seen = 0
        finally:
            if call is not None:
                call.cancel()
        if seen:
            written = seen
            await check()
        await asyncio.sleep(PAUSE_SECONDS)


async def _changed(call: Any) -> int:
    """The revision of a change, or before which nobody knows; 0 when the stream has ended."""
    while (response := await call.read()) is not grpc.aio.EOF:
        if response.compact_revision:
            return int(response.compact_revision)
        if response.events:
            return int(response.events[-1].kv.mod_revision)
    return 0
