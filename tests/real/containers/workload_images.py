"""Small images that tests deploy: a shell with the usual commands, a web server, and agnhost.

The web server has the name of nginx, which the examples ask for, and is that of busybox.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.real.containers import image_archive
from tests.real.containers.artifacts import Artifact, program, run
from tests.real.containers.rootfs import UNPACKED

BUSYBOX = "docker.io/library/busybox:1.37"
NGINX = "docker.io/library/nginx:1.27"
AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"


def with_shell(folder: Path) -> None:
    """busybox and a link for each of its commands, in /bin of a layer."""
    busybox = UNPACKED.path / "bin/busybox"
    image_archive.place(busybox, folder / "bin/busybox")
    for name in run(busybox, "--list").split():
        if name != "busybox":
            (folder / "bin" / name).symlink_to("busybox")
    for name in ("etc", "root", "tmp"):
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    (folder / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def with_page(folder: Path) -> None:
    pages = folder / "usr/share/nginx/html"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text("<h1>Welcome</h1>\n")


def image(
    names: Sequence[str],
    programs: dict[str, str],
    config: dict[str, Any],
    *fill: Callable[[Path], None],
) -> Callable[[Path], None]:
    """Makes an archive of the Go programs given by the paths they get, and of what `fill` adds."""

    def make(archive: Path) -> None:
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="image-") as scratch:
            folder = Path(scratch) / "layer"
            folder.mkdir()
            for path, name in programs.items():
                image_archive.place(program(name), folder / path)
            for each in fill:
                each(folder)
            image_archive.write(archive, names, [folder], config)

    return make


SHELL_RECIPE = "busybox with links, passwd, group, tmp"
SERVER = {"Cmd": ["httpd", "-f", "-v", "-p", "80", "-h", "/usr/share/nginx/html"], "StopSignal": "SIGKILL"}
busybox = Artifact(
    "busybox.tar", f"{BUSYBOX} {SHELL_RECIPE}", image([BUSYBOX], {}, {"Cmd": ["sh"]}, with_shell), parts=(UNPACKED,)
)
nginx = Artifact(
    "nginx.tar",
    f"{NGINX} {SERVER} {SHELL_RECIPE}",
    image([NGINX], {}, SERVER, with_shell, with_page),
    parts=(UNPACKED,),
)
agnhost = Artifact(
    "agnhost.tar",
    f"{AGNHOST} {SHELL_RECIPE}",
    image([AGNHOST], {"agnhost": "agnhost"}, {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}, with_shell),
    parts=(UNPACKED,),
    programs=("agnhost",),
)
