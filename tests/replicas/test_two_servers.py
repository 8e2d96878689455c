"""Two servers on one etcd: one set of data, one order, one identity, and controllers on one of them."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.assemble.server.hub import StoreSettings
from shoal.store.etcd import EtcdStore
from tests.etcd import Etcd, running_etcd
from tests.serving import Cluster, Object, Server, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
_prefixes = itertools.count(1)


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def pair(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    settings = shared(etcd)
    servers = [Server(tmp_path_factory.mktemp(name), store=settings) for name in ("a", "b")]
    yield servers[0], servers[1]
    for server in servers:
        server.stop()


def shared(etcd: Etcd) -> StoreSettings:
    return StoreSettings("etcd", (etcd.endpoint,), prefix=f"/replicas{next(_prefixes)}")


@pytest.fixture
def roots(pair: tuple[Server, Server]) -> Iterator[tuple[Cluster, Cluster]]:
    clusters = Cluster(pair[0], "root"), Cluster(pair[1], "root")
    yield clusters
    for cluster in clusters:
        cluster.close()


def test_they_are_one_identity(pair: tuple[Server, Server]) -> None:
    a, b = pair
    assert a.authority == b.authority
    assert a.token == b.token
    assert a.shoal.store.id == b.shoal.store.id
    for name in ("pki/ca.key", "pki/cluster-keys.key"):
        assert (a.shoal.directory.path / name).read_text() == (b.shoal.directory.path / name).read_text()


def test_a_read_after_an_acknowledged_write_is_never_older(roots: tuple[Cluster, Cluster]) -> None:
    for n in range(60):
        writer, reader = roots[n % 2], roots[(n + 1) % 2]
        made = writer.post(MAPS, config_map(f"seen-{n}")).ok()
        assert reader.get(f"{MAPS}/seen-{n}").ok() == made
        listed = reader.get(MAPS).ok()
        assert made["metadata"] in [item["metadata"] for item in listed["items"]]
        assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
        made["data"] = {"n": str(n)}
        changed = reader.put(f"{MAPS}/seen-{n}", made).ok()
        assert writer.get(f"{MAPS}/seen-{n}").ok() == changed
        writer.delete(f"{MAPS}/seen-{n}").ok()
        assert reader.get(f"{MAPS}/seen-{n}").status == 404


def test_new_kinds_namespaces_and_rights_are_known_at_once(roots: tuple[Cluster, Cluster]) -> None:
    a, b = roots
    name = {"metadata": {"name": "elsewhere"}}
    a.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **name}).ok()
    b.post("/api/v1/namespaces/elsewhere/configmaps", config_map("x")).ok()
    lc = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", **name}
    b.post("/apis/core.shoal.dev/v1alpha1/logicalclusters", lc).ok()
    inside = Cluster(a.server, "elsewhere")
    assert inside.get("/api/v1/namespaces/default").status == 200
    inside.close()


def test_a_consistent_list_reads_no_keys_from_etcd(pair: tuple[Server, Server], roots: tuple[Cluster, Cluster]) -> None:
    for n in range(20):
        roots[1].post(MAPS, config_map(f"counted-{n}")).ok()
    store = pair[0].shoal._opened_store.metadata
    assert isinstance(store, EtcdStore)
    before = store.keys_read
    for _ in range(50):
        assert len(roots[0].get(MAPS).ok()["items"]) >= 20
        assert roots[0].get(f"{MAPS}/counted-3").status == 200
    # The holder of the lease renews it by a read of its own server, not of etcd.
    assert store.keys_read == before


def test_a_watch_delivers_the_writes_of_both_in_revision_order(roots: tuple[Cluster, Cluster]) -> None:
    a, b = roots
    start = a.get(MAPS).ok()["metadata"]["resourceVersion"]

    def write(cluster: Cluster, name: str) -> None:
        client = Cluster(cluster.server, "root")
        for n in range(50):
            client.post(MAPS, config_map(f"order-{name}-{n}")).ok()
        client.close()

    with a.watch(f"{MAPS}?resourceVersion={start}") as first, b.watch(f"{MAPS}?resourceVersion={start}") as second:
        writers = [threading.Thread(target=write, args=pair) for pair in ((a, "a"), (b, "b"))]
        for writer in writers:
            writer.start()
        seen = [_until(watch, 100) for watch in (first, second)]
        for writer in writers:
            writer.join()
    assert seen[0] == seen[1]
    revisions = [int(obj["metadata"]["resourceVersion"]) for obj in seen[0]]
    assert revisions == sorted(set(revisions))


def _until(watch: Iterable[Object], count: int) -> list[Object]:
    found: list[Object] = []
    for event in watch:
        if event["type"] == "ADDED" and event["object"]["metadata"]["name"].startswith("order-"):
            found.append(event["object"])
        if len(found) == count:
            break
    return found


def test_a_revision_of_one_is_good_at_the_other(etcd: Etcd, roots: tuple[Cluster, Cluster]) -> None:
    a, b = roots
    revision = a.post(MAPS, config_map("resumed")).ok()["metadata"]["resourceVersion"]
    with b.watch(f"{MAPS}?resourceVersion={revision}") as watch:
        made = a.post(MAPS, config_map("resumed-2")).ok()
        assert watch.next() == {"type": "ADDED", "object": made}
    listed = a.get(f"{MAPS}?limit=1").ok()
    rest = b.get(f"{MAPS}?limit=500&continue={listed['metadata']['continue']}").ok()
    assert rest["metadata"]["resourceVersion"] == listed["metadata"]["resourceVersion"]


def test_updates_at_both_lose_nothing(roots: tuple[Cluster, Cluster]) -> None:
    roots[0].post(MAPS, config_map("counter", {"n": "0"})).ok()

    def add(cluster: Cluster) -> None:
        client = Cluster(cluster.server, "root")
        done = 0
        while done < 30:
            found = client.get(f"{MAPS}/counter").ok()
            found["data"]["n"] = str(int(found["data"]["n"]) + 1)
            status = client.put(f"{MAPS}/counter", found).status
            assert status in (200, 409)
            done += status == 200
        client.close()

    adders = [threading.Thread(target=add, args=(root,)) for root in roots]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert roots[0].get(f"{MAPS}/counter").ok()["data"]["n"] == "60"


def test_a_token_of_one_opens_the_other(roots: tuple[Cluster, Cluster]) -> None:
    a, b = roots
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = a.post("/api/v1/namespaces/default/serviceaccounts/default/token", body).ok()["status"]["token"]
    assert b.request("GET", "/api/v1/namespaces/default", token=token).status == 403
    assert b.request("GET", "/api/v1/namespaces/default", token=token[:-2]).status == 401


def test_loops_run_on_one_of_them(roots: tuple[Cluster, Cluster]) -> None:
    lease = roots[0].get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/shoal-loops").ok()
    assert lease["spec"]["holderIdentity"]
    name = {"metadata": {"name": "short-lived"}}
    roots[1].post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **name}).ok()
    roots[1].delete("/api/v1/namespaces/short-lived").ok()
    roots[0].eventually(lambda: roots[0].get("/api/v1/namespaces/short-lived").status == 404)


def test_a_server_with_other_keys_is_refused(etcd: Etcd, tmp_path: Path) -> None:
    settings = shared(etcd)
    first = Server(tmp_path / "first", store=settings)
    first.stop()
    other = Server(tmp_path / "other", store=shared(etcd))
    other.stop()
    (tmp_path / "other" / "store-id").unlink()
    with pytest.raises(Exception, match="differ from those of the servers that share this store") as refused:
        Server(tmp_path / "other", store=settings)
    assert "give an empty --data-dir" in getattr(refused.value, "hint", "")


def test_an_authority_that_is_replaced_at_one_gets_to_the_other(etcd: Etcd, tmp_path: Path) -> None:
    settings = shared(etcd)
    a, b = (Server(tmp_path / name, store=settings) for name in ("a", "b"))
    fresh = CertificateAuthority(tmp_path / "fresh")
    (tmp_path / "a" / "pki" / "ca.crt").write_bytes(a.authority + fresh.certificate)
    for each in (a, b):
        assert each.shoal.shared_ca is not None
        each.call(each.shoal.shared_ca.sync())
    assert b.shoal.server.authority.certificate == a.authority + fresh.certificate
    for each in (a, b):
        each.stop()
    again = Server(tmp_path / "third", store=settings)
    assert again.authority == a.authority + fresh.certificate
    again.stop()


def test_another_prefix_under_a_known_directory_is_refused(etcd: Etcd, tmp_path: Path) -> None:
    Server(tmp_path / "data", store=shared(etcd)).stop()
    with pytest.raises(Exception, match="there is no Shoal store below /replicas") as refused:
        Server(tmp_path / "data", store=shared(etcd))
    assert "check --etcd-servers and --etcd-prefix" in getattr(refused.value, "hint", "")
    with pytest.raises(Exception, match=r"but shoal\.db is missing"):
        Server(tmp_path / "data")


def test_what_was_there_is_there_after_a_restart(etcd: Etcd, tmp_path: Path) -> None:
    settings = shared(etcd)
    server = Server(tmp_path / "data", store=settings)
    root = Cluster(server, "root")
    made = root.post(MAPS, config_map("kept")).ok()
    root.close()
    server.stop()
    server = Server(tmp_path / "again", store=settings)
    root = Cluster(server, "root")
    assert root.get(f"{MAPS}/kept").ok() == made
    revision = int(made["metadata"]["resourceVersion"]) - 1
    with root.watch(f"{MAPS}?resourceVersion={revision}") as watch:
        assert watch.next()["object"] == made
    root.close()
    server.stop()


def test_an_object_larger_than_etcd_takes(roots: tuple[Cluster, Cluster]) -> None:
    answer = roots[0].post(MAPS, config_map("large", {"x": "y" * 1_600_000}))
    assert answer.status in (413, 422), json.dumps(answer.json)[:300]
