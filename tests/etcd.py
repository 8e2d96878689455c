"""A real etcd for tests: found on PATH or among the programs built for them, started and stopped by us."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.servers import free_port
from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.store.etcd import EtcdSettings
from tests.certificates import issue_client, signer_in
from tests.real.building import built

_prefixes = itertools.count(1)


def etcd_program() -> Path:
    """Or the test is not run, and says so."""
    found = built("etcd") or shutil.which("etcd")
    if not found:
        pytest.skip("etcd (no etcd on PATH; make real builds one)")
    return Path(found)


class Etcd:
    """One member. It can be stopped and started again on its data, or without them."""

    def __init__(self, directory: Path, *arguments: str, scheme: str = "http") -> None:
        self.directory = directory
        self.port, self.peer_port = free_ports(2)
        self.endpoint = f"{scheme}://127.0.0.1:{self.port}"
        self.arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        peer = f"http://127.0.0.1:{self.peer_port}"
        with (self.directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(etcd_program()), "--data-dir", str(self.directory / "data")),
                    *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}", "--unsafe-no-fsync", *self.arguments),
                ],
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60
        while wait and not self._listens():
            assert self._process.poll() is None, (self.directory / "etcd.log").read_text()[-2000:]
            assert time.monotonic() < end, "etcd did not start"
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(30)

    def pause(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def wipe(self) -> None:
        shutil.rmtree(self.directory / "data")

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"{self.endpoint}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        raise AssertionError(f"etcd has no metric {name}")

    def settings(self, **more: object) -> EtcdSettings:
        """Of a prefix nobody else uses."""
        return EtcdSettings((self.endpoint,), **{"prefix": f"/t{next(_prefixes)}", **more})  # type: ignore[arg-type]

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False


@contextmanager
def running_etcd(*arguments: str, scheme: str = "http") -> Iterator[Etcd]:
    with tempfile.TemporaryDirectory(prefix="shoal-etcd-") as directory:
        etcd = Etcd(Path(directory), *arguments, scheme=scheme)
        etcd.start()
        try:
            yield etcd
        finally:
            etcd.stop()


@contextmanager
def guarded_etcd(directory: Path) -> Iterator[tuple[Etcd, CertificateAuthority]]:
    """One that speaks TLS and wants a certificate of its own authority."""
    authority = CertificateAuthority(directory / "pki")
    authority.ensure_serving_certificate(["127.0.0.1"])
    pem, trusted = str(directory / "pki" / "serving.pem"), str(directory / "pki" / "ca.crt")
    flags = ("--cert-file", pem, "--key-file", pem, "--client-cert-auth", "--trusted-ca-file", trusted)
    with running_etcd(*flags, scheme="https") as etcd:
        yield etcd, authority


def client_files(authority: CertificateAuthority, directory: Path) -> dict[str, Path]:
    issued = issue_client(signer_in(authority.directory), "shoal")
    files = {"cert_file": directory / "client.crt", "key_file": directory / "client.key"}
    files["cert_file"].write_bytes(issued.certificate)
    files["key_file"].write_bytes(issued.key)
    return files


def free_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
