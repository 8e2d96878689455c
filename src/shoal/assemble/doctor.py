"""`shoal doctor`: checks what this machine has and lacks. Each check returns one result; none changes anything.

Measuring and judging are separate: the judging half of each check is a pure function.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import orjson

from shoal import __version__
from shoal.assemble.datadir import FORMAT
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import KubeconfigError, load_endpoint
from shoal.client.transport import Unreachable

OK, WARN, FAIL = "ok", "warn", "fail"
ENGINES = ("docker", "podman", "nerdctl")
OLDEST_PYTHON, OLDEST_ETCD = (3, 11), (3, 5, 13)
MEGABYTE = 1 << 20
LEAST_DISK, GOOD_DISK = 200 * MEGABYTE, 2048 * MEGABYTE
GOOD_FILES = 4096
PROGRAM_SECONDS, HUB_SECONDS = 10.0, 5.0
LATE_SECONDS, WRONG_SECONDS = 5.0, 60.0
"""Tolerated clock differences: leases are affected by the first, certificates and tokens by the second."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    state: str
    said: str
    hint: str = ""


def examine(data_dir: Path, kubeconfig: Path | None, port: int) -> list[Line]:
    """Returns results in the order in which a person would check. `kubeconfig` is None if no hub was ever started
    here.
    """
    hub = asyncio.run(_hub(kubeconfig))
    return [
        python(sys.version_info[:3]),
        *(engine_lines([_engine(name) for name in ENGINES if shutil.which(name)])),
        _program(
            "kubectl",
            ("version", "--client", "-o", "json"),
            "shoal apply does without; https://kubernetes.io/docs/tasks/tools/",
        ),
        _program("kind", ("version",), "for clusters of containers: https://kind.sigs.k8s.io"),
        etcd(_version_of("etcd", ("--version",))),
        *_directory(data_dir),
        files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        _port(port, data_dir),
        *hub,
    ]


def python(version: Sequence[int]) -> Line:
    said = ".".join(map(str, version))
    if tuple(version) < OLDEST_PYTHON:
        return Line("python", FAIL, said, "Shoal needs Python 3.11 or newer")
    return Line("python", OK, f"{said}, shoal {__version__}")


def engine_lines(engines: Sequence[Line]) -> list[Line]:
    """One working engine is enough; the others are then not reported."""
    working = [line for line in engines if line.state == OK]
    if working:
        return working
    missing = Line("engine", WARN, "no container engine", "for clusters of containers: install Docker or Podman")
    return list(engines) or [missing]


def etcd(version: str | None) -> Line:
    name, hint = "etcd", "only --store etcd without --etcd-servers needs it: etcd 3.5.13 or newer"
    if version is None:
        return Line(name, OK, "not installed, and not needed: sqlite is the store")
    if _numbers(version) < OLDEST_ETCD:
        return Line(name, WARN, version, hint)
    return Line(name, OK, version)


def disk(free: int, where: Path) -> Line:
    said = f"{free // MEGABYTE} MB free in {where}"
    if free < LEAST_DISK:
        return Line("disk", FAIL, said, "free some, or give another --data-dir: a store that cannot write stops")
    if free < GOOD_DISK:
        return Line("disk", WARN, said, "a store that grows will stop there")
    return Line("disk", OK, said)


def files(limit: int) -> Line:
    if limit < GOOD_FILES and limit != resource.RLIM_INFINITY:
        hint = f"each client and watch is one: ulimit -n {GOOD_FILES}"
        return Line("open files", WARN, f"at most {limit}", hint)
    return Line("open files", OK, "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit}")


def clock(difference: float) -> Line:
    """`difference` is how far our clock is ahead of the hub's, which is reported in whole seconds."""
    off, side = abs(difference), "ahead of" if difference > 0 else "behind"
    said = f"{off:.0f} s {side} the hub's"
    if off > WRONG_SECONDS:
        return Line("clock", FAIL, said, "certificates and tokens will not be valid: set the clocks, such as by chrony")
    if off > LATE_SECONDS:
        return Line("clock", WARN, said, "leases last 40 s: set the clocks, such as by chrony")
    return Line("clock", OK, "as the hub's")


def version(hub: str) -> Line:
    """Takes the version of the hub, `v1.36.4+shoal-0.1.0`."""
    _, shoal, other = hub.partition("+shoal-")
    if not shoal:
        return Line("hub", WARN, f"{hub}, which is no Shoal", "most of shoal's commands are for a hub of Shoal")
    if other != __version__:
        return Line("hub", WARN, f"{hub}, and this is shoal {__version__}", "use the same version on both sides")
    return Line("hub", OK, hub)


