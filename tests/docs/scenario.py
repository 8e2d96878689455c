"""A page as its reader lives it: an empty directory, a home of its own, one shell for the blocks, terminals beside it.

Addresses on loopback that a page names are others here, so that pages can run side by side; what is printed is put back
into the page's words before it is compared. Whatever a page starts is in a session of its own, and ends with the page.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.output import differs
from tests.docs.pages import INTERRUPT, ROOT, TERMINAL, Block, Page
from tests.docs.words import Command, commands

HANG = 120.0
"""No step takes longer: a hang guard, not a measure. Steps that make containers have a longer one."""
LOOK_AGAIN = 0.3
_ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost):(\d{4,5})\b")
_LOOKS = {
    "kubectl": {"get", "describe", "events", "version", "auth", "explain", "logs", "top", "api-resources"},
    "shoal": {"status", "tree", "explain", "plan", "logs", "top", "fsck"},
}
_CHANGES = {"apply", "create", "delete", "patch", "scale", "label", "annotate", "wait", "run", "-w", "--watch"}
_QUIET = {"echo", "cat", "grep", "sort", "head", "tail", "wc", "base64", "sed", "ls", "tr", "cut"}


class PageFailed(AssertionError):
    def __init__(self, page: str, line: int, what: str) -> None:
        super().__init__(f"{page}:{line}: {what}")


def only_looks(script: str) -> bool:
    """Whether it may be typed again, as people do who wait for something to show."""

    def looks(command: Command) -> bool:
        words = set(command.words[1:])
        if command.program in _LOOKS:
            return bool(words & _LOOKS[command.program]) and not words & _CHANGES and command.writes is None
        return command.program in _QUIET and command.writes is None

    found = commands(script)
    return bool(found) and all(looks(command) for command in found)


@dataclass
class Ports:
    """Each port that a page names, and the one it has here; kept from everybody else until the page ends."""

    are_replaced: bool = True
    """False: a page has the ports that it names."""
    taken: dict[str, socket.socket] = field(default_factory=dict)

    def here(self, port: str) -> int:
        if not self.are_replaced:
            return int(port)
        if port not in self.taken:
            held = socket.socket()
            # Bound and not listening: the port is given to nobody else, and who asks for it by number gets it.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self.taken[port] = held
        return int(self.taken[port].getsockname()[1])

    def given(self, text: str) -> str:
        return _ADDRESS.sub(lambda match: f"{match[1]}:{self.here(match[2])}", text)

    def told(self, text: str) -> str:
        """In the words of the page."""
        back = {str(held.getsockname()[1]): port for port, held in self.taken.items()}
        return _ADDRESS.sub(lambda match: f"{match[1]}:{back.get(match[2], match[2])}", text)

    def close(self) -> None:
        for held in self.taken.values():
            held.close()


class Running:
    """A bash in a session of its own, what it says in a file."""

    def __init__(self, script: Path, said: Path, directory: Path, environment: dict[str, str]) -> None:
        self._said = said
        with said.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-euo", "pipefail", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """All that it has started ends, too."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(HANG)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Shell:
    """One bash that all blocks of a page are typed into: what one sets, the next has."""

    def __init__(self, directory: Path, environment: dict[str, str], notes: Path, patience: float) -> None:
        self._notes, self._patience = notes, patience
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
        self._count = 0

    def __call__(self, script: str, *, apart: bool) -> tuple[int | None, str]:
        """Its exit code, None where the shell has ended with it, and what it said. `apart`: in a subshell."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        file, said = self._notes / f"{self._count}.sh", self._notes / f"{self._count}.said"
        file.write_text(f"set -euo pipefail\n{script}\n")
        source = f"(source {file})" if apart else f"source {file}"
        line = f"{source} </dev/null >{said} 2>&1; code=$?; set +euo pipefail; echo $code\n"
        guard = threading.Timer(self._patience, self._kill)
        guard.start()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            code = self._process.stdout.readline().strip()
        finally:
            guard.cancel()
        return int(code) if code else None, said.read_text(errors="replace") if said.exists() else ""

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANG)
        self._process.stdout.close()
        self._kill()


class Scenario:
    def __init__(
        self,
        page: Page,
        place: Path,
        tools: dict[str, Path],
        *,
        clone: Path | None = None,
        patience: float = HANG,
        own_ports: bool = False,
    ) -> None:
        """`tools` are on PATH under these names; `clone` is where the reader has the repository, if they have one.
        `own_ports`: nobody else reads meanwhile, so the ports are those of the page.
        """
        self.page, self.patience = page, patience
        self.home, self.notes = place / "home", place / "notes"
        self.directory = clone or place / "here"
        for folder in (self.home, self.notes, self.directory, place / "bin", place / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, file in tools.items():
            (place / "bin" / name).symlink_to(file)
        for name in () if clone else ("examples", "deploy"):
            (self.directory / name).symlink_to(ROOT / name)
        self.ports = Ports(not own_ports)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{place / 'bin'}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin",
            "TMPDIR": str(place / "tmp"),
            "LANG": "C.UTF-8",
            "SHOAL_LISTEN": f"127.0.0.1:{self.ports.here('6443')}",
        }
        self._terminals: dict[str, Running] = {}
        self._places = ((str(self.home), "~"), (str(self.directory), "."))

    def run(
        self, variant: str = "", beginning: Callable[[Scenario], AbstractContextManager[None]] | None = None
    ) -> None:
        with ExitStack() as stack:
            stack.callback(self.ports.close)
            if beginning is not None:
                stack.enter_context(beginning(self))
            stack.callback(self._end_terminals)
            shell = Shell(self.directory, self.environment, self.notes, self.patience)
            stack.callback(shell.close)
            for block in self.page.steps(variant):
                self._step(shell, block)

    def tool(self, name: str) -> str:
        """The program that a name is in this scenario."""
        found = shutil.which(name, path=self.environment["PATH"])
        assert found is not None, f"there is no {name}"
        return found

    def terminal(self, name: str, script: str, ready: str, line: int = 0) -> None:
        """Runs beside the page; returns when it has said what is shown."""
        file = self.notes / f"{name}.sh"
        file.write_text(self.ports.given(script))
        running = self._terminals[name] = Running(file, self.notes / name, self.directory, self.environment)
        end = time.monotonic() + self.patience
        while True:
            over = running.ended or time.monotonic() > end  # asked before what it has said is read
            what = differs(ready, self._told(running.said()), so_far=True)
            if not what:
                return
            if over:
                raise PageFailed(self.page.name, line, f"this terminal is not ready:\n{what}")
            time.sleep(0.05)

    def _step(self, shell: Shell, block: Block) -> None:
        if INTERRUPT in block.marks:
            self._terminals.pop(block.marks[INTERRUPT]).end(signal.SIGINT)
        if TERMINAL in block.marks:
            self.terminal(block.marks[TERMINAL], block.script, block.shown or "...", block.line)
            return
        for typed, shown in block.typed():
            self._type(shell, block.line, typed, shown)

    def _type(self, shell: Shell, line: int, typed: str, shown: str | None) -> None:
        again = shown is not None and only_looks(typed)
        end = time.monotonic() + HANG
        while True:
            code, said = shell(self.ports.given(typed), apart=again)
            what = f"exit code {code}:\n{said}" if code != 0 else ""
            if not what and shown is not None:
                what = differs(shown, self._told(said))
            if not what:
                return
            if not again or time.monotonic() > end:
                raise PageFailed(self.page.name, line, f"{typed}\n{what}{self._beside()}")
            time.sleep(LOOK_AGAIN)

    def _told(self, said: str) -> str:
        said = self.ports.told(said)
        for here, there in self._places:
            said = said.replace(here, there)
        return said

    def _beside(self) -> str:
        """The last words of the terminals, for whoever looks why."""
        return "".join(f"\n--- {name}:\n{running.said()[-1500:]}" for name, running in self._terminals.items())

    def _end_terminals(self) -> None:
        with ExitStack() as stack:
            for running in self._terminals.values():
                stack.callback(running.end)


def shoal_commands() -> dict[str, Path]:
    """Those of the environment that runs the tests."""
    folder = Path(sys.prefix) / "bin"
    return {name: folder / name for name in ("shoal", "kubectl-shoal")}
