"""Three machines, each with a member of one etcd cluster and a hub on it, as processes that faults can be done to.

As root each is in a network namespace of its own: a cut link takes hub and member from the others, and nobody tells
them. Otherwise all are on loopback, and it is the links between hubs and etcd that can be cut.
"""

from __future__ import annotations

import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TypeVar

from tests.etcd import etcd_program, free_ports
from tests.faults.processes import HANG, command
from tests.fleet_story.netns import Network
from tests.soak.clients import LOST, Place, connected
from tests.soak.links import Links

T = TypeVar("T")
NAMES = ("m1", "m2", "m3")
READY_SECONDS = 5.0
QUOTA = 128 * 1024 * 1024


class Process:
    """A command that is started again and again; what it says goes to one file."""

    def __init__(self, log: Path, arguments: list[str]) -> None:
        self.log, self._arguments = log, arguments
        self._file: IO[bytes] = log.open("ab")
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert not self.runs, self.said()
        self._running = subprocess.Popen(self._arguments, stdout=self._file, stderr=self._file)

    @property
    def runs(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(number)

    def kill(self) -> None:
        if self.runs:
            self.signal(signal.SIGKILL)
            self.ended()

    def ended(self) -> int:
        """The code with which it ended by itself, or was made to."""
        assert self._running is not None
        return self._running.wait(HANG)

    def close(self) -> None:
        if self.runs:
            self.signal(signal.SIGCONT)
        self.kill()
        self._file.close()

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


class Machine:
    def __init__(self, name: str, etcd: Process, hub: Process, etcd_url: str, hub_at: tuple[str, int]) -> None:
        self.name, self.etcd, self.hub = name, etcd, hub
        self.etcd_url, self.hub_at = etcd_url, hub_at

    @property
    def leads(self) -> bool:
        """Whether its member of etcd is the leader."""
        try:
            with urllib.request.urlopen(f"{self.etcd_url}/metrics", timeout=2) as answer:
                return "\netcd_server_is_leader 1\n" in answer.read().decode()
        except OSError:
            return False

    @property
    def etcd_serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.etcd_url}/health", timeout=2) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False


