"""An engine of our own from its start to its end, in a network namespace where nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.containers import engine
from tests.real.containers.rootfs import UNPACKED
from tests.real.containers.workload_images import BUSYBOX, busybox
from tests.real.hubs import short_directory

pytestmark = pytest.mark.containers

SCRIPT = f"""
from tests.real.containers import engine
from tests.real.containers.artifacts import Failure, run
from tests.real.containers.workload_images import busybox

with engine.running() as running:
    running.load(busybox, "{BUSYBOX}")
    running.docker("network", "create", "mine")
    container = ("run", "--rm", "--privileged", "--network", "mine", "{BUSYBOX}")
    print(running.docker(*container, "echo", "inside").strip())
    try:
        running.docker(*container, "nc", "-w", "5", "203.0.113.1", "80")
    except Failure as failure:
        print(failure)
print(engine.own().answers)
print(run("ip", "-brief", "link", "show", "type", "bridge").split())
"""
NETWORK = """
ip link set lo up
ip link add out type veth peer name away
ip link set away up
ip address add 198.51.100.1/24 dev out
ip link set out up
ip route add default via 198.51.100.2
exec "$@"
"""
"""A machine with a way out, at whose end nobody is."""


@pytest.fixture
def cache() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


def test_an_engine_of_our_own_runs_containers_keeps_them_inside_and_ends(cache: Path) -> None:
    lack = engine.lacks() or next((name for name in ("unshare", "ip") if shutil.which(name) is None), "")
    if lack:
        pytest.skip(lack)
    for artifact in (UNPACKED, busybox):
        for file in (artifact.build(), artifact.path.with_name(f"{artifact.name}.stamp")):
            (cache / file.name).symlink_to(file)
    done = subprocess.run(
        ["unshare", "--net", "sh", "-euc", NETWORK, "sh", sys.executable, "-c", SCRIPT],
        env=os.environ | {"SHOAL_CONTAINERS": str(cache), "DOCKER_HOST": "unix:///nowhere"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"loaded {BUSYBOX} in ")
    assert lines[1] == "inside"
    assert lines[2].endswith("nc: can't connect to remote host (203.0.113.1): Connection refused")
    assert lines[3:] == ["False", "[]"]
