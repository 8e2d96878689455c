"""kube-apiserver with etcd, as far as this machine has them; both with their default durability and limits."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.etcd import EtcdProcess
from bench.servers import Server, free_port

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
        self._etcd = EtcdProcess(programs["etcd"], self)
        self.token = secrets.token_hex(16)
        (directory / "tokens.csv").write_text(f'{self.token},admin,1,"system:masters"\n')
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (directory / "accounts.key").write_bytes(key.private_bytes(private, form, serialization.NoEncryption()))
        public = key.public_key().public_bytes(private, serialization.PublicFormat.SubjectPublicKeyInfo)
        (directory / "accounts.pub").write_bytes(public)

    def start(self) -> float:
        self.port = self.port or free_port()
        began = time.perf_counter()
        with self._etcd.first():
            self.launch("kube-apiserver", self._apiserver_command())
        self.wait_ready()
        return time.perf_counter() - began

    def _apiserver_command(self) -> list[str]:
        directory = self.directory
        return [
            str(self._programs["kube-apiserver"]),
            f"--etcd-servers={self._etcd.endpoint}",
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
