"""A real kube-apiserver beside Shoal: the same client for both."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from bench.peer import KubeApiserver
from tests.real.building import program
from tests.serving import Cluster, Server, fresh_cluster

PROGRAMS = ("etcd", "kube-apiserver")


class Peer:
    """As much of a test's server as its clients use."""

    def __init__(self, peer: KubeApiserver) -> None:
        self.port, self.token = peer.port, peer.token
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def connect(self) -> Any:
        return Server.connect(cast(Server, self))


@contextmanager
def beside(server: Server, directory: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Kubernetes, and a new cluster of Shoal."""
    peer = KubeApiserver(directory, {name: cast(Path, program(name)) for name in PROGRAMS})
    peer.start()
    real = Cluster(cast(Server, Peer(peer)), "kube")
    real.prefix = ""
    ours = fresh_cluster(server, "cluster")
    yield real, ours
    real.close()
    ours.close()
    for process in peer.processes.values():
        process.kill()
    for process in peer.processes.values():
        process.wait()
