"""Writes a directory for KUBEBUILDER_ASSETS: `kube-apiserver` and `etcd`, which start Shoal, and a kubectl if one is
found.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

KUBE_APISERVER = "kube-apiserver"
ETCD = "etcd"


def write_assets(directory: Path, kubectl: str | None = None) -> list[str]:
    """Returns the names of the written files. `kubectl` is the path of one; the default is that of PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    etcd = Path(__file__).with_name("etcd.py")
    written = [
        _write_launcher(directory / KUBE_APISERVER, [sys.executable, "-m", "shoal.assemble.envtest"]),
        # Without site packages it starts in a twentieth of a second.
        _write_launcher(directory / ETCD, [sys.executable, "-I", "-S", str(etcd)]),
    ]
    kubectl_path = kubectl or shutil.which("kubectl")
    if kubectl_path is not None and Path(kubectl_path).resolve() != (directory / "kubectl").resolve():
        link = directory / "kubectl"
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.abspath(kubectl_path))
        written.append("kubectl")
    return written


def _write_launcher(file: Path, command: list[str]) -> str:
    text = f'#!/bin/sh\n# Written by shoal envtest.\nexec {shlex.join(command)} "$@"\n'
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o755)
    # Atomic: a suite that starts meanwhile finds the old file or the new one.
    draft.replace(file)
    return file.name
