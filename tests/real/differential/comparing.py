"""Where two answers differ, and whether that is meant: `allowed.yaml` has every difference that is, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.real.differential.asking import Ask, Reply, Story
from tests.real.differential.plain import plain

FILE = Path(__file__).with_name("allowed.yaml")
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    story: str
    step: int
    ask: Ask
    at: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        asked = f"{self.ask.method} {self.ask.path}"
        body = "" if self.ask.body is None else f"\n  body: {str(self.ask.body)[:600]}"
        headers = f" {self.ask.headers}" if self.ask.headers else ""
        said = f"\n  real: {str(self.real)[:900]}\n  ours: {str(self.ours)[:900]}"
        return f"{self.story}, step {self.step}: {asked}{headers} at {self.at}{body}{said}"


@dataclass
class Allowance:
    """All that is given has to match: the request, the place in the answer, and what stands there."""

    why: str
    at: str
    method: str = ""
    path: str = ""
    real: str = ""
    ours: str = ""
    story: str = ""
    used: int = field(default=0, compare=False)

    def covers(self, found: Difference) -> bool:
        pairs = (
            (self.at, found.at),
            (self.method, found.ask.method),
            (self.path, found.ask.path),
            (self.real, str(found.real)),
            (self.ours, str(found.ours)),
            (self.story, found.story),
        )
        return all(re.search(pattern, value, re.DOTALL) for pattern, value in pairs)


def allowances() -> list[Allowance]:
    return [Allowance(**entry) for entry in yaml.safe_load(FILE.read_text()) or ()]


@dataclass
class Judged:
    pairs: int = 0
    unexplained: list[Difference] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """Of the allowances."""
    summary: str = ""


def judged(told: list[Story], real: list[list[Reply]], ours: list[list[Reply]]) -> Judged:
    allowed, found = allowances(), Judged()
    for story, one, other in zip(told, real, ours, strict=True):
        for differences_here in compared(story, one, other):
            found.pairs += 1
            for difference in differences_here:
                covering = [allowance for allowance in allowed if allowance.covers(difference)]
                for allowance in covering:
                    allowance.used += 1
                found.unexplained += [] if covering else [difference]
    found.unused = [allowance.why for allowance in allowed if not allowance.used]
    uses = sum(allowance.used for allowance in allowed)
    found.summary = (
        f"{found.pairs} pairs in {len(told)} stories; {uses} differences allowed by {len(allowed)} reasons; "
        f"{len(found.unexplained)} others"
    )
    return found


def compared(story: Story, real: list[Reply], ours: list[Reply]) -> Iterator[list[Difference]]:
    """Step by step, as far as both went the same way: after different statuses they are not in one state."""
    for step, (ask, one, other) in enumerate(zip(story.asks, real, ours, strict=True)):
        theirs, own = plain(one), plain(other)
        yield [Difference(story.name, step, ask, at, *values) for at, *values in differences(theirs, own)]
        if one.status != other.status:
            return


def differences(real: Any, ours: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(real, dict) and isinstance(ours, dict):
        if not at and real["status"] != ours["status"]:
            # The rest follows from it.
            yield "status", f"{real['status']} {_said(real)}", f"{ours['status']} {_said(ours)}"
            return
        for key in sorted(real.keys() | ours.keys()):
            yield from differences(real.get(key, ABSENT), ours.get(key, ABSENT), f"{at}.{key}".lstrip("."))
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from differences(one, other, f"{at}[{index}]")
    elif real != ours or type(real) is not type(ours):
        yield at, real, ours


def _said(answer: Any) -> Any:
    body = answer["body"]
    return body.get("message", body) if isinstance(body, dict) else body
