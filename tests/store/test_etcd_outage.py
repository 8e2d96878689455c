"""An outage of etcd is waited out once, not by every call anew."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import grpc
import pytest

from shoal.store.etcd import connection as etcd_connection
from shoal.store.etcd.connection import EtcdConnection, EtcdSettings
from shoal.store.interface import StoreUnavailable

pytestmark = pytest.mark.anyio


class Member:
    """Answers calls, or none."""

    def __init__(self) -> None:
        self.is_away, self.timeouts = False, list[float]()

    async def call(self, request: object, **options: Any) -> object:
        self.timeouts.append(options["timeout"])
        if self.is_away:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())
        return request


async def test_only_the_first_calls_of_an_outage_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_connection, "RETRY_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(etcd_connection, "PROBE_TIMEOUT_SECONDS", 0.01)
    connection, member = EtcdConnection(EtcdSettings(("http://127.0.0.1:1",))), Member()

    async def attempts() -> list[float]:
        member.timeouts.clear()
        method: Any = lambda _: member.call  # noqa: E731
        try:
            await connection.call(method, "request")
        except StoreUnavailable:
            assert member.is_away
        return list(member.timeouts)

    assert await attempts() == [etcd_connection.CALL_TIMEOUT_SECONDS]
    member.is_away = True
    first = await attempts()
    assert len(first) > 1
    assert all(before > after for before, after in pairwise(first))
    await asyncio.sleep(0.3)
    assert await attempts() == [0.01]
    member.is_away = False
    assert await attempts() == [0.01]
    member.is_away = True
    assert len(await attempts()) > 1, "another outage is waited out again"
    for one in connection.members:
        await one.channel.close()
