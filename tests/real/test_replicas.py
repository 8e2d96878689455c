"""Two hub processes on one etcd, as their users see them: one is as good as the other, and one may die."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.etcd import Etcd, running_etcd
from tests.faults.processes import HANG, Client, Object, Refused, Up
from tests.real.hubs import KubectlAt, hub
from tests.serving import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/shoal-loops"
LOST = (OSError, http.client.HTTPException)
Pair = tuple[Up, Up]
_prefixes = itertools.count(1)


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def pair(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from _started(etcd, tmp_path_factory.mktemp("pair"))


@pytest.fixture
def mortal(etcd: Etcd, tmp_path: Path) -> Iterator[Pair]:
    """A pair that the test may kill. The first one runs the loops."""
    yield from _started(etcd, tmp_path)


def _started(etcd: Etcd, directory: Path) -> Iterator[Pair]:
    prefix = f"/hubs{next(_prefixes)}"
    a = hub(directory / "a", etcd, prefix)
    try:
        eventually(lambda: holder(a.client()) != "")
        b = hub(directory / "b", etcd, prefix)
    except BaseException:
        a.close()
        raise
    yield a, b
    a.close()
    b.close()


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not check():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def holder(client: Client) -> str:
    try:
        return str(client.request("GET", LEASE)["spec"]["holderIdentity"])
    except Refused:
        return ""


def kubectls_at(pair: Pair, home: Path) -> tuple[KubectlAt, KubectlAt]:
    a, b = (KubectlAt(up.data / "kubeconfig", home / up.data.name) for up in pair)
    return a, b


def test_kubectl_at_one_sees_at_once_what_was_written_at_the_other(pair: Pair, tmp_path: Path) -> None:
    at = kubectls_at(pair, tmp_path)
    for n in range(20):
        writer, reader = at[n % 2], at[(n + 1) % 2]
        writer("create", "configmap", f"seen-{n}", f"--from-literal=n={n}")
        assert reader("get", "configmap", f"seen-{n}", "-o", "jsonpath={.data.n}") == str(n)
        assert f"configmap/seen-{n}\n" in reader("get", "configmaps", "-o", "name")
        writer("delete", "configmap", f"seen-{n}", "--wait=false")
        assert f"configmap/seen-{n}\n" not in reader("get", "configmaps", "-o", "name")


def test_kubectl_watching_one_is_told_of_the_others_writes_in_order(pair: Pair, tmp_path: Path) -> None:
    watching, _ = kubectls_at(pair, tmp_path)
    written: dict[str, int] = {}

    def write(up: Up, name: str) -> None:
        client = up.client()
        for n in range(40):
            made = client.request("POST", MAPS, config_map(f"watched-{name}-{n}"))
            written[made["metadata"]["name"]] = int(made["metadata"]["resourceVersion"])

    columns = '-o=jsonpath={.metadata.name} {.metadata.resourceVersion}{"\\n"}'
    with watching.lines("get", "configmaps", "--watch-only", columns) as lines:
        # Until it is seen, nobody knows that the watch is open.
        first = _written_until_seen(pair[1].client(), lines)
        writers = [threading.Thread(target=write, args=who) for who in ((pair[0], "a"), (pair[1], "b"))]
        for writer in writers:
            writer.start()
        found = [line.split() for line in itertools.islice(_named("watched-", lines), 80)]
        for writer in writers:
            writer.join(HANG)
    assert {name: int(revision) for name, revision in found} == written
    revisions = [first, *(int(revision) for _, revision in found)]
    assert revisions == sorted(set(revisions))


def _named(prefix: str, lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if line.startswith(prefix))


def _written_until_seen(client: Client, lines: Iterator[str]) -> int:
    """The revision of the first change that a watch tells of."""
    stop = threading.Event()

    def touch() -> None:
        obj = client.request("POST", MAPS, config_map("touched"))
        while not stop.wait(0.1):
            obj["data"] = {"n": obj["metadata"]["resourceVersion"]}
            obj = client.request("PUT", f"{MAPS}/touched", obj)

    touching = threading.Thread(target=touch)
    touching.start()
    seen = next(lines)
    stop.set()
    touching.join(HANG)
    return int(seen.split()[1])


class Retrying:
    """Goes on with the other server when one does not answer."""

    def __init__(self, pair: Pair) -> None:
        self._clients = [up.client() for up in pair]
        self.turns = 0

    def request(self, method: str, path: str, body: object = None) -> Object:
        for _ in range(20):
            try:
                return self._clients[self.turns % 2].request(method, path, body)
            except LOST:
                self._clients[self.turns % 2].close()
                self.turns += 1
        raise AssertionError("nobody answers")


def test_who_retries_goes_on_with_the_other_and_loses_nothing(mortal: Pair) -> None:
    a, b = mortal
    client = Retrying(mortal)
    client.request("POST", MAPS, config_map("counter", {"n": "0"}))
    acknowledged = 0

    def add() -> None:
        nonlocal acknowledged
        found = client.request("GET", f"{MAPS}/counter")
        seen = int(found["data"]["n"])
        assert seen == acknowledged, "an acknowledged write is not there"
        found["data"]["n"] = str(seen + 1)
        try:
            client.request("PUT", f"{MAPS}/counter", found)
        except Refused as refusal:
            # The try that got no answer had been carried out.
            if refusal.status != 409 or not client.turns:
                raise
        acknowledged += 1

    while acknowledged < 50:
        add()
    killing = threading.Timer(0.1, a.kill)
    killing.start()
    while client.turns == 0:
        add()
    killing.join()
    for _ in range(50):
        add()
    assert client.turns == 1
    assert b.client().request("GET", f"{MAPS}/counter")["data"]["n"] == str(acknowledged)


def test_the_admins_kubeconfig_of_one_opens_the_other(pair: Pair, tmp_path: Path) -> None:
    a, b = pair
    text = (a.data / "kubeconfig").read_text()
    assert text.count(f":{a.port}\n") == 1
    (tmp_path / "kubeconfig").write_text(text.replace(f":{a.port}\n", f":{b.port}\n"))
    kubectl = KubectlAt(tmp_path / "kubeconfig", tmp_path / "home")
    assert kubectl("auth", "can-i", "*", "*") == "yes\n"
    token = kubectl("create", "token", "default").strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = a.client().request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["user"]["username"] == "system:serviceaccount:default:default"


def test_loops_go_on_when_the_one_that_ran_them_is_killed(mortal: Pair) -> None:
    a, b = mortal
    client = b.client()
    before = holder(client)
    a.kill()
    room = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}}
    client.request("POST", "/api/v1/namespaces", room)
    client.request("POST", "/api/v1/namespaces/room/configmaps", config_map("x"))
    client.request("DELETE", "/api/v1/namespaces/room")

    def gone() -> bool:
        try:
            client.request("GET", "/api/v1/namespaces/room")
        except Refused as refusal:
            return refusal.status == 404
        return False

    eventually(gone)
    lease = client.request("GET", LEASE)["spec"]
    assert lease["holderIdentity"] != before
    assert lease["leaseTransitions"] == 1
