"""Watches whose client does not read, or reads slowly: little is kept for them, and they lose nothing while the cache
has it.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shoal.apiserver.watch_pacer import WatchPacer
from tests.faults.stalls import STALL, stalls
from tests.serving import HANG, Cluster, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT, VALUE = 60, "v" * 200_000


class SlowWatch:
    """A watch on a connection of its own, of which the test reads when it wants to."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection

    def events(self, count: int) -> list[tuple[str, str]]:
        """Types and names, or the code of an error."""
        found: list[tuple[str, str]] = []
        file = self._connection.makefile("rb")
        while file.readline() != b"\r\n":
            pass
        line = b""
        while len(found) < count:
            size = int(file.readline(), 16)
            if not size:
                raise EOFError(found)
            line += file.read(size)
            file.readline()
            *lines, line = line.split(b"\n")
            for each in map(json.loads, lines):
                obj = each["object"]
                found.append((each["type"], str(obj.get("code") or obj["metadata"].get("name", ""))))
        return found


@contextmanager
def slow_watch(cluster: Cluster, query: str = "") -> Iterator[SlowWatch]:
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(HANG)
        raw.connect(("127.0.0.1", cluster.server.port))
        with cluster.server.context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(
                f"GET {cluster.prefix}{MAPS}?watch=1{query} HTTP/1.1\r\nHost: a\r\n"
                f"Authorization: Bearer {cluster.server.token}\r\n\r\n".encode()
            )
            yield SlowWatch(connection)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def pacer(cluster: Cluster) -> WatchPacer:
    return cluster.server.shoal.server.core.watch_pacer


def unread_bytes(cluster: Cluster) -> int:
    return sum(connection.unread_bytes for connection in cluster.server.shoal.server._http.unread)


def fill(cluster: Cluster) -> None:
    for number in range(COUNT):
        cluster.post(MAPS, config_map(f"c{number:03}", {"k": VALUE})).ok()


def test_initial_events_are_produced_as_the_client_reads(cluster: Cluster) -> None:
    fill(cluster)
    with slow_watch(
        cluster, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    ) as slow:
        until(lambda: pacer(cluster).behind_count == 1 and unread_bytes(cluster) > 0)
        assert unread_bytes(cluster) < 1_000_000
        # Objects change before their initial event was read: it has the former state, and the change follows.
        cluster.put(f"{MAPS}/c000", config_map("c000", {"k": "new"})).ok()
        cluster.delete(f"{MAPS}/c{COUNT - 1:03}").ok()
        cluster.post(MAPS, config_map("last")).ok()
        assert unread_bytes(cluster) < 1_000_000
        expected = [("ADDED", f"c{number:03}") for number in range(COUNT)] + [("BOOKMARK", "")]
        expected += [("MODIFIED", "c000"), ("DELETED", f"c{COUNT - 1:03}"), ("ADDED", "last")]
        assert slow.events(COUNT + 4) == expected
    until(lambda: pacer(cluster).behind_count == 0)


def test_a_live_watch_that_falls_behind_loses_nothing(cluster: Cluster) -> None:
    revision = cluster.get(MAPS).ok()["metadata"]["resourceVersion"]
    with slow_watch(cluster, f"&resourceVersion={revision}") as slow:
        fill(cluster)
        until(lambda: pacer(cluster).behind_count == 1)
        assert unread_bytes(cluster) < 1_500_000
        assert slow.events(COUNT) == [("ADDED", f"c{number:03}") for number in range(COUNT)]
        until(lambda: pacer(cluster).behind_count == 0)
        cluster.post(MAPS, config_map("live")).ok()


def test_a_watch_ends_when_its_next_event_is_no_longer_there(cluster: Cluster) -> None:
    fill(cluster)
    core = cluster.server.shoal.server.core

    async def forget_history() -> None:
        core.cache.history.trim(core.cache.revision)
        core.watch_pacer._sweep()

    with slow_watch(cluster) as slow:
        until(lambda: pacer(cluster).behind_count == 1)
        ended = pacer(cluster).expired_total
        cluster.post(MAPS, config_map("last")).ok()
        cluster.server.call(forget_history())
        assert (pacer(cluster).behind_count, pacer(cluster).expired_total) == (0, ended + 1)
        last = ("", "")
        try:
            slow_events = slow.events(COUNT + 5)
        except EOFError as end:
            (slow_events,) = end.args
        last = slow_events[-1]
        assert last == ("ERROR", "410")


def test_no_bookmark_overtakes_events(cluster: Cluster) -> None:
    """A bookmark says that everything before it was sent."""
    fill(cluster)
    with slow_watch(cluster, "&allowWatchBookmarks=true&timeoutSeconds=1") as slow:
        until(lambda: pacer(cluster).behind_count == 1)
        cluster.post(MAPS, config_map("last")).ok()
        until(lambda: pacer(cluster).behind_count == 0)  # the watch has ended
        try:
            found = slow.events(COUNT + 5)
        except EOFError as end:
            (found,) = end.args
    assert "BOOKMARK" not in [kind for kind, _ in found]
    assert len(found) < COUNT


def test_a_client_that_reads_survives_many_changes_at_once(cluster: Cluster) -> None:
    count = 1500
    with (
        cluster.watch(MAPS + "?fieldSelector=metadata.name!%3Dkube-root-ca.crt") as watch,
        stalls(cluster.server) as found,
    ):
        for number in range(count):
            cluster.post(MAPS, config_map(f"n{number:04}", {"k": "v" * 1000})).ok()
        assert [watch.next()["object"]["metadata"]["name"] for _ in range(count)] == [
            f"n{number:04}" for number in range(count)
        ]
    assert found.longest < STALL
    cluster.delete(MAPS)
