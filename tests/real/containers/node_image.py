"""The node image of kind, from Debian, kind's own files, and Go modules.

kind's files are read from its module, as `kind build node-image` and its base image have them. What kindnetd does
there, a unit of each node does here. The runc of the node is wrapped as that of the engine is (peers/runc).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.building import MODULES
from tests.real.containers import control_plane, image_archive
from tests.real.containers.artifacts import Artifact, Failure, program, run
from tests.real.containers.control_plane import VERSION
from tests.real.containers.rootfs import UNPACKED, rootfs
from tests.real.containers.workload_images import nginx

NAME = f"kindest/node:{VERSION}"
OWN = Path(__file__).parent / "node"
ROOTFS = rootfs(
    "node-rootfs",
    "bookworm",
    (
        *("systemd", "dbus", "kmod", "procps", "e2fsprogs", "pigz", "jq", "curl", "ca-certificates", "socat"),
        *("iproute2", "iptables", "nftables", "conntrack", "ethtool", "containernetworking-plugins"),
        *("runc", "libseccomp2"),
    ),
)
PROGRAMS = {
    "usr/bin/kubeadm": "kubeadm",
    "usr/bin/kubectl": "kubectl",
    "usr/bin/kubelet": "kubelet",
    "usr/local/bin/containerd": "containerd",
    "usr/local/bin/containerd-shim-runc-v2": "containerd-shim-runc-v2",
    "usr/local/bin/crictl": "crictl",
    "usr/local/bin/ctr": "ctr",
    "usr/local/sbin/runc": "runc",
}
UNITS = ("containerd", "kubelet", "pod-network", "undo-mount-hacks")
"""Those that start; everything else that Debian's packages enable does not."""
NO_WANTS = (
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/multi-user.target.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
)
CNI_PLUGINS = ("host-local", "loopback", "portmap", "ptp")


def _kind_module() -> Path:
    """Where Go keeps the source of kind."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", "sigs.k8s.io/kind"],
        cwd=MODULES / "kind",
        env=os.environ | {"GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failure(f"the module of kind cannot be had: {done.stderr.strip()[-200:]}")
    return Path(json.loads(done.stdout)["Dir"])


def _make(archive: Path) -> None:
    module = _kind_module()
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="node-") as scratch:
        debian, layer, images = (Path(scratch) / name for name in ("debian", "layer", "images"))
        run("cp", "-a", "--reflink=auto", ROOTFS.path, debian)
        _without_services(debian)
        _kind_files(module / "images/base/files", layer)
        _configure(layer, module)
        for path, name in PROGRAMS.items():
            image_archive.place(program(name), layer / path)
        for name in CNI_PLUGINS:
            _copy(ROOTFS.path / "usr/lib/cni" / name, layer / "opt/cni/bin" / name, 0o755)
        _import_images(Path(scratch), images, module)
        config = {
            "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
            "Env": [f"PATH={image_archive.PATH}", "container=docker"],
            "StopSignal": "SIGRTMIN+3",
        }
        image_archive.write(archive, [NAME], [debian, layer, images], config)


def _without_services(debian: Path) -> None:
    for pattern in NO_WANTS:
        for link in debian.glob(pattern):
            link.unlink()
    for name in (debian / "usr/lib/cni").iterdir():
        name.unlink()
    # Each node makes one; they would all make it from this.
    (debian / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    (debian / "usr/sbin/init").unlink(missing_ok=True)
    (debian / "usr/sbin/init").symlink_to("/usr/lib/systemd/systemd")
    with (debian / "etc/systemd/journald.conf").open("a") as file:
        file.write("ReadKMsg=no\n")


def _kind_files(files: Path, layer: Path) -> None:
    for file in sorted(files.rglob("*")):
        name = file.relative_to(files)
        if file.is_file() and name.parts[0] != "LICENSES":
            _copy(file, layer / name, 0o755 if "bin" in name.parts else 0o644)


def _copy(file: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
    target.chmod(mode)


def _configure(layer: Path, module: Path) -> None:
    (layer / "kind/version").write_text(VERSION)
    (layer / "kind/manifests").mkdir()
    (layer / "kind/manifests/default-storage.yaml").write_text(control_plane.storage_manifest(module))
    _copy(OWN / "default-cni.yaml", layer / "kind/manifests/default-cni.yaml", 0o644)
    _copy(OWN / "pod-network.sh", layer / "usr/local/bin/pod-network", 0o755)
    units = layer / "etc/systemd/system"
    _copy(OWN / "pod-network.service", units / "pod-network.service", 0o644)
    (units / "multi-user.target.wants").mkdir()
    for name in UNITS:
        (units / "multi-user.target.wants" / f"{name}.service").symlink_to(f"/etc/systemd/system/{name}.service")
    (units / "systemd-binfmt.service").symlink_to("/dev/null")
    # The kubelet refuses cgroup v1 unless it is told otherwise.
    kubelet = layer / "etc/default/kubelet"
    kubelet.write_text(f"{kubelet.read_text().strip()} --fail-cgroupv1=false\n")
    (layer / "etc/kubernetes/manifests").mkdir(parents=True)
    spec = json.loads(run(program("ctr"), "oci", "spec"))
    del spec["process"]["rlimits"]
    hooks = spec.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    (layer / "etc/containerd/cri-base.json").write_text(json.dumps(spec))


def _import_images(scratch: Path, images: Path, module: Path) -> None:
    """Into the content store that the node's containerd begins with; each is unpacked when it is first used."""
    root = images / "var/lib/containerd"
    root.mkdir(parents=True)
    with _containerd(scratch, root) as socket:
        for archive in control_plane.archives(scratch, ROOTFS.path, module):
            imported = ("images", "import", "--label=io.cri-containerd.pinned=pinned", "--all-platforms", "--no-unpack")
            run(program("ctr"), "--address", socket, "--namespace=k8s.io", *imported, "--digests", archive)
            if archive.is_relative_to(scratch):
                archive.unlink()


@contextmanager
def _containerd(scratch: Path, root: Path) -> Iterator[Path]:
    socket, config, log = scratch / "containerd.sock", scratch / "config.toml", scratch / "containerd.log"
    disabled = ("cri.v1.images", "cri.v1.runtime", "grpc.v1.cri", "nri.v1.nri")
    config.write_text(
        f'version = 3\nroot = "{root}"\nstate = "{scratch / "state"}"\n'
        f"disabled_plugins = {json.dumps([f'io.containerd.{name}' for name in disabled])}\n"
        f'[grpc]\naddress = "{socket}"\n[ttrpc]\naddress = "{socket}.ttrpc"\n'
    )
    with log.open("w") as said:
        process = subprocess.Popen([program("containerd"), "--config", config], stdout=said, stderr=said)
    try:
        for _ in range(600):
            if socket.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        if process.poll() is not None or not socket.exists():
            raise Failure(f"containerd did not start: {log.read_text()[-400:]}")
        yield socket
    finally:
        process.terminate()
        process.wait()


def _text(*files: Path) -> str:
    return "\n".join(file.read_text() for file in files)


HERE = Path(__file__).parent
node_image = Artifact(
    "node.tar",
    _text(
        *(HERE / name for name in ("node_image.py", "control_plane.py", "workload_images.py", "image_archive.py")),
        *sorted(OWN.iterdir()),
        MODULES / "kind/go.mod",
    ),
    _make,
    parts=(ROOTFS, UNPACKED, nginx),
    programs=(*dict.fromkeys((*PROGRAMS.values(), *control_plane.NEEDED)),),
)
