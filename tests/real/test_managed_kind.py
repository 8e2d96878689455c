"""A hub and a far worker with a container engine: one embedded and one kind ManagedCluster, and kubectl through the hub
into the containers of the latter.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import HANG, Up, command
from tests.real.commands import items, until
from tests.real.containers.control_plane import VERSION
from tests.real.containers.engine import Engine
from tests.real.containers.node_image import NAME
from tests.real.containers.workload_images import BUSYBOX
from tests.real.hubs import KubectlAt
from tests.real.programs import kubectls
from tests.real.test_kind_clusters import apply, kind_clusters, waited

pytestmark = pytest.mark.containers
Object = dict[str, Any]
WORKER_READY = "the worker's own API is at "
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1alpha1"


class Place:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hub = Up(directory / "hub", verb="hub", environ=dict(os.environ))
        self.kubectl = KubectlAt(self.hub.data / "kubeconfig", directory / "home")
        flags = ("--hub-kubeconfig", str(self.hub.data / "kubeconfig"), "--name", "far")
        kind = ("--kind", "--kind-image", f"{VERSION}={NAME}")
        self.worker = Up(directory / "far", *flags, *kind, verb="worker", ready=WORKER_READY, environ=dict(os.environ))

    def managed(self, name: str, **spec: Any) -> None:
        meta = {"apiVersion": INFRASTRUCTURE, "kind": "ManagedCluster", "metadata": {"name": name}}
        apply(self.kubectl, self.directory, {**meta, "spec": spec})

    def running(self, name: str) -> None:
        waited(self.kubectl, f"managedcluster/{name}", "--for", "jsonpath={.status.phase}=Running")

    def inside(self, name: str) -> KubectlAt:
        """A user of the hub, in the cluster, by the address of the hub."""
        asked = command("kubeconfig", name, "--ttl", "1h", "--kubeconfig", str(self.hub.data / "kubeconfig"))
        printed = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=HANG)
        file = self.directory / f"{name}.kubeconfig"
        file.write_text(printed.stdout)
        return KubectlAt(file, self.directory / f"inside-{name}")

    def close(self) -> None:
        names = [item["metadata"]["name"] for item in items(self.kubectl, "managedclusters")]
        if names:
            self.kubectl("delete", "managedcluster", *names, "--wait=false")
            for name in names:
                waited(self.kubectl, f"managedcluster/{name}", "--for", "delete")
        self.worker.terminate()
        self.hub.terminate()


@pytest.fixture
def place(engine: Engine, tmp_path: Path) -> Iterator[Place]:
    before = set(kind_clusters())
    made = Place(tmp_path)
    try:
        yield made
    finally:
        try:
            made.close()
        finally:
            for name in set(kind_clusters()) - before:
                if name.startswith("real-"):
                    subprocess.run(["kind", "delete", "cluster", "--name", name], check=True, capture_output=True)


def deployment(script: str) -> Object:
    container = {"name": "shell", "image": BUSYBOX, "command": ["sh", "-c", script]}
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


@contextmanager
def port_forward(kubeconfig: Path, pod: str, port: int) -> Iterator[int]:
    """The local port."""
    program = list(kubectls().values())[-1]
    process = subprocess.Popen(
        [program, f"--kubeconfig={kubeconfig}", "port-forward", pod, f":{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("Forwarding from 127.0.0.1:"), line + process.stdout.read()
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        yield int(line.split(":")[1].split()[0])
        process.terminate()
        reader.join()
    finally:
        process.kill()
        process.wait(HANG)
        process.stdout.close()


def http_get(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=HANG) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode()


def running_pods(inside: KubectlAt) -> list[str]:
    pods = items(inside, "pods", "-l", "app=web")
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]


def test_one_embedded_and_one_kind_cluster_of_a_far_worker(place: Place, engine: Engine) -> None:
    place.managed("sim", nodes=1)
    place.managed("real", infrastructure="kind", version=VERSION, nodes=1)
    place.running("sim")
    place.running("real")
    (name,) = [each for each in kind_clusters() if each.startswith("real-")]
    waited(place.kubectl, "managedcluster/real", "--for", "condition=NodesReady")
    waited(place.kubectl, "clusters.workload.kcp.dev/sim", "clusters.workload.kcp.dev/real", "--for", "condition=Ready")

    # One Deployment of the hub, half of it in containers.
    page = "mkdir /www; echo this is $((6 * 7)) > /www/index.html; echo started; exec httpd -f -p 8080 -h /www"
    apply(place.kubectl, place.directory, deployment(page))
    waited(place.kubectl, "deployment/web", "--for", "jsonpath={.status.readyReplicas}=4")
    inside = place.inside("real")
    # Whichever cluster was ready first had all of them for a moment.
    until(lambda: len(running_pods(inside)) == 2)
    pod = running_pods(inside)[0]
    assert inside("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "hub:shoal-admin"
    assert inside("logs", pod) == "started\n"

    # exec: output, standard input that ends, an exit code, and more bytes than the tunnel holds.
    assert inside("exec", pod, "--", "uname", "-s") == "Linux\n"
    program, kubeconfig = list(kubectls().values())[-1], place.directory / "real.kubeconfig"
    exec_cat = [program, f"--kubeconfig={kubeconfig}", "exec", "-i", pod, "--", "sh", "-c", "wc -c; exit 3"]
    ended = subprocess.run(exec_cat, input=b"x" * 3_000_000, capture_output=True, check=False, timeout=HANG)
    assert (ended.stdout.strip(), ended.returncode) == (b"3000000", 3), ended.stderr
    assert len(inside("exec", pod, "--", "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' y")) == 5_000_000
    slow = subprocess.Popen(
        [program, f"--kubeconfig={kubeconfig}", "exec", pod, "--", "sh", "-c", "head -c 9000000 /dev/zero"],
        stdout=subprocess.PIPE,
    )
    with slow:
        assert slow.stdout is not None
        time.sleep(2)  # It does not read; meanwhile others do.
        assert inside("exec", pod, "--", "echo", "meanwhile") == "meanwhile\n"
        assert len(slow.stdout.read()) == 9_000_000
        assert slow.wait(HANG) == 0
    # The other protocol of kubectl.
    spdy = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
    by_spdy = [program, f"--kubeconfig={kubeconfig}", "exec", "-i", pod, "--", "cat"]
    done = subprocess.run(by_spdy, input=b"by spdy", capture_output=True, check=True, timeout=HANG, env=spdy)
    assert done.stdout == b"by spdy"
    with port_forward(kubeconfig, pod, 8080) as port:
        for _ in range(3):
            assert http_get(port).endswith("this is 42\n")

    # A change is refused, and a move too.
    place.kubectl("patch", "managedcluster", "real", "--type=merge", "-p", '{"spec":{"nodes":2}}')
    waited(
        place.kubectl,
        "managedcluster/real",
        "--for",
        "jsonpath={.status.conditions[?(@.type=='Upgraded')].reason}=ReplacementRefused",
    )
    place.kubectl("patch", "managedcluster", "real", "--type=merge", "-p", '{"spec":{"nodes":1}}')

    place.kubectl("delete", "deployment", "web")
    place.kubectl("delete", "managedcluster", "real", "--wait=false")
    waited(place.kubectl, "managedcluster/real", "--for", "delete")
    assert name not in kind_clusters()
    until(lambda: engine.docker("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={name}") == "")
    assert engine.docker("volume", "ls", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={name}") == ""
