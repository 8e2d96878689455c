"""What came of each case, one JSON line each, and the summary of all of them."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT = Path(tempfile.gettempdir()) / "shoal-growth.jsonl"
ALLOWED_5XX = (501, 504)
GOAL = 0.1
"""Seconds that another tenant's get may take, on a quiet machine."""
STALL = 1.0
"""CPU-seconds."""
RESIDENT = 1024
"""Megabytes that the server may have after any number of cases: what each keeps adds up."""
SHOWN = 10


@dataclass
class Result:
    case: str
    statuses: dict[str, int] = field(default_factory=dict)
    stall: float = 0.0
    """The longest get of another tenant meanwhile, in seconds."""
    step: str = ""
    """When that was."""
    held: float = 0.0
    """The CPU-seconds of the loop's thread in that step, if they are fewer than the stall's: what was surely held."""
    loop: float = 0.0
    """CPU-seconds of the loop's thread in all steps; `cpu` is of the whole process with its children."""
    cpu: float = 0.0
    seconds: float = 0.0
    sent: int = 0
    answered: int = 0
    before: float = 0.0
    """Megabytes: resident before the first step, the most meanwhile, and when everything was deleted again."""
    peak: float = 0.0
    after: float = 0.0
    children: float = 0.0
    wrong: str = ""

    @property
    def growth(self) -> float:
        return max(self.peak, self.after) - self.before

    def add(self, step: str, stall: float, loop: float) -> None:
        self.loop += loop
        if stall > self.stall:
            self.stall, self.step = stall, step
        self.held = max(self.held, min(stall, loop))

    def failure(self) -> str:
        """What no case may do, or nothing."""
        bad = {step: code for step, code in self.statuses.items() if code >= 500 and code not in ALLOWED_5XX}
        if self.wrong or bad:
            return f"{self.case}: {bad or ''} {self.wrong}"
        if self.after > RESIDENT:
            return f"{self.case}: the server has {self.after:.0f} MB"
        return f"{self.case}: holds the loop for {self.held:.1f} CPU-seconds" if self.held > STALL else ""


class Results:
    """A file that an interrupted run goes on with."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(os.environ.get("SHOAL_GROWTH_RESULTS") or DEFAULT)
        self.all: dict[str, Result] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                found = Result(**json.loads(line))
            except ValueError:
                continue  # the line that was being written
            self.all[found.case] = found
        self._file = self.path.open("a")

    def add(self, result: Result) -> None:
        self.all[result.case] = result
        self._file.write(json.dumps(asdict(result)) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def summary(results: Iterable[Result]) -> str:
    """In Markdown."""
    found = list(results)
    codes = Counter(code for result in found for code in result.statuses.values())
    over = sum(result.stall > GOAL for result in found)
    lines = [
        f"{len(found)} cases, {sum(result.seconds for result in found) / 60:.0f} minutes; answers: "
        + ", ".join(f"{count} × {code}" for code, count in sorted(codes.items())),
        f"Gets of another tenant over {GOAL * 1000:.0f} ms: in {over} cases.",
        f"The server had at most {max((result.peak for result in found), default=0):.0f} MB.",
        "",
        "| worst stalls | while | ms | CPU of the loop, ms | answers |",
        "|---|---|---:|---:|---|",
    ]
    for result in sorted(found, key=lambda result: -result.stall)[:SHOWN]:
        answers = " ".join(map(str, result.statuses.values()))
        lines.append(
            f"| `{result.case}` | {result.step} | {result.stall * 1000:.0f} | {result.held * 1000:.0f} | {answers} |"
        )
    lines += ["", "| largest growths | sent, MB | at most, MB | after, MB | answers |", "|---|---:|---:|---:|---|"]
    for result in sorted(found, key=lambda result: -result.growth)[:SHOWN]:
        answers = " ".join(map(str, result.statuses.values()))
        lines.append(
            f"| `{result.case}` | {result.sent / 1e6:.1f} | +{result.growth:.0f} | "
            f"{result.after - result.before:+.0f} | {answers} |"
        )
    return "\n".join(lines)