class Machines:
    """There from `with` until its end; the data are below the directory."""

    def __init__(self, directory: Path, *, namespaces: bool, audit: Path | None = None) -> None:
        """`audit` is the policy of what hubs write to audit.log beside their data."""
        self._directory, self._namespaces, self._audit = directory, namespaces, audit
        self._held = ExitStack()
        self._network: Network | None = None
        self._links: Links | None = None
        self.all: list[Machine] = []
        self.never = threading.Event()
        """When clients of a test should stop that asks by itself."""

    def __enter__(self) -> Machines:
        try:
            if self._namespaces:
                self._network = self._held.enter_context(Network(list(NAMES)))
                self._place_apart(self._network)
            else:
                self._links = self._held.enter_context(Links())
                self._place_together(self._links)
            for machine in self.all:
                machine.etcd.start()
            for machine in self.all:
                self.wait_for_etcd(machine)
            for machine in self.all:
                machine.hub.start()
            for machine in self.all:
                self.wait_for_hub(machine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.all:
            machine.hub.close()
            machine.etcd.close()
        self._held.close()

    @property
    def place(self) -> Place:
        data = self._directory / NAMES[0] / "hub"
        context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
        return Place([machine.hub_at for machine in self.all], (data / "admin-token").read_text().strip(), context)

    def at(self, machine: Machine) -> Place:
        return replace(self.place, servers=[machine.hub_at])

    def etcd_disk(self, name: str) -> Path:
        return self._directory / name / "etcd"

    def audit_log(self, name: str) -> Path:
        return self._directory / name / "audit.log"

    # --- faults ---

    def cut(self, machine: Machine) -> None:
        if self._network is not None:
            self._network.cut(machine.name)
        elif self._links is not None:
            self._links.cut(machine.name)

    def restore(self, machine: Machine) -> None:
        if self._network is not None:
            self._network.restore(machine.name)
        elif self._links is not None:
            self._links.restore(machine.name)

    def leader(self) -> Machine:
        return eventually(lambda: next((each for each in self.all if each.leads), None), "etcd has no leader")

    def wait_for_etcd(self, machine: Machine) -> None:
        eventually(lambda: self._alive(machine.etcd) and machine.etcd_serves, machine.etcd.said)

    def wait_for_hub(self, machine: Machine) -> None:
        eventually(lambda: self._alive(machine.hub) and self.is_ready(machine), machine.hub.said)

    def is_not_ready(self, machine: Machine) -> bool:
        return not self.is_ready(machine)

    def is_ready(self, machine: Machine) -> bool:
        authority = self._directory / machine.name / "hub" / "pki" / "ca.crt"
        if not authority.exists():
            return False
        try:
            connection = connected(machine.hub_at, ssl.create_default_context(cafile=str(authority)), READY_SECONDS)
        except LOST:
            return False
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200
        except LOST:
            return False
        finally:
            connection.close()

    @staticmethod
    def _alive(process: Process) -> bool:
        assert process.runs, f"it ended by itself: {process.said()}"
        return True

    # --- where everything is ---

    def _place_apart(self, network: Network) -> None:
        inside = {name: f"198.18.0.{10 + number}" for number, name in enumerate(NAMES, 1)}
        peers = {name: f"http://{inside[name]}:2380" for name in NAMES}
        for name in NAMES:
            # Their own machine's member first.
            others = [each for each in NAMES if each != name]
            servers = [f"http://{inside[each]}:2379" for each in (name, *others)]
            direct = network.direct(name)
            listened = f"http://{inside[name]}:2379,http://{direct}:2379"
            within = ["ip", "netns", "exec", network.namespace(name)]
            self._place(name, within, listened, servers[0], f"http://{direct}:2379", peers, servers, (direct, 6443))

    def _place_together(self, links: Links) -> None:
        ports = {name: free_ports(3) for name in NAMES}
        peers = {name: f"http://127.0.0.1:{ports[name][1]}" for name in NAMES}
        for name in NAMES:
            order = [name, *(each for each in NAMES if each != name)]
            servers = [f"http://127.0.0.1:{links.add(name, ports[each][0])}" for each in order]
            own = f"http://127.0.0.1:{ports[name][0]}"
            self._place(name, [], own, own, own, peers, servers, ("127.0.0.1", ports[name][2]))

    def _place(
        self,
        name: str,
        within: list[str],
        listened: str,
        advertised: str,
        url: str,
        peers: dict[str, str],
        servers: list[str],
        hub_at: tuple[str, int],
    ) -> None:
        home = self._directory / name
        self.etcd_disk(name).mkdir(parents=True, exist_ok=True)
        etcd = [
            *(*within, str(etcd_program()), "--name", name, "--data-dir", str(self.etcd_disk(name) / "data")),
            *("--listen-client-urls", listened, "--advertise-client-urls", advertised),
            *("--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name]),
            *("--initial-cluster", ",".join(f"{each}={peer}" for each, peer in peers.items())),
            *("--quota-backend-bytes", str(QUOTA), "--unsafe-no-fsync"),
        ]
        hub = command(
            *("hub", "--data-dir", str(home / "hub"), "--listen", f"{hub_at[0]}:{hub_at[1]}"),
            *("--etcd-servers", ",".join(servers), "--shutdown-delay-duration", "1s"),
        )
        if self._audit is not None:
            hub += ["--audit-log-path", str(self.audit_log(name)), "--audit-policy-file", str(self._audit)]
        processes = Process(home / "etcd.log", etcd), Process(home / "hub.log", [*within, *hub])
        self.all.append(Machine(name, *processes, url, hub_at))


def eventually(look: Callable[[], T | None], why: str | Callable[[], str]) -> T:
    end = time.monotonic() + HANG
    while not (found := look()):
        assert time.monotonic() < end, why if isinstance(why, str) else why()
        time.sleep(0.05)
    return found
