"""A hosted cluster at a port of the hub, on a worker in a process of its own that is killed and comes back."""

from __future__ import annotations

import base64
import http.client
import json
import random
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.fleet.fleets import managed, phase
from tests.fleet.test_worker_process import CLUSTERS, WORKERS, end, start
from tests.fleet.test_worker_process import hub as hub
from tests.serving import HANG, Cluster

Object = dict[str, Any]

NAMES = ("10.0.0.1", "127.0.0.1", "kubernetes.default.svc.cluster.local", "localhost")
UNREACHABLE = (ConnectionError, ssl.SSLError, http.client.HTTPException)


def free_port_in_range() -> int:
    """A port of the default range, which other tests of this machine use as well."""
    while True:
        port = random.randint(20_100, 24_999)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


class AtPort:
    """A client of the cluster at its own address."""

    def __init__(self, port: int, authority: Path, token: str) -> None:
        self.port, self.authority, self._token = port, authority, token
        self._tls = ssl.create_default_context(cafile=authority)

    @contextmanager
    def get(self, path: str) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=HANG)
        with closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            yield connection.getresponse()

    def status_of(self, path: str) -> int:
        with self.get(path) as response:
            return response.status

    def answers(self) -> bool:
        try:
            return self.status_of("/api/v1/namespaces") == 200
        except UNREACHABLE:
            return False


def client_of(hub: Cluster, name: str, port: int, directory: Path) -> AtPort:
    secret = hub.get(f"/api/v1/namespaces/default/secrets/{name}-kubeconfig").ok()
    token = yaml.safe_load(base64.b64decode(secret["data"]["value"]))["users"][0]["user"]["token"]
    root_ca = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    tls = hub.server.shoal.server.authority.certificate.decode()
    connection = http.client.HTTPSConnection(
        "127.0.0.1", hub.server.shoal.server.port, context=ssl.create_default_context(cadata=tls), timeout=HANG
    )
    path = f"/managedclusters/default/{name}{root_ca}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    authority = json.loads(connection.getresponse().read())["data"]["ca.crt"]
    connection.close()
    file = directory / f"{name}-ca.crt"
    file.write_text(authority)
    return AtPort(port, file, token)


def verified_by_openssl(client: AtPort, name: str) -> bool:
    is_address = name[0].isdigit()
    flags = ["-verify_ip" if is_address else "-verify_hostname", name, "-verify_return_error"]
    run = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{client.port}", "-CAfile", client.authority, *flags],
        input="",
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    return run.returncode == 0 and "Verify return code: 0 (ok)" in run.stdout


def test_a_worker_process_behind_its_tunnel(hub: Cluster, tmp_path: Path) -> None:
    port = free_port_in_range()
    process = start(hub, tmp_path)
    try:
        asked = managed("east", nodes=0)
        asked["spec"]["endpoint"] = {"type": "Port", "port": port}
        hub.post(CLUSTERS, asked).ok()
        hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
        assert hub.get(f"{CLUSTERS}/east").ok()["status"]["endpoint"] == {"host": "127.0.0.1", "port": port}
        client = client_of(hub, "east", port, tmp_path)
        hub.eventually(client.answers)
        assert [name for name in NAMES if not verified_by_openssl(client, name)] == []
        assert not verified_by_openssl(client, "hub.example")
        assert client.status_of("/clusters/root/api") == 404
        with client.get("/api/v1/namespaces?watch=true") as watch:
            assert json.loads(watch.readline())["type"] == "ADDED"
            end(process, signal.SIGKILL)
            hub.eventually(lambda: not client.answers())
            with suppress(*UNREACHABLE):  # it ends, with or without an error
                watch.read()
        process = start(hub, tmp_path)
        hub.eventually(client.answers)
        assert verified_by_openssl(client, "10.0.0.1")
        hub.patch(f"{CLUSTERS}/east", {"spec": {"endpoint": {"type": "None"}}}).ok()
        hub.eventually(lambda: is_refused(port))
    finally:
        if process.poll() is None:
            end(process, signal.SIGKILL)


