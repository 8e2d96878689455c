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
from shoal.store.etcd.connection import EtcdConnection
from shoal.store.etcd.messages import KeyLayout
from shoal.store.interface import StoreUnavailable

RETRY_SECONDS = 1.0


async def watch_claim(
    connection: EtcdConnection, keys: KeyLayout, mod_revision: int, on_change: Callable[[], Awaitable[None]]
) -> None:
    """Calls `on_change`, which raises if it is another store, when the claim has changed since etcd revision
    `mod_revision`. Lost connections are reported by the live watch.
    """
    while True:
        call: Any = None
        try:
            await connection.authenticate()
            call = connection.member.watch.Watch(metadata=connection.headers)
            await call.write(messages.watch(keys.claim_key, b"", mod_revision + 1))
            changed_at = await _next_change(call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, StoreUnavailable):
            changed_at = 0
        finally:
            if call is not None:
                call.cancel()
        if changed_at:
            mod_revision = changed_at
            await on_change()
        await asyncio.sleep(RETRY_SECONDS)


async def _next_change(call: Any) -> int:
    """Returns the revision of a change, or the compact revision before which changes are unknown; 0 when the stream has
    ended.
    """
    while (response := await call.read()) is not grpc.aio.EOF:
        if response.compact_revision:
            return int(response.compact_revision)
        if response.events:
            return int(response.events[-1].kv.mod_revision)
    return 0
