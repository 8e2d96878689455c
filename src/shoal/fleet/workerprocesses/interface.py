"""Worker processes on this machine as the supervisor sees them: their state and the possible actions. No policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessState:
    """State of a Worker's process and data on this machine."""

    pid: int = 0
    """Of the process that this hub has started; 0: none runs."""
    changed_at: float = 0.0
    """When it was started or, if none runs, when it exited; monotonic."""
    failures: int = 0
    """How often in a row it exited by itself soon after it was started."""
    exit_message: str = ""
    """How the last process exited by itself; empty if none did."""
    directory: str = ""
    """Its data directory, which may not exist yet."""
    owner_uid: str | None = None
    """Uid of the Worker the data directory was created for, empty if for none; None if there is no directory."""
    foreign_pid: int = 0
    """Pid of a process that uses the data directory and was not started by this hub."""


class WorkerProcesses(Protocol):
    id: str
    """Id of the machine and data directory they run on: their data is there and nowhere else."""

    def add_exit_handler(self, handler: Callable[[str], None]) -> None:
        """Calls `handler` with the name of each process that exits."""

    def state_of(self, name: str) -> ProcessState: ...

    async def start(self, name: str, uid: str) -> None:
        """Starts the process for the Worker with that uid. A failure shows as a process that has exited."""

    async def stop(self, name: str) -> None:
        """Returns when the process has exited."""

    async def remove(self, name: str) -> None:
        """Deletes the data directory, which no process uses."""