def test_a_cluster_moves_from_one_worker_to_another(hub: Cluster, tmp_path: Path) -> None:
    """Port, authority and tokens stay the same, those of former keys included. A watch that is open at the old worker
    ends.
    """
    port = free_port_in_range()
    workers = {name: start(hub, tmp_path, name) for name in ("w1", "w2")}
    try:
        asked = managed("east", nodes=0, onWorkerLost="Move")
        asked["spec"]["endpoint"] = {"type": "Port", "port": port}
        hub.post(CLUSTERS, asked).ok()
        hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
        client = client_of(hub, "east", port, tmp_path)
        hub.eventually(client.answers)
        keys = {"generation": 2, "trustFormer": True}
        hub.patch(f"{CLUSTERS}/east", {"spec": {"keys": keys}}).ok()
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("keys") == keys)
        newer = client_of(hub, "east", port, made(tmp_path / "newer"))
        former = hub.get(f"{CLUSTERS}/east").ok()["status"]["assignedWorker"]
        with client.get("/api/v1/namespaces?watch=true") as watch:
            assert json.loads(watch.readline())["type"] == "ADDED"
            hub.patch(f"{WORKERS}/{former}", {"spec": {"drain": True}}).ok()
            with suppress(*UNREACHABLE):  # it ends, with or without an error
                watch.read()
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("assignedWorker") != former)
        hub.eventually(client.answers)
        assert hub.get(f"{CLUSTERS}/east").ok()["status"]["endpoint"]["port"] == port
        end(workers.pop(former), signal.SIGKILL)
        assert client.answers()
        assert newer.answers()
        assert hub.get(f"{CLUSTERS}/east").ok()["status"]["keys"] == keys
        assert verified_by_openssl(client, "10.0.0.1")
    finally:
        for process in workers.values():
            end(process, signal.SIGKILL)


def test_no_request_fails_while_the_keys_of_a_cluster_are_rotated(hub: Cluster, tmp_path: Path) -> None:
    """Of a cluster in a worker process, through the tunnel, with clients that know the former or the new keys."""
    port = free_port_in_range()
    process = start(hub, tmp_path)
    answers: list[object] = []
    try:
        asked = managed("east", nodes=0)
        asked["spec"]["endpoint"] = {"type": "Port", "port": port}
        hub.post(CLUSTERS, asked).ok()
        hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
        before = client_of(hub, "east", port, made(tmp_path / "before"))
        hub.eventually(before.answers)

        def rotate(trust_former: bool) -> None:
            wanted = {"generation": 2, "trustFormer": trust_former}
            hub.patch(f"{CLUSTERS}/east", {"spec": {"keys": wanted}}).ok()
            hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("keys") == wanted)

        with requests_of(before, answers):
            rotate(trust_former=True)
            during = client_of(hub, "east", port, made(tmp_path / "during"))
            with requests_of(during, answers):
                assert during.authority.read_text().count("BEGIN CERTIFICATE") == 2
                assert verified_by_openssl(before, "10.0.0.1")
        with requests_of(during, answers):
            rotate(trust_former=False)
            after = client_of(hub, "east", port, made(tmp_path / "after"))
            with requests_of(after, answers):
                assert after.authority.read_text() in during.authority.read_text()
        assert set(answers) == {200}
        assert not before.answers()
        assert AtPort(port, after.authority, before._token).status_of("/api/v1/namespaces") == 401
    finally:
        end(process, signal.SIGKILL)


@contextmanager
def requests_of(client: AtPort, answers: list[object]) -> Iterator[None]:
    """Two threads that make requests all the time, on new connections. They go on a little after the end."""
    ending = threading.Event()

    def ask() -> None:
        rest = 5
        while rest:
            try:
                answers.append(client.status_of("/api/v1/namespaces"))
            except Exception as error:
                answers.append(repr(error))
            rest -= ending.is_set()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join(HANG)


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), HANG).close()
    except ConnectionRefusedError:
        return True
    return False
