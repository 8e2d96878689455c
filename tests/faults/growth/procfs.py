"""What a process used, as Linux tells it: CPU and memory, of its children too."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
MB = 1024


class Meter:
    def __init__(self, pid: int) -> None:
        self._root = Path(f"/proc/{pid}")
        self._pid = pid

    def loop_seconds(self) -> float:
        """CPU of the first thread, which is the event loop's."""
        return int((self._root / "task" / str(self._pid) / "schedstat").read_text().split()[0]) / 1e9

    def cpu_seconds(self) -> float:
        """Of all threads and children."""
        return sum(_ticks(pid) for pid in (self._pid, *self.children())) / TICKS

    def children(self) -> list[int]:
        found: list[int] = []
        for task in (self._root / "task").iterdir():
            try:
                found += map(int, (task / "children").read_text().split())
            except OSError:
                continue  # it has ended
        return found

    def children_memory(self) -> float:
        return sum(_megabytes(pid, "VmRSS:") for pid in self.children())

    def memory(self) -> float:
        """Megabytes that are resident."""
        return _megabytes(self._pid, "VmRSS:")

    def peak(self) -> float:
        """The most since `forget_peak`."""
        return _megabytes(self._pid, "VmHWM:")

    def forget_peak(self) -> None:
        (self._root / "clear_refs").write_text("5")


def _ticks(pid: int) -> int:
    try:
        after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, after[11:15]))


def _megabytes(pid: int, name: str) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / MB for line in text.splitlines() if line.startswith(name)), 0.0)
