"""The images of a control plane as kubeadm names them, each of one static Go program."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.real.containers.artifacts import Failure, program, run
from tests.real.containers.workload_images import BUSYBOX, image, nginx, with_shell

VERSION = "v1.36.4"
PROGRAMS = {
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-proxy": "kube-proxy",
    "kube-scheduler": "kube-scheduler",
    "etcd": "etcd-3.6",
    "coredns": "coredns",
    "pause": "pause",
}
"""By the last word of the image's name."""
NEEDED = (*PROGRAMS.values(), "local-path-provisioner", "kubeadm")
TABLES = ("usr/sbin/xtables-legacy-multi", "usr/sbin/xtables-nft-multi", "usr/sbin/nft", "usr/sbin/conntrack")
"""What kube-proxy calls."""
LIBRARY = re.compile(r"(/\S+) \(0x")


def archives(folder: Path, node_rootfs: Path, kind_module: Path) -> Iterator[Path]:
    """The images that a node has from the beginning, written one by one."""
    for name in run(program("kubeadm"), "config", "images", "list", "--kubernetes-version", VERSION).split():
        last = name.rpartition("/")[2].partition(":")[0]
        if last not in PROGRAMS:
            raise Failure(f"no program is known for the image {name}")
        yield _archive(folder, [name, *_sandbox(last, kind_module)], last, node_rootfs)
    provisioner, helper = storage_images(kind_module)
    file = folder / "local-path-provisioner.tar"
    image([provisioner], {"usr/local/bin/local-path-provisioner": "local-path-provisioner"}, {})(file)
    yield file
    file = folder / "busybox.tar"
    image([helper, BUSYBOX], {}, {"Cmd": ["sh"]}, with_shell)(file)
    yield file
    yield nginx.path


def storage_images(kind_module: Path) -> tuple[str, str]:
    text = _storage(kind_module)
    return _constant(text, "storageProvisionerImage"), _constant(text, "storageHelperImage")


def storage_manifest(kind_module: Path) -> str:
    """As kind writes it into a node image."""
    text = _storage(kind_module)
    _, _, manifest = text.partition("const defaultStorageManifest = `")
    for name in ("storageProvisionerImage", "storageHelperImage"):
        manifest = manifest.replace(f"` + {name} + `", _constant(text, name))
    return manifest.rpartition("`")[0]


def _storage(kind_module: Path) -> str:
    return (kind_module / "pkg/build/nodeimage/const_storage.go").read_text()


def _constant(text: str, name: str) -> str:
    found = re.search(rf'{name} = "([^"]+)"', text)
    if found is None:
        raise Failure(f"kind's module does not have {name} where it was")
    return found[1]


def _sandbox(last: str, kind_module: Path) -> list[str]:
    """The further name of pause: the configuration of containerd that kind has names an image of its own."""
    if last != "pause":
        return []
    config = (kind_module / "images/base/files/etc/containerd/config.toml").read_text()
    found = re.search(r'sandbox_image = "([^"]+)"', config)
    return [found[1]] if found else []


def _archive(folder: Path, names: list[str], last: str, node_rootfs: Path) -> Path:
    file = folder / f"{last}.tar"
    if last in ("pause", "coredns"):
        image(names, {last: PROGRAMS[last]}, {"Entrypoint": [f"/{last}"]})(file)
    elif last == "kube-proxy":
        image(names, {f"usr/local/bin/{last}": last}, {}, lambda layer: _with_tables(layer, node_rootfs))(file)
    else:
        image(names, {f"usr/local/bin/{last}": PROGRAMS[last]}, {})(file)
    return file


def _with_tables(layer: Path, node_rootfs: Path) -> None:
    """iptables, nft and conntrack of the node's Debian, with the libraries they load."""
    files = [*TABLES, *(str(file.relative_to(node_rootfs)) for file in node_rootfs.glob("usr/lib/*/xtables/*.so"))]
    loaded = LIBRARY.findall(run("chroot", node_rootfs, "ldd", *(f"/{name}" for name in files)))
    for name in sorted({*files, *(path.removeprefix("/") for path in loaded)}):
        (layer / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(node_rootfs / name, layer / name)
    for family in ("iptables", "ip6tables"):
        for verb in ("", "-save", "-restore"):
            (layer / "usr/sbin" / f"{family}{verb}").symlink_to("xtables-nft-multi")
    for folder in ("etc", "run", "tmp"):
        (layer / folder).mkdir()
