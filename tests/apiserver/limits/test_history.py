"""The history of a logical cluster is bounded in bytes, and its events never shorten the window of another one."""

from __future__ import annotations

import json

import pytest

from shoal.apiserver.cache.compaction import HistoryCompactor, HistoryWindow
from shoal.apiserver.cache.watch_history import fair_share
from tests.apiserver.limits.conftest import LimitedCluster
from tests.apiserver.limits.limited import CONFIG_MAPS, set_limits
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, widget, widget_definition


def history_size(cluster: Cluster) -> int:
    async def read() -> int:
        return cluster.server.shoal.server.core.cache.history.size_of(cluster.name)

    return cluster.server.call(read())


def revision_of(cluster: Cluster) -> str:
    return str(cluster.get(CONFIG_MAPS).ok()["metadata"]["resourceVersion"])


def first_event(cluster: Cluster, revision: str) -> dict[str, object]:
    with cluster.watch(f"{CONFIG_MAPS}?resourceVersion={revision}&allowWatchBookmarks=true&confirm=true") as watch:
        return watch.next()


def rewrite(cluster: Cluster, times: int, size: int = 100_000) -> None:
    cluster.post(CONFIG_MAPS, config_map("large"))
    for number in range(times):
        cluster.patch(f"{CONFIG_MAPS}/large", {"data": {"text": chr(97 + number % 26) * size}}).ok()


def test_a_history_has_at_most_the_bytes_of_its_limit(still_server: Server, limited: LimitedCluster) -> None:
    cluster, other = limited(still_server, history="1Mi"), limited(still_server)
    began, others_began = revision_of(cluster), revision_of(other)
    other.post(CONFIG_MAPS, config_map("quiet")).ok()
    # With a watch, so that every event is also kept as it was sent.
    with cluster.watch(f"{CONFIG_MAPS}?resourceVersion={began}") as watch:
        rewrite(cluster, 30)
        assert [event["type"] for event in watch.take(31)] == ["ADDED"] + ["MODIFIED"] * 30
    assert history_size(cluster) <= 1 << 20
    # Its own watches have to list again; a recent one goes on.
    expired = first_event(cluster, began)
    assert expired["type"] == "ERROR"
    assert expired["object"]["code"] == 410  # type: ignore[index]
    exact = cluster.get(f"{CONFIG_MAPS}?resourceVersion={began}&resourceVersionMatch=Exact")
    assert exact.status == 410
    recent = revision_of(cluster)
    cluster.patch(f"{CONFIG_MAPS}/large", {"data": {"text": "end"}}).ok()
    assert first_event(cluster, recent)["type"] == "MODIFIED"
    # The window of the other cluster is as it was.
    event = first_event(other, others_began)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "quiet")  # type: ignore[index]
    assert other.get(f"{CONFIG_MAPS}?resourceVersion={others_began}&resourceVersionMatch=Exact").ok()["items"] == []


def test_a_lowered_limit_shortens_the_history_at_once(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server)
    rewrite(cluster, 20)
    assert history_size(cluster) > 1 << 20
    set_limits(cluster, history="500k").ok()
    assert 0 < history_size(cluster) <= 500_000


def test_all_clusters_together_are_bounded_by_their_fair_share(still_server: Server, limited: LimitedCluster) -> None:
    noisy, quiet = limited(still_server), limited(still_server)
    noisy_began, quiet_began = revision_of(noisy), revision_of(quiet)
    quiet.post(CONFIG_MAPS, config_map("quiet")).ok()
    rewrite(noisy, 20)

    async def compact() -> None:
        core = still_server.shoal.server.core
        window = HistoryWindow(max_bytes=core.cache.history.size_of(quiet.name) * 2 + 300_000)
        await HistoryCompactor(core.store, core.cache, core.clock, window).compact()

    still_server.call(compact())
    assert history_size(noisy) < 400_000
    assert first_event(noisy, noisy_began)["type"] == "ERROR"
    assert first_event(quiet, quiet_began)["type"] == "ADDED"


