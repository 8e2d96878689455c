"""Network namespaces: a hub and its workers, each in its own, connected so that single links can be cut.

All are on one switch, which is in a namespace too, so that nothing of this machine filters its traffic. Each worker
also has a link to the test that is never cut: through it the test sees what a worker does alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType

HUB = "198.18.0.1"
"""Of the range for benchmarks (RFC 2544), which nobody uses in earnest."""
HERE = "198.18.0.254"


def missing() -> str:
    """What this machine lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "network namespaces (needs root)"
    if shutil.which("ip") is None:
        return "network namespaces (needs ip of iproute2)"
    try:
        with Network([]):
            return ""
    except subprocess.CalledProcessError as error:
        return f"network namespaces ({error.stderr.decode(errors='replace').strip()})"


class Network:
    """There from `with` until its end."""

    def __init__(self, workers: list[str]) -> None:
        self._mark = f"shoal{os.getpid() % 1_000_000}"
        self._workers = workers
        self._switch = self.namespace("net")

    def namespace(self, name: str) -> str:
        return f"{self._mark}-{name}"

    def direct(self, worker: str) -> str:
        """The address of a worker by which the test reaches it, whatever is cut."""
        return f"198.18.{self._workers.index(worker) + 1}.2"

    def __enter__(self) -> Network:
        try:
            for name in ("net", "hub", *self._workers):
                _ip("netns", "add", self.namespace(name))
                _ip("-n", self.namespace(name), "link", "set", "lo", "up")
            _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "switch", "up")
            self._attach("here", HERE, "")
            self._attach("hub", HUB, self.namespace("hub"))
            for number, worker in enumerate(self._workers, 1):
                self._attach(worker, f"198.18.0.{10 + number}", self.namespace(worker))
                self._pair_up(worker, f"198.18.{number}")
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_down()

    def cut(self, worker: str) -> None:
        """Silently, as a cable is pulled: nobody is told."""
        _ip("-n", self._switch, "link", "set", worker, "down")

    def restore(self, worker: str) -> None:
        _ip("-n", self._switch, "link", "set", worker, "up")

    def _attach(self, name: str, address: str, namespace: str) -> None:
        """To the switch; an empty namespace is the machine's own."""
        where, device = (("-n", namespace), "cable") if namespace else ((), self._here(name))
        _ip(*where, "link", "add", device, "type", "veth", "peer", "name", name, "netns", self._switch)
        _ip("-n", self._switch, "link", "set", name, "master", "switch", "up")
        _ip(*where, "addr", "add", f"{address}/24", "dev", device)
        _ip(*where, "link", "set", device, "up")

    def _here(self, name: str) -> str:
        """An interface of the machine's own."""
        return f"{self._mark}{name}"

    def _pair_up(self, worker: str, prefix: str) -> None:
        here, namespace = self._here(worker), self.namespace(worker)
        _ip("link", "add", here, "type", "veth", "peer", "name", "direct", "netns", namespace)
        _ip("addr", "add", f"{prefix}.1/30", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", namespace, "addr", "add", f"{prefix}.2/30", "dev", "direct")
        _ip("-n", namespace, "link", "set", "direct", "up")

    def _take_down(self) -> None:
        for name in ("here", *self._workers):
            subprocess.run(["ip", "link", "delete", self._here(name)], capture_output=True, check=False)
        for name in ("net", "hub", *self._workers):
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
