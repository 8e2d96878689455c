"""A container engine: the one that answers, else one of our own, started from unpacked packages of Debian.

Our own keeps its data, socket, pid file and log below `engine` in the cache, so it leaves an installed Docker alone.
It pulls nothing, and networks made in it, such as kind's, do not lead out of this machine: before a node has the
rules of kube-proxy, what its pods send to Services would leave. It makes the bridges and firewall rules that Docker
makes; ending it removes the bridges.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.real import building
from tests.real.containers import image_archive
from tests.real.containers.artifacts import Absent, Artifact, Failure, cache, program, remove, run
from tests.real.containers.rootfs import UNPACKED

TABLES = [f"{family}{verb}" for family in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")]
SYS_RESOURCE = 24
"""The number of the capability."""
NOWHERE = "http://127.0.0.1:9"
START_SECONDS = 120
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
ROUTES = Path("/proc/net/route")


@dataclass(frozen=True)
class Engine:
    host: str
    """Empty: where docker looks by itself."""

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that shall find this engine, and docker, kind and kubectl on its PATH."""
        return {
            "PATH": f"{_links()}{os.pathsep}{os.environ['PATH']}",
            **({"DOCKER_HOST": self.host} if self.host else {}),
        }

    def docker(self, *args: str | Path) -> str:
        environment = self.environment
        client = shutil.which("docker", path=environment["PATH"])
        if client is None:
            raise Absent("docker (the client)")
        return run(client, *args, env=environment)

    @property
    def answers(self) -> bool:
        try:
            return bool(json.loads(self.docker("version", "--format", "{{json .Server}}")))
        except (Absent, Failure):
            return False

    def load(self, image: Artifact, name: str) -> None:
        """An image into the engine, unless it has it."""
        with suppress(Failure):
            if self.docker("image", "inspect", "--format", "{{.Id}}", name).strip() == image_archive.image_id(
                image.path
            ):
                return
        start = time.monotonic()
        self.docker("load", "--quiet", "--input", image.path)
        print(f"loaded {name} in {time.monotonic() - start:.0f} s", flush=True)


def folder() -> Path:
    return cache() / "engine"


def own() -> Engine:
    return Engine(f"unix://{folder() / 'docker.sock'}")


def found() -> Engine | None:
    """The engine that answers: that of DOCKER_HOST or of this machine, or our own if it runs."""
    engines = [Engine(os.environ.get("DOCKER_HOST", "")), own()]
    return next((engine for engine in engines if engine.answers), None)


@contextmanager
def running() -> Iterator[Engine]:
    """One that was started here ends with this; one that ran before goes on."""
    answering = found()
    if answering is not None:
        yield answering
        return
    process = start()
    try:
        yield own()
    finally:
        stop(process)


def lacks() -> str:
    """Why our own engine cannot run here; nothing when it can."""
    if os.geteuid() != 0:
        return "a container engine that answers, or root to start one"
    if not Path("/sys/fs/cgroup").is_mount():
        return "control groups (/sys/fs/cgroup is not mounted)"
    missing = [name for name in ("apt-get", "dpkg", "ip") if shutil.which(name) is None]
    return f"a container engine that answers, or {missing[0]} to start one" if missing else ""


def start() -> subprocess.Popen[bytes]:
    lack = lacks()
    if lack:
        raise Absent(lack)
    UNPACKED.build()
    home = folder()
    home.mkdir(parents=True, exist_ok=True)
    # A pid file of an engine that was killed would be taken for that of whoever has the number now.
    remove(home / "docker.pid")
    # An engine that has to turn forwarding on also makes the firewall drop what others on this machine forward.
    FORWARDING.write_text("1")
    environment = _environment(home)
    dockerd = shutil.which("dockerd", path=environment["PATH"])
    if dockerd is None:
        raise Absent("dockerd (the package docker.io has none)")
    command = [
        *(dockerd, "--host", own().host, "--pidfile", home / "docker.pid", "--oom-score-adjust", "0"),
        *("--data-root", home / "data", "--exec-root", home / "exec"),
        *(("--add-runtime", f"wrapped={program('runc')}", "--default-runtime", "wrapped") if _is_bounded() else ()),
    ]
    with (home / "dockerd.log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    end = time.monotonic() + START_SECONDS
    while not own().answers:
        if process.poll() is not None or time.monotonic() > end:
            stop(process)
            raise Absent(f"a container engine (dockerd did not start: {_last_line(home / 'dockerd.log')})")
        time.sleep(0.2)
    _enclose("-I")
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(Failure):
            _enclose("-D")
        _remove_networks()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    _unmount()
    # It is docker's name for the bridge of the default network, which no network command removes.
    with suppress(Failure):
        if found() is None:
            run("ip", "link", "delete", "docker0")


def _remove_networks() -> None:
    with suppress(Failure):
        for name in own().docker("network", "ls", "--filter", "type=custom", "--format", "{{.Name}}").split():
            with suppress(Failure):
                own().docker("network", "rm", name)


def _unmount() -> None:
    """What an engine leaves that did not end by itself: its data bound to itself, containers' file systems."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in reversed(mounted):
        if Path(target).is_relative_to(folder()):
            with suppress(Failure):
                run("umount", target)


def _enclose(verb: str) -> None:
    """Inserts or deletes the rules that keep what comes from bridges of networks inside this machine."""
    routes = [line.split() for line in ROUTES.read_text().splitlines()[1:]]
    for interface in dict.fromkeys(name for name, destination, *_ in routes if int(destination, 16) == 0):
        # Docker keeps its chain for others the first. It writes no rules for IPv6.
        for family, chain in (("iptables", "DOCKER-USER"), ("ip6tables", "FORWARD")):
            rule = ("-i", "br-+", "-o", interface, "-j", "REJECT")
            run(folder() / "bin" / family, "-w", verb, chain, *rule, env=_libraries())


def _is_bounded() -> bool:
    """Root cannot raise limits here: runc would fail with what engines ask of it."""
    status = Path("/proc/self/status").read_text()
    effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    return not effective >> SYS_RESOURCE & 1


def _environment(home: Path) -> dict[str, str]:
    unpacked = UNPACKED.path
    names = home / "bin"
    names.mkdir(exist_ok=True)
    for name in TABLES:
        remove(names / name)
        (names / name).symlink_to(unpacked / "usr/sbin/xtables-nft-multi")
    paths = [*(str(path) for path in (names, unpacked / "usr/sbin", unpacked / "usr/bin")), os.environ["PATH"]]
    return os.environ | {
        "PATH": os.pathsep.join(paths),
        **_libraries(),
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "",
    }


def _libraries() -> dict[str, str]:
    paths = [str(path) for path in UNPACKED.path.glob("usr/lib/*-linux-gnu")]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join([*paths, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep),
        "XTABLES_LIBDIR": os.pathsep.join(f"{path}/xtables" for path in paths),
    }


def _links() -> Path:
    """kind and kubectl as they were built, and docker where this machine has none."""
    links = cache() / "path"
    links.mkdir(parents=True, exist_ok=True)
    files = {name: building.built(name) for name in ("kind", "kubectl")}
    unpacked = UNPACKED.path / "usr/bin/docker"
    if shutil.which("docker") is None and unpacked.is_file():
        files["docker"] = unpacked
    for name, file in files.items():
        link = links / name
        if file is not None and not (link.is_symlink() and link.readlink() == file):
            remove(link)
            link.symlink_to(file)
    return links


def _last_line(log: Path) -> str:
    lines = log.read_text().strip().splitlines()
    return lines[-1] if lines else "it said nothing"
