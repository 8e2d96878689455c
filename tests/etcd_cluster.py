"""An etcd cluster of three for tests; its members can be killed and started again one by one."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.etcd import Etcd

SIZE = 3
HANG = 120.0


class EtcdCluster:
    def __init__(self, directory: Path) -> None:
        self.members: list[Etcd] = []
        for number in range(SIZE):
            (directory / str(number)).mkdir()
            self.members.append(Etcd(directory / str(number)))
        peers = ",".join(f"m{number}={peer_url(member)}" for number, member in enumerate(self.members))
        for number, member in enumerate(self.members):
            # Of a flag that is given twice the last one counts.
            member.arguments = ("--name", f"m{number}", "--initial-cluster", peers)

    @property
    def endpoints(self) -> str:
        return ",".join(member.endpoint for member in self.members)

    def start(self) -> None:
        for member in self.members:
            member.start(wait=False)
        for member in self.members:
            self.wait(member)

    def wait(self, member: Etcd) -> None:
        """Until it serves, which needs a leader."""
        end = time.monotonic() + HANG
        while not _healthy(member):
            assert time.monotonic() < end, (member.directory / "etcd.log").read_text()[-2000:]
            time.sleep(0.05)

    def stop(self) -> None:
        for member in self.members:
            member.stop()


def peer_url(member: Etcd) -> str:
    return f"http://127.0.0.1:{member.peer_port}"


def _healthy(member: Etcd) -> bool:
    try:
        with urllib.request.urlopen(f"{member.endpoint}/health", timeout=2) as answer:
            return bool(json.load(answer)["health"] == "true")
    except OSError:
        return False


@contextmanager
def running_etcd_cluster() -> Iterator[EtcdCluster]:
    with tempfile.TemporaryDirectory(prefix="shoal-etcd-") as directory:
        cluster = EtcdCluster(Path(directory))
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
