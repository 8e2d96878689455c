"""An etcd member that hangs keeps its connections open without answering. Another one is used, for watches too."""

from __future__ import annotations

import asyncio

import pytest

from shoal.store.etcd import EtcdSettings, EtcdStore, connection
from shoal.store.interface import StoreUnavailable
from tests.etcd_cluster import HANG, running_etcd_cluster

KEY = "core/x/root/default/a"


async def test_what_is_written_elsewhere_is_told_by_another_member(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the library would find out too, only later.
    options = [(name, value) for name, value in connection._CHANNEL_OPTIONS if not name.startswith("grpc.keepalive")]
    monkeypatch.setattr(connection, "_CHANNEL_OPTIONS", tuple(options))
    monkeypatch.setattr(connection, "CALL_TIMEOUT_SECONDS", 1.0)
    with running_etcd_cluster() as cluster:
        endpoints = tuple(member.endpoint for member in cluster.members)
        paused, rest = cluster.members[0], endpoints[1:]
        mine = await EtcdStore.open(EtcdSettings(endpoints))
        other = await EtcdStore.open(EtcdSettings(rest))
        seen: list[tuple[int, bytes | None]] = []
        watch = mine.watch(mine.revision, lambda events: seen.extend((each.revision, each.value) for each in events))
        try:
            made = [await mine.put(KEY, b"1", 0)]
            paused.pause()
            async with asyncio.timeout(HANG):
                made.append(await other.put(KEY, b"2", made[-1]))
                while (fresh := mine.read_index()) is not None:
                    try:
                        await fresh
                    except StoreUnavailable:
                        continue
                    break
                assert seen == [(made[0], b"1"), (made[1], b"2")]
                made.append(await mine.put(KEY, b"3", made[-1]))
            assert [revision for revision, _ in seen] == made
        finally:
            paused.resume()
            watch.cancel()
            await mine.close()
            await other.close()