def test_a_resumed_watch_of_all_clusters_misses_nothing(still_server: Server, limited: LimitedCluster) -> None:
    """It gets 410 if any cluster has lost events after its revision, and every event otherwise, in their order."""
    first, second = limited(still_server, history="1Mi"), limited(still_server)
    everywhere = Cluster(still_server, "*")
    began = str(everywhere.get("/api/v1/configmaps").ok()["metadata"]["resourceVersion"])
    for number in range(5):
        first.post(CONFIG_MAPS, config_map(f"a{number}")).ok()
        second.post(CONFIG_MAPS, config_map(f"b{number}")).ok()
    path = f"/api/v1/configmaps?resourceVersion={began}"
    with everywhere.watch(path) as watch:
        events = watch.take(10)
    names = [event["object"]["metadata"]["name"] for event in events]
    assert names == [f"{letter}{number}" for number in range(5) for letter in "ab"]
    rewrite(first, 30)
    with everywhere.watch(path) as watch:
        assert watch.next()["object"]["code"] == 410
    everywhere.close()


def test_the_store_is_compacted_by_bytes(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server)

    async def compactor() -> HistoryCompactor:
        core = still_server.shoal.server.core
        return HistoryCompactor(core.store, core.cache, core.clock, HistoryWindow(max_stored_bytes=500_000))

    running = still_server.call(compactor())
    still_server.call(running.compact())
    before = still_server.shoal.store.compacted_revision
    rewrite(cluster, 10)
    still_server.call(running.compact())
    assert still_server.shoal.store.compacted_revision > before


@pytest.mark.parametrize(
    ("sizes", "total", "share"),
    [((), 10, None), ((5, 5), 10, None), ((5, 6), 10, 5), ((1, 100), 10, 9), ((1, 2, 50, 60), 33, 15), ((4,), 0, 0)],
)
def test_a_fair_share(sizes: tuple[int, ...], total: int, share: int | None) -> None:
    assert fair_share(sizes, total) == share
    assert share is None or sum(min(size, share) for size in sizes) <= total


def test_resources_that_nobody_defines_any_more_are_forgotten(still_server: Server, limited: LimitedCluster) -> None:
    """A tenant can invent any number of kinds, one after another."""
    cluster = limited(still_server)
    core = still_server.shoal.server.core
    # A group of its own: other tests define Widgets, too.
    group, things = "forgotten.example.com", WIDGETS.replace("example.com", "forgotten.example.com")
    definition = json.loads(json.dumps(widget_definition()).replace("example.com", group))
    cluster.post(DEFINITIONS, definition).ok()
    cluster.post(things, widget("a") | {"apiVersion": f"{group}/v1"}).ok()
    cluster.delete(f"{things}/a").ok()
    gone = cluster.delete(f"{DEFINITIONS}/widgets.{group}").ok()
    if "finalizers" in gone.get("metadata", {}):  # the loops of this server are stopped
        cluster.patch(f"{DEFINITIONS}/widgets.{group}", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: cluster.get(f"{DEFINITIONS}/widgets.{group}").status == 404)

    async def forget_history() -> bool:
        core.cache.history.trim(core.cache.revision)
        core.cache.drop_unused()
        return f"{group}/widgets" in core.cache.resource_caches

    assert not still_server.call(forget_history())
    # And it comes back as if nothing had been.
    cluster.post(DEFINITIONS, definition).ok()
    cluster.eventually(lambda: cluster.get(things).status == 200)
    revision = str(cluster.get(things).ok()["metadata"]["resourceVersion"])
    cluster.post(things, widget("b") | {"apiVersion": f"{group}/v1"}).ok()
    with cluster.watch(f"{things}?resourceVersion={revision}") as watch:
        assert watch.next()["object"]["metadata"]["name"] == "b"
