"""Programs of the outside world, built by name from the Go modules below `peers/`.

They go into a cache outside the tree ($SHOAL_PEERS, else ~/.cache/shoal/bin), each with a stamp of the module
file it came from, and are built anew only when that changed. As a command: builds the names given, as far as
there is a Go, and fails for those that SHOAL_REQUIRE (a comma list) asks for and this machine cannot have.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Program:
    module: str
    package: str
    version: str
    is_test: bool = False
    tags: str = ""

    @property
    def stamp(self) -> str:
        files = [
            file.read_bytes() for file in sorted((MODULES / self.module).iterdir()) if file.suffix in (".mod", ".go")
        ]
        return f"{self.version} {hashlib.sha256(b''.join(files)).hexdigest()}\n"


def _kubernetes(package: str, *, is_test: bool = False) -> Program:
    return Program("kubernetes", f"k8s.io/kubernetes/{package}", "v1.36.4", is_test)


def _node(package: str) -> Program:
    """Of the node image of tests/real/containers."""
    return Program("node", f"k8s.io/kubernetes/{package}", "v1.36.4")


def _containerd(name: str) -> Program:
    package = f"github.com/containerd/containerd/v2/cmd/{name}"
    return Program("containerd", package, "v2.4.2", tags="no_btrfs no_devmapper no_zfs no_aufs")


def _suite(package: str) -> Program:
    """Of controller-runtime; each starts an API server by envtest."""
    return Program("controllerruntime", f"sigs.k8s.io/controller-runtime/pkg/{package}", "v0.24.1", is_test=True)


SUITES = ("builder", "client", "controller", "webhook")
"""Of controller-runtime's, those that `make real` runs."""

PROGRAMS = {
    **{f"controllerruntime-{name}.test": _suite(name) for name in SUITES},
    "agnhost": _node("test/images/agnhost"),
    "capi": Program("capi", "shoal.dev/peers/capi", "v1.14.2"),
    "cel": Program("cel", "shoal.dev/peers/cel", "v1.36.4"),
    "clientgo": Program("clientgo", "shoal.dev/peers/clientgo", "v0.36.4"),
    "clusterctl": Program("capi", "sigs.k8s.io/cluster-api/cmd/clusterctl", "v1.14.2"),
    "containerd": _containerd("containerd"),
    "containerd-shim-runc-v2": _containerd("containerd-shim-runc-v2"),
    "coredns": Program("coredns", "shoal.dev/peers/coredns", "v1.14.7"),
    "crictl": Program("critools", "sigs.k8s.io/cri-tools/cmd/crictl", "v1.36.0"),
    "ctr": _containerd("ctr"),
    "e2e.test": _kubernetes("test/e2e", is_test=True),
    "etcd": Program("etcd", "shoal.dev/peers/etcd", "v3.5.21"),
    "etcd-3.6": Program("etcd36", "shoal.dev/peers/etcd36", "v3.6.16"),
    "flux": Program("flux", "shoal.dev/peers/flux", "v0.76.2"),
    "helm3": Program("helm", "helm.sh/helm/v3/cmd/helm", "v3.21.4"),
    "helm4": Program("helm", "helm.sh/helm/v4/cmd/helm", "v4.2.4"),
    "karpenter": Program("karpenter", "shoal.dev/peers/karpenter", "v1.14.1"),
    "kind": Program("kind", "sigs.k8s.io/kind", "v0.33.0"),
    "kube-apiserver": _kubernetes("cmd/kube-apiserver"),
    "kube-controller-manager": _kubernetes("cmd/kube-controller-manager"),
    "kube-proxy": _node("cmd/kube-proxy"),
    "kube-scheduler": _kubernetes("cmd/kube-scheduler"),
    "kubeadm": _node("cmd/kubeadm"),
    "kubectl": _kubernetes("cmd/kubectl"),
    "kubelet": _node("cmd/kubelet"),
    "local-path-provisioner": Program("localpath", "github.com/rancher/local-path-provisioner", "v0.0.30"),
    "nats-server": Program("nats", "github.com/nats-io/nats-server/v2", "v2.15.2"),
    "pause": Program("pause", "shoal.dev/peers/pause", ""),
    "runc": Program("runc", "shoal.dev/peers/runc", ""),
}


def cache() -> Path:
    return Path(os.environ.get("SHOAL_PEERS") or Path.home() / ".cache/shoal/bin").absolute()


def built(name: str) -> Path | None:
    """The program, if the cache has it as the module file asks for it."""
    file = cache() / name
    stamp = cache() / f"{name}.stamp"
    fresh = os.access(file, os.X_OK) and stamp.is_file() and stamp.read_text() == PROGRAMS[name].stamp
    return file if fresh else None


def program(name: str) -> Path | None:
    """From the cache, else from PATH; never builds."""
    found = built(name) if name in PROGRAMS else None
    on_path = shutil.which(name)
    return found or (Path(on_path) if on_path else None)


def build(name: str) -> bool:
    wanted = PROGRAMS[name]
    target = cache() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"building {name} {wanted.version} (minutes, the first time)", flush=True)
    flags = ["-ldflags", f"-s -w -X k8s.io/component-base/version.gitVersion={wanted.version}"]
    verb = ["test", "-c"] if wanted.is_test else ["build"]
    unfinished = target.with_name(f"{name}.{os.getpid()}.new")
    flags += ["-tags", wanted.tags] if wanted.tags else []
    # -mod=readonly: what is built is what go.sum has.
    done = subprocess.run(
        ["go", *verb, "-mod=readonly", *flags, "-o", str(unfinished), wanted.package],
        cwd=MODULES / wanted.module,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        check=False,
    )
    if done.returncode == 0:
        unfinished.replace(target)
        target.with_name(f"{name}.stamp").write_text(wanted.stamp)
    return done.returncode == 0


def main(names: list[str]) -> int:
    for name in names:
        if built(name) is None and shutil.which("go") is None:
            print(f"NOT RUN: go (to build {name})")
        elif built(name) is None and not build(name):
            print(f"NOT RUN: {name} (its build failed)")
    required = [name for name in os.environ.get("SHOAL_REQUIRE", "").split(",") if name]
    missing = [name for name in required if program(name) is None]
    for name in missing:
        print(f"error: SHOAL_REQUIRE asks for {name}, and it is not here", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
