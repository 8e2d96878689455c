"""Watches the claim of a store: a server must not continue with objects that a restore has replaced.

Writes are compared with the claim as well, and none is acknowledged after it has changed. This watch is for servers
that only read.
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
    """Calls `on_change`, which raises if it is another store, when the claim has changed since etcd revision
    `mod_revision`. Lost connections are reported by the live watch.
    """
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
    """Returns the revision of a change, or the compact revision before which changes are unknown; 0 when the stream has
    ended.
    """
    while (response := await call.read()) is not grpc.aio.EOF:
        if response.compact_revision:
            return int(response.compact_revision)
        if response.events:
            return int(response.events[-1].kv.mod_revision)
    return 0