def _directory(path: Path) -> list[Line]:
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    lines = [disk(shutil.disk_usage(there).free, there)]
    if not path.exists():
        can = os.access(there, os.W_OK)
        hint = "" if can else "give one of your own: --data-dir DIR"
        return [*lines, Line("data dir", OK if can else FAIL, f"{path} is not there yet", hint)]
    if not os.access(path, os.W_OK):
        return [*lines, Line("data dir", FAIL, f"{path} may not be written", "give one of your own: --data-dir DIR")]
    kept = (path / "format").read_text().strip() if (path / "format").exists() else str(FORMAT)
    if not kept.isdigit() or int(kept) > FORMAT:
        said = f"{path} has data format {kept!r}, this shoal knows up to {FORMAT}"
        return [*lines, Line("data dir", FAIL, said, "use the newer shoal that wrote it")]
    holder = lock_holder(path)
    return [*lines, Line("data dir", OK, f"{path}, " + (f"in use by process {holder}" if holder else "not in use"))]


def lock_holder(path: Path) -> str:
    """Returns the process that has locked a data directory; empty: none."""
    if not (path / "lock").exists():
        return ""
    lock = os.open(path / "lock", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(lock, 32, 0).decode().strip() or "unknown"
    finally:
        os.close(lock)
    return ""


def _port(port: int, data_dir: Path) -> Line:
    kept = data_dir / "port"
    if lock_holder(data_dir) and kept.exists():
        return Line("port", OK, f"{kept.read_text().strip()}, of the server that runs")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            if lock_holder(data_dir):
                return Line("port", OK, f"{port}, of the server that runs")
            why = os.strerror(error.errno or 0).lower()
            return Line("port", WARN, f"127.0.0.1:{port}: {why}", "shoal up --listen 127.0.0.1:0 picks a free one")
    return Line("port", OK, f"{port} is free")


def _engine(name: str) -> Line:
    form = "{{.Server.Version}}" if name == "docker" else "{{.Client.Version}}"
    said = _run(name, "version", "--format", form)
    if said.startswith("error: "):
        return Line(name, WARN, said.removeprefix("error: "), f"start it, or let this user use it: {name} info")
    return Line(name, OK, said)


def _program(name: str, arguments: tuple[str, ...], hint: str) -> Line:
    found = _version_of(name, arguments)
    return Line(name, OK, found) if found is not None else Line(name, WARN, "not installed", hint)


def _version_of(name: str, arguments: tuple[str, ...]) -> str | None:
    if shutil.which(name) is None:
        return None
    said = _run(name, *arguments)
    found = re.search(r"v?\d+\.\d+\.\d+[\w.+-]*", said)
    return found[0] if found else said


def _run(*arguments: str) -> str:
    """Returns the output of a program; `error: ` and the last line of its output if it fails."""
    try:
        run = subprocess.run(
            arguments, capture_output=True, text=True, timeout=PROGRAM_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"error: {getattr(error, 'strerror', None) or 'it does not answer'}"
    if run.returncode:
        words = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return f"error: {words[-1]}"
    return run.stdout.strip()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


async def _hub(kubeconfig: Path | None) -> list[Line]:
    if kubeconfig is None:
        return [Line("hub", WARN, "none was started here", "shoal up")]
    try:
        endpoint = load_endpoint(kubeconfig)
    except KubeconfigError as error:
        return [Line("hub", FAIL, str(error), "shoal kubeconfig prints the one shoal up wrote")]
    transport = HttpsTransport(endpoint.server, endpoint.tls, HUB_SECONDS)
    try:
        asked = time.time()
        status, headers, body = await transport.request(
            "GET", "/version", "", {"authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}, b""
        )
        between = (asked + time.time()) / 2
    except Unreachable as error:
        return [Line("hub", WARN, str(error), "start it: shoal up")]
    finally:
        await transport.close()
    if status != 200:
        return [Line("hub", FAIL, f"it answers {status}", f"the credentials are those in {kubeconfig}")]
    lines = [version(str(orjson.loads(body).get("gitVersion", "")))]
    if told := headers.get("date"):
        # Half a second: on average the hub's clock is that much ahead of the whole second it reports.
        lines.append(clock(between - parsedate_to_datetime(told).timestamp() - 0.5))
    return lines
