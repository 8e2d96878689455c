"""kube-apiserver with etcd, alone or with controllers and scheduler, as far as this machine has them.

All with their default durability and limits, but for how much controllers and scheduler may ask.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.etcd import EtcdProcess
from bench.place import BenchTarget
from bench.servers import BenchServer, free_port

PROGRAMS = ("kube-apiserver", "etcd")
QPS, BURST = 10_000, 20_000
"""What real clients are limited to: as good as nothing."""


def find_programs(names: tuple[str, ...] = PROGRAMS) -> dict[str, Path] | None:
    """All of them, or None: in $SHOAL_PEERS, then ~/.cache/shoal/bin, then PATH."""
    places = [os.environ.get("SHOAL_PEERS", ""), str(Path.home() / ".cache/shoal/bin"), os.environ.get("PATH", "")]
    path = os.pathsep.join(place for place in places if place)
    found = {program: shutil.which(program, path=path) for program in names}
    return {program: Path(file) for program, file in found.items() if file} if all(found.values()) else None


def versions(programs: dict[str, Path]) -> str:
    said = [subprocess.run([file, "--version"], capture_output=True, text=True).stdout for file in programs.values()]
    return ", ".join(text.splitlines()[0] if text else "unknown" for text in said)


class KubeApiserver(BenchServer):
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


class Kubernetes(KubeApiserver):
    """A whole control plane."""

    name = "Kubernetes"
    PROGRAMS = (*PROGRAMS, "kube-controller-manager", "kube-scheduler")

    def start(self) -> float:
        took = super().start()
        kubeconfig = BenchTarget(self).kubeconfig(self.directory / "kubeconfig")
        serving = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        limits = [f"--kube-api-qps={QPS}", f"--kube-api-burst={BURST}"]
        self.launch("kube-controller-manager", [str(self._programs["kube-controller-manager"]), *serving, *limits])
        self.launch("kube-scheduler", scheduler_command(self._programs["kube-scheduler"], kubeconfig))
        return took


def scheduler_command(program: Path, kubeconfig: Path, name: str = "default-scheduler") -> list[str]:
    """Of a kube-scheduler for the pods that ask for that name."""
    config = kubeconfig.with_name("kube-scheduler.yaml")
    asked = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": BURST},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
    }
    config.write_text(yaml.safe_dump(asked))
    return [str(program), f"--config={config}", "--secure-port=0"]
