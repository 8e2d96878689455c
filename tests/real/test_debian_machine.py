"""The Debian package and its units in containers with systemd: the commands of docs/installing.md as typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from shoal import __version__
from tests.docs.pages import typed_block
from tests.packages.building import ROOT
from tests.real.commands import until
from tests.real.containers import debian_image
from tests.real.containers.engine import Engine
from tests.real.debian_machine import HUB, NEXT, Machine, next_package, package
from tests.real.hubs import KubectlAt

pytestmark = pytest.mark.containers

NEEDED_IMAGE = debian_image.NAME
TEST = "real/test_debian_machine.py"
EXPOSED = 30
"""In tenths, of what systemd-analyze says."""

Boot = Callable[..., Machine]


@pytest.fixture
def boot(engine: Engine) -> Iterator[Boot]:
    machines: list[Machine] = []

    def boot(*flags: str) -> Machine:
        machines.append(Machine(engine, f"shoal-test-{os.getpid()}-{len(machines)}", *flags))
        return machines[-1]

    yield boot
    for machine in machines:
        machine.remove()


@pytest.fixture
def hub(boot: Boot, tmp_path: Path) -> Machine:
    """With a hub that runs as the page has it."""
    machine = boot("--hostname", "hub", "--add-host", f"{HUB}:127.0.0.1")
    machine.put(package(tmp_path))
    machine.sh(typed_block("docs/installing.md", "enable --now shoal-hub", TEST))
    return machine


@pytest.fixture
def kubectl(hub: Machine, tmp_path: Path) -> KubectlAt:
    """From outside, by the kubeconfig that the page has written."""
    file = hub.get("hub.kubeconfig", tmp_path)
    config = yaml.safe_load(file.read_text())
    (cluster,) = config["clusters"]
    assert cluster["cluster"]["server"] == f"https://{HUB}:6443"
    cluster["cluster"] |= {"server": f"https://{hub.address}:6443", "tls-server-name": HUB}
    file.write_text(yaml.safe_dump(config))
    return KubectlAt(file, tmp_path / "home")


@pytest.mark.smoke
def test_an_installed_hub_serves_and_survives_its_death(hub: Machine, kubectl: KubectlAt) -> None:
    """Ready as soon as systemctl has returned."""
    assert kubectl("get", "--raw", "/readyz") == "ok"
    kubectl("create", "configmap", "kept", "--from-literal", "value=1")
    hub.sh(f"systemd-analyze security --no-pager --threshold={EXPOSED} shoal-hub.service")
    process = hub.show("shoal-hub", "MainPID")
    hub.sh("systemctl kill --signal KILL shoal-hub")
    until(lambda: hub.show("shoal-hub", "NRestarts") == "1" and hub.show("shoal-hub", "ActiveState") == "active")
    assert hub.show("shoal-hub", "MainPID") != process
    assert kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.value}") == "1"
    # An ordinary stop, and nothing that runs on.
    hub.sh("systemctl stop shoal-hub")
    assert hub.show("shoal-hub", "Result") == "success"
    assert "Traceback" not in hub.sh("journalctl --no-pager --unit shoal-hub")


def test_a_worker_joins_and_both_are_upgraded_and_removed(
    hub: Machine, kubectl: KubectlAt, boot: Boot, tmp_path: Path
) -> None:
    worker = boot("--hostname", "far", "--add-host", f"{HUB}:{hub.address}")
    worker.put(package(tmp_path))
    worker.put(hub.get("far.kubeconfig", tmp_path))
    worker.sh(typed_block("docs/installing.md", "enable --now shoal-worker@far", TEST))
    kubectl("apply", "-f", str(ROOT / "examples" / "clusters.yaml"))
    until(lambda: phases(hub) == ["Running", "Running"])
    worker.sh(f"systemd-analyze security --no-pager --threshold={EXPOSED} shoal-worker@far.service")
    worker.sh("systemctl kill --signal KILL shoal-worker@far")
    until(lambda: worker.show("shoal-worker@far", "NRestarts") == "1")
    until(lambda: phases(hub) == ["Running", "Running"])

    newer = next_package(tmp_path)
    for machine, unit in ((hub, "shoal-hub"), (worker, "shoal-worker@far")):
        before = machine.show(unit, "MainPID")
        machine.put(newer)
        assert machine.sh("shoal --version") == f"shoal, version {__version__}\n"
        machine.sh(f"apt-get install ./{newer.name}")
        assert machine.sh("shoal --version") == f"shoal, version {NEXT}\n"
        assert machine.show(unit, "ActiveState") == "active"
        assert machine.show(unit, "MainPID") != before
    assert HUB in hub.sh("cat /etc/shoal/hub.env")
    assert NEXT in kubectl("get", "--raw", "/version")
    until(lambda: phases(hub) == ["Running", "Running"])

    worker.sh("apt-get remove --yes shoal")
    assert worker.show("shoal-worker@far", "ActiveState") == "inactive"
    assert worker.sh("ls /var/lib/shoal-worker-far /etc/shoal").split() == [
        *("/etc/shoal:", "hub.env", "worker-far.kubeconfig"),
        *("/var/lib/shoal-worker-far:", "data"),
    ]
    # dpkg removes a directory that is empty and of no other package.
    assert worker.sh("if [ -e /opt ]; then ls -A /opt; fi") == ""
    worker.sh(f"apt-get install ./{newer.name} && systemctl start shoal-worker@far")
    until(lambda: phases(hub) == ["Running", "Running"])
    for machine in (worker, hub):
        machine.sh("apt-get purge --yes shoal")
        left = machine.sh("find / -xdev -path /root -prune -o -path /proc -prune -o -name '*shoal*' -print")
        assert left == ""
        assert "failed" not in machine.sh("systemctl list-units --all --no-legend 'shoal*'")


def phases(hub: Machine) -> list[str]:
    """Of the hosted clusters."""
    status = yaml.safe_load(hub.sh("shoal status --data-dir /var/lib/shoal-hub/data -o yaml"))
    return [row["phase"] for row in status["managed clusters"]]
