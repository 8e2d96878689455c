"""Objects and bytes of a logical cluster: counted exactly, refused beyond the limit, always possible to clean up."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.kinds.limits import ClusterLimits
from tests.apiserver.limits.conftest import LimitedCluster
from tests.apiserver.limits.limited import CLUSTERS, CONFIG_MAPS, fill, has_reservations, recount, set_limits, usage_of
from tests.serving import DEFINITIONS, Cluster, Server, config_map, fresh_cluster, widget_definition

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def small(still_server: Server, limited: LimitedCluster) -> Cluster:
    """It may have 20 objects."""
    return limited(still_server, objects=20)


def test_an_object_above_the_limit_is_refused(small: Cluster) -> None:
    assert len(fill(small)) == 20
    answer = small.post(CONFIG_MAPS, config_map("one-more"))
    assert answer.status == 403
    assert answer["reason"] == "Forbidden"
    assert answer["message"] == (
        f'configmaps "one-more" is forbidden: exceeded limits of logical cluster "{small.name}", requested: objects=1, '
        "used: objects=20, limited: objects=20 (spec.limits.objects of the cluster)"
    )
    assert answer["details"] == {"name": "one-more", "kind": "configmaps"}
    assert usage_of(small) == recount(small)


def test_parallel_creates_do_not_overshoot(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server, objects=50)
    clients = [Cluster(still_server, cluster.name) for _ in range(20)]

    def create(number: int) -> int:
        client = clients[number % 20]
        return [client.post(CONFIG_MAPS, config_map(f"p{number}-{each}")).status for each in range(10)].count(201)

    with ThreadPoolExecutor(20) as pool:
        created = sum(pool.map(create, range(20)))
    for client in clients:
        client.close()
    assert created == 50
    assert usage_of(cluster)[0] == recount(cluster)[0] == 50


def test_creates_that_are_sent_at_once_do_not_overshoot(still_server: Server, limited: LimitedCluster) -> None:
    """200 requests are in the server before the first of them is durable."""
    cluster = limited(still_server, objects=50)
    connections = [still_server.connect() for _ in range(200)]
    headers = {"Authorization": f"Bearer {still_server.token}", "Content-Type": "application/json"}
    body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-"}}'
    for connection in connections:
        connection.connect()
    for connection in connections:
        connection.request("POST", f"{cluster.prefix}{CONFIG_MAPS}", body, headers)
    statuses = [connection.getresponse().status for connection in connections]
    for connection in connections:
        connection.close()
    assert (statuses.count(201), statuses.count(403)) == (50, 150)
    assert usage_of(cluster)[0] == recount(cluster)[0] == 50


def test_bytes_above_the_limit_are_refused(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server, bytes="1Mi")
    names = fill(cluster, 100_000)
    assert len(names) == 10
    used = usage_of(cluster)[1]
    assert used <= 1 << 20
    grown = cluster.patch(f"{CONFIG_MAPS}/c0", {"data": {"more": "x" * 100_000}})
    assert grown.status == 403
    assert f"used: bytes={used}, limited: bytes=1048576 (spec.limits.bytes of the cluster)" in grown["message"]
    # What does not grow passes, and gives its room to others.
    cluster.patch(f"{CONFIG_MAPS}/c0", {"data": {"text": "y" * 100_000}}).ok()
    cluster.patch(f"{CONFIG_MAPS}/c1", {"data": {"text": ""}}).ok()
    cluster.patch(f"{CONFIG_MAPS}/c0", {"data": {"more": "x" * 90_000}}).ok()
    assert usage_of(cluster) == recount(cluster)


def test_deleting_gives_the_room_back(small: Cluster) -> None:
    fill(small)
    small.delete(f"{CONFIG_MAPS}/c3").ok()
    small.post(CONFIG_MAPS, config_map("in-its-place")).ok()
    assert small.post(CONFIG_MAPS, config_map("another")).status == 403
    assert usage_of(small) == recount(small)


def test_bootstrap_objects_count_when_they_are_written(small: Cluster) -> None:
    assert usage_of(small) == (0, 0, 0, 0)
    assert small.get("/api/v1/namespaces/default").ok()
    small.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}).ok()
    assert usage_of(small)[0] == 1
    assert usage_of(small) == recount(small)


def test_a_failed_write_gives_its_reservation_back(small: Cluster) -> None:
    small.post(CONFIG_MAPS, config_map("a")).ok()
    for _ in range(30):
        assert small.post(CONFIG_MAPS, config_map("a")).status == 409
    assert len(fill(small)) == 19
    assert not has_reservations(small)


def event(name: str, message: str = "") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "default"},
        "message": message,
    }


def test_events_have_a_share_in_which_new_ones_replace_old_ones(small: Cluster) -> None:
    assert len(fill(small)) == 20
    for number in range(130):
        small.post(EVENTS, event(f"e{number}")).ok()
    names = {each["metadata"]["name"] for each in small.get(EVENTS).ok()["items"]}
    assert names == {f"e{number}" for number in range(30, 130)}
    assert usage_of(small)[2] == recount(small)[2] == 100
    # By their bytes as well.
    for number in range(12):
        small.post(EVENTS, event(f"large{number}", "x" * 200_000)).ok()
    assert usage_of(small) == recount(small)
    assert usage_of(small)[3] <= 64 << 20
    set_limits(small, bytes="2Mi").ok()
    small.post(EVENTS, event("newest", "x" * 200_000)).ok()
    assert small.get(f"{EVENTS}/newest").status == 200
    assert usage_of(small)[3] <= 1 << 20
    assert usage_of(small) == recount(small)
    # A cluster full of Events takes other objects.
    small.delete(f"{CONFIG_MAPS}/c0").ok()
    small.post(CONFIG_MAPS, config_map("other")).ok()


def test_a_full_cluster_keeps_its_leases(small: Cluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}}
    fill(small)
    held = small.post(LEASES, {**lease, "spec": {"holderIdentity": "a"}}).ok()
    held["spec"] |= {"holderIdentity": "somebody-else", "leaseTransitions": 1_000_000}
    small.put(f"{LEASES}/leader", held).ok()
    # The reserve has an end.
    statuses = {small.post(LEASES, {**lease, "metadata": {"name": f"l{each}"}}).status for each in range(110)}
    assert statuses == {201, 403}
    assert usage_of(small)[0] == 120


def test_a_cluster_above_a_lowered_limit_can_be_cleaned_up(server: Server, limited: LimitedCluster) -> None:
    """Namespaces with finalizers on their objects, garbage collection and propagation, at ten times the limit."""
    cluster = limited(server, "cluster", objects=1000)
    cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}).ok()
    maps = "/api/v1/namespaces/n/configmaps"
    owner = cluster.post(maps, config_map("owner")).ok()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(60):
        cluster.post(maps, config_map(f"m{number}", finalizers=["example.com/hold"])).ok()
        cluster.post(maps, config_map(f"d{number}", ownerReferences=[reference])).ok()
    set_limits(cluster, objects=10, bytes=1000).ok()
    assert cluster.post(maps, config_map("refused")).status == 403
    cluster.delete(f"{maps}/owner", {"propagationPolicy": "Foreground"}).ok()
    cluster.eventually(lambda: cluster.get(f"{maps}/owner").status == 404)
    cluster.delete("/api/v1/namespaces/n").ok()
    for number in range(60):
        cluster.delete(f"{maps}/m{number}")
        removed = cluster.patch(f"{maps}/m{number}", {"metadata": {"finalizers": None}})
        assert removed.status == 200, removed.body
    cluster.eventually(lambda: cluster.get("/api/v1/namespaces/n").status == 404)
    assert usage_of(cluster) == recount(cluster)


def test_a_limit_changes_while_the_cluster_is_used(small: Cluster) -> None:
    fill(small)
    set_limits(small, objects=21).ok()
    small.post(CONFIG_MAPS, config_map("a")).ok()
    assert small.post(CONFIG_MAPS, config_map("b")).status == 403
    set_limits(small, objects=None).ok()
    small.post(CONFIG_MAPS, config_map("b")).ok()


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"objects": 0}, "spec.limits.objects"),
        ({"objects": "many"}, "spec.limits.objects"),
        ({"bytes": "0"}, "spec.limits.bytes"),
        ({"bytes": "12q"}, "spec.limits.bytes"),
        ({"history": "0Mi"}, "spec.limits.history"),
        ({"watches": -1}, "spec.limits.watches"),
    ],
)
def test_invalid_limits_are_refused(small: Cluster, limits: dict[str, int | str], field: str) -> None:
    answer = set_limits(small, **limits)
    assert answer.status == 422
    assert field in answer["message"]


def test_definitions_are_limited(small: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.apiserver.limits.storage_limits.MAX_DEFINITIONS", 1)
    small.post(DEFINITIONS, widget_definition()).ok()
    second = widget_definition()
    second["metadata"]["name"] = "gadgets.example.com"
    second["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    answer = small.post(DEFINITIONS, second)
    assert answer.status == 403
    assert "used: customresourcedefinitions=1, limited: customresourcedefinitions=1" in answer["message"]


def test_the_count_is_that_of_the_store_after_anything(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server, objects=60, bytes=40_000)
    dice = random.Random(4)
    for _ in range(600):
        name, size = f"r{dice.randrange(90)}", dice.randrange(2000)
        action = dice.choice(("create", "create", "update", "update", "delete", "bootstrap", "collection"))
        if action == "create":
            cluster.post(CONFIG_MAPS, config_map(name, {"a": "x" * size}, finalizers=["a/b"] if size < 200 else None))
        elif action == "update":
            cluster.patch(f"{CONFIG_MAPS}/{name}", {"data": {"b": "y" * size}})
        elif action == "delete":
            cluster.delete(f"{CONFIG_MAPS}/{name}")
            cluster.patch(f"{CONFIG_MAPS}/{name}", {"metadata": {"finalizers": None}})
        elif action == "bootstrap":
            path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
            cluster.delete(path) if size < 500 else cluster.patch(path, {"metadata": {"labels": {"a": f"v{size}"}}})
        elif size < 100:
            cluster.delete(CONFIG_MAPS)
        if size < 200:
            assert usage_of(cluster) == recount(cluster)
    assert usage_of(cluster) == recount(cluster)
    assert usage_of(cluster)[0] > 0
    assert not has_reservations(cluster)


def test_the_count_survives_a_restart_and_ends_with_the_cluster(tmp_path: Path, limited: LimitedCluster) -> None:
    server = Server(tmp_path)
    cluster = limited(server, objects=5)
    fill(cluster)
    before = usage_of(cluster)
    server.stop()
    server = Server(tmp_path)
    try:
        again = Cluster(server, cluster.name)
        assert usage_of(again) == before == recount(again)
        assert again.post(CONFIG_MAPS, config_map("more")).status == 403
        again.close()
        root = Cluster(server, "root")
        root.delete(f"{CLUSTERS}/{cluster.name}").ok()
        root.eventually(lambda: root.get(f"{CLUSTERS}/{cluster.name}").status == 404)
        root.close()
        assert cluster.name not in server.shoal.server.core.cache.usage.clusters()
    finally:
        server.stop()


def test_root_has_no_limit_unless_it_is_set(tmp_path: Path) -> None:
    server = Server(tmp_path, cluster_limits=ClusterLimits(objects=2), root_limits=ClusterLimits(objects=10_000))
    try:
        cluster = fresh_cluster(server)
        assert len(fill(cluster)) == 2
        cluster.close()
        root = Cluster(server, "root")
        root.patch(f"{CLUSTERS}/root", {"spec": {"limits": {"objects": 1}}}).ok()
        assert root.post(CONFIG_MAPS, config_map("refused")).status == 403
        root.patch(f"{CLUSTERS}/root", {"spec": {"limits": None}}).ok()
        root.post(CONFIG_MAPS, config_map("taken")).ok()
        root.close()
    finally:
        server.stop()
