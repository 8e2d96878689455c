"""Worker processes on this machine, as the loop sees them: what is there, and what can be done. No policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Here:
    """What is there of a Worker on this machine."""

    pid: int = 0
    """Of its process, which this hub has started; 0: none runs."""
    since: float = 0.0
    """When it was started or, if none runs, when it ended; monotonic."""
    failures: int = 0
    """How often in a row it ended by itself soon after it was started."""
    ended: str = ""
    """How the last one ended by itself; empty: none did."""
    directory: str = ""
    """Where its data is, or would be."""
    owner: str | None = None
    """The uid of the Worker the data directory was made for, empty if it was not made for one; None: there is none."""
    occupant: int = 0
    """The process that uses the data directory, where it is none of ours."""


class Processes(Protocol):
    id: str
    """Of the place they are at: their data is there and nowhere else."""

    def listen(self, told: Callable[[str], None]) -> None:
        """From now on `told` hears the name of each that ends."""

    def look(self, name: str) -> Here: ...

    async def start(self, name: str, uid: str) -> None:
        """For the Worker of that uid. What goes wrong is seen as a process that has ended."""

    async def stop(self, name: str) -> None:
        """When it is back, the process has ended."""

    async def remove(self, name: str) -> None:
        """The data directory, which no process uses."""
