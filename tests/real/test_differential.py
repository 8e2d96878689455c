"""Thousands of requests at kube-apiserver and at Shoal: the same status, words, shape, warnings and content types.

Both are alone, without loops, so that nothing happens but what is asked. What differs on purpose is in
`differential/allowed.yaml`, each with its reason; an entry that covers nothing any more is a failure.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from bench.peer import KubeApiserver
from shoal.kinds.storage.storage import SIMULATED_CLASS, simulated_storage_class
from tests.real.building import program
from tests.real.differential import generated, kinds, written
from tests.real.differential.asking import PATIENCE, Ask, Side, Story
from tests.real.differential.comparing import judged
from tests.serving import Server

PROGRAMS = ("etcd", "kube-apiserver")
missing = [name for name in PROGRAMS if program(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"kube-apiserver (no {', no '.join(missing)})")
LEAST = 3000
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


class Peer(KubeApiserver):
    """With all of its usual admission, and the user and the network that Shoal has."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, {name: cast(Path, program(name)) for name in PROGRAMS})
        (directory / "tokens.csv").write_text(f'{self.token},shoal-admin,,"system:masters"\n')

    def _apiserver_command(self) -> list[str]:
        given = [flag for flag in super()._apiserver_command() if "admission" not in flag and "cluster-ip" not in flag]
        return [*given, "--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true"]


def _default_class(real: Side) -> None:
    """What Shoal has from the start and new claims are changed by; its admission has seen it when one is."""
    real.ask(Ask("POST", "/apis/storage.k8s.io/v1/storageclasses", simulated_storage_class()))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    claim = Ask("POST", f"{CLAIMS}?dryRun=All", {"metadata": {"name": "x"}, "spec": spec})
    end = time.monotonic() + PATIENCE
    while SIMULATED_CLASS.encode() not in real.ask(claim).body and time.monotonic() < end:
        time.sleep(0.05)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kubernetes, and Shoal."""
    peer = Peer(tmp_path_factory.mktemp("peer"))
    try:
        peer.start()
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as directory:
            server = Server(Path(directory), root_profile="cluster")
            server.call(server.shoal._controllers.stop())
            real = Side("127.0.0.1", peer.port, peer.token)
            _default_class(real)
            yield real, Side("127.0.0.1", server.port, server.token)
            server.stop()
    finally:
        for process in peer.processes.values():
            process.kill()
        for process in peer.processes.values():
            process.wait()


def stories() -> list[Story]:
    chosen = os.environ.get("SHOAL_PAIRS", "")
    found = [*written.stories(), *kinds.stories(), *generated.stories()]
    return [kinds.preparation(), *(story for story in found if chosen in story.name)]


def test_nobody_can_tell_them_apart(sides: tuple[Side, Side]) -> None:
    told = stories()
    with ThreadPoolExecutor(2) as pool:
        real, ours = pool.map(lambda side: side.tell(told), sides)
    found = judged(told, real, ours)
    print(found.summary)
    assert not found.unexplained, f"{len(found.unexplained)} differences:\n" + "\n".join(map(str, found.unexplained))
    if not os.environ.get("SHOAL_PAIRS"):
        assert found.pairs >= LEAST
        assert found.unused == [], "these allowances cover nothing any more"
