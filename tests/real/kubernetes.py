"""A whole Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench.peer import KubeApiserver
from bench.servers import free_port
from tests.real.building import program

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
missing = [name for name in PROGRAMS if program(name) is None]
needs_kubernetes = pytest.mark.skipif(bool(missing), reason=f"Kubernetes (no {', no '.join(missing)})")


class Kubernetes(KubeApiserver):
    def __init__(self, directory: Path) -> None:
        found = {name: file for name in PROGRAMS if (file := program(name)) is not None}
        super().__init__(directory, found)
        self.kubeconfig = directory / "kubeconfig"

    def start(self) -> float:
        took = super().start()
        self.kubeconfig.write_text(yaml.safe_dump(self._config()))
        for name in ("kube-controller-manager", "kube-scheduler"):
            flags = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", f"--secure-port={free_port()}"]
            flags += ["--bind-address=127.0.0.1", f"--cert-dir={self.directory / name}"]
            if name == "kube-controller-manager":
                flags.append(f"--root-ca-file={self.directory / 'certs' / 'apiserver.crt'}")
            self.launch(name, [str(program(name)), *flags])
        return took

    def stop(self) -> None:
        """At once: nobody reads its data again, and a polite kube-apiserver takes a minute over its open watches."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()

    def _config(self) -> dict[str, object]:
        authority = (self.directory / "certs" / "apiserver.crt").read_text()
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": "certs/apiserver.crt"}
        assert authority
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
