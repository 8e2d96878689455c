"""What an operator does to etcd: fill it, make room again, and let it take writes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import aetcd.rpc as rpc
import grpc

BLOAT = b"/somebody-else"
PIECE = b"x" * 1_400_000


@contextmanager
def _channel(url: str) -> Any:
    channel = grpc.insecure_channel(url.removeprefix("http://"))
    try:
        yield channel
    finally:
        channel.close()


def fill(url: str, most: int) -> bool:
    """Writes up to so many large values of another program; whether etcd said that it is out of space."""
    with _channel(url) as channel:
        for _ in range(most):
            try:
                rpc.KVStub(channel).Put(rpc.PutRequest(key=BLOAT, value=PIECE), timeout=20)
            except grpc.RpcError as error:
                if "database space exceeded" in str(error.details()):
                    return True
                # Its leader may be the one whose disk is full.
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
    return False


def make_room(urls: Iterable[str]) -> None:
    """Drops history and what somebody else had written, gives the space back, and ends the alarm."""
    urls = list(urls)
    with _channel(urls[0]) as channel:
        kv = rpc.KVStub(channel)
        deleted = kv.DeleteRange(rpc.DeleteRangeRequest(key=BLOAT), timeout=20)
        kv.Compact(rpc.CompactionRequest(revision=deleted.header.revision, physical=True), timeout=60)
    for url in urls:
        with _channel(url) as channel:
            rpc.MaintenanceStub(channel).Defragment(rpc.DefragmentRequest(), timeout=60)
    with _channel(urls[0]) as channel:
        maintenance = rpc.MaintenanceStub(channel)
        active = maintenance.Alarm(rpc.AlarmRequest(action=rpc.AlarmRequest.GET), timeout=20)
        for alarm in active.alarms:
            asked = rpc.AlarmRequest(action=rpc.AlarmRequest.DEACTIVATE, memberID=alarm.memberID, alarm=alarm.alarm)
            maintenance.Alarm(asked, timeout=20)
