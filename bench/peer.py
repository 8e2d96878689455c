"""kube-apiserver with etcd, as far as this machine has them; both with their default durability and limits."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.servers import START_SECONDS, Failed, Server, free_port

PROGRAMS = ("kube-apiserver", "etcd")


def find_programs() -> dict[str, Path] | None:
    """Both programs, or None: in $SHOAL_PEERS, then ~/.cache/shoal/bin, then PATH."""
    places = [os.environ.get("SHOAL_PEERS", ""), str(Path.home() / ".cache/shoal/bin"), os.environ.get("PATH", "")]
    path = os.pathsep.join(place for place in places if place)
    found = {program: shutil.which(program, path=path) for program in PROGRAMS}
    return {program: Path(file) for program, file in found.items() if file} if all(found.values()) else None


def versions(programs: dict[str, Path]) -> str:
    said = [subprocess.run([file, "--version"], capture_output=True, text=True).stdout for file in programs.values()]
    return ", ".join(text.splitlines()[0] if text else "unknown" for text in said)


class KubeApiserver(Server):
    name = "kube-apiserver"

    def __init__(self, directory: Path, programs: dict[str, Path]) -> None:
        super().__init__(directory)
        self._programs = programs
        self._etcd_port = self._peer_port = 0
        self.token = secrets.token_hex(16)
        (directory / "tokens.csv").write_text(f'{self.token},admin,1,"system:masters"\n')
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (directory / "accounts.key").write_bytes(key.private_bytes(private, form, serialization.NoEncryption()))
        public = key.public_key().public_bytes(private, serialization.PublicFormat.SubjectPublicKeyInfo)
        (directory / "accounts.pub").write_bytes(public)

    def start(self) -> float:
        self.port = self.port or free_port()
        self._etcd_port = self._etcd_port or free_port()
        self._peer_port = self._peer_port or free_port()
        began = time.perf_counter()
        # The server itself comes first in `processes`: it is stopped before what it stores into.
        self._start_etcd()
        self.launch("kube-apiserver", self._apiserver_command())
        self.processes["etcd"] = self.processes.pop("etcd")
        self.wait_ready()
        return time.perf_counter() - began

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        command = [str(self._programs["etcd"]), "--name=bench", f"--data-dir={self.directory / 'etcd'}"]
        command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        command += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        self.launch("etcd", [*command, f"--initial-cluster=bench={peer}", "--log-level=warn"])
        self._wait_etcd()

    def _wait_etcd(self) -> None:
        """Its port, before the API server is started: that one's retries would be counted as its own slowness."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if _accepts(self._etcd_port):
                return
            if self.processes["etcd"].poll() is not None:
                break
            time.sleep(0.005)
        raise Failed("etcd did not start")

    def _apiserver_command(self) -> list[str]:
        directory = self.directory
        return [
            str(self._programs["kube-apiserver"]),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={directory / 'certs'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'accounts.pub'}",
            f"--service-account-signing-key-file={directory / 'accounts.key'}",
            "--disable-admission-plugins=ServiceAccount",
        ]


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
