"""The fenced blocks of README.md and docs/: what a reader types, what is shown as its output, and the marks on both.

A page is a scenario. Its shell blocks (`sh`, `bash`, `console`) are steps in their order; a `text` block right after
one is what it prints. A mark is an HTML comment on a line above the fence; CONTRIBUTING.md has them all. Pure: reads
text, runs nothing.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = ("sh", "bash", "console")
OTHERS = ("text", "yaml", "json", "mermaid", "python", "toml", "ini", "http", "diff")
"""Languages of blocks that nobody types into a shell."""
NOT_RUN, TYPED_BY, TERMINAL, INTERRUPT, ONLY = "not run", "typed by", "terminal", "interrupt", "only"
BEGINS = "begins with"
NOT_CLOSED = "a block that is not closed"
MARKS = (NOT_RUN, TYPED_BY, TERMINAL, INTERRUPT, ONLY)
_MARK = re.compile(r"^\s*<!-- ([a-z ]+): (.+?) -->\s*$")
_FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([^`]*?)\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    shown: str | None = None
    """Of a shell block: the text block right after it."""

    @property
    def is_shell(self) -> bool:
        return self.language in SHELL

    @property
    def is_run(self) -> bool:
        return self.is_shell and not self.marks.keys() & {NOT_RUN, TYPED_BY}

    @property
    def script(self) -> str:
        """What is typed; of a console block the lines after `$`."""
        return "".join(f"{typed}\n" for typed, _ in self.typed())

    def typed(self) -> list[tuple[str, str | None]]:
        """What is typed at once, and what is shown for it."""
        if self.language != "console":
            return [(self.text, self.shown)]
        parts: list[tuple[list[str], list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                parts.append(([line[2:]], []))
            elif parts and line.startswith("> ") and not parts[-1][1]:
                parts[-1][0].append(line[2:])
            elif parts:
                parts[-1][1].append(line)
        return [("\n".join(typed), "\n".join(shown).strip("\n") or None) for typed, shown in parts]


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    blocks: tuple[Block, ...]
    beginning: str = ""
    """What has to be there before the first step: a key of `scenario.BEGINNINGS`."""
    faults: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def steps(self, variant: str = "") -> list[Block]:
        """The blocks that are run, for a reader who came by that way."""
        return [block for block in self.blocks if block.is_run and block.marks.get(ONLY, variant) == variant]

    @property
    def variants(self) -> tuple[str, ...]:
        """The ways to come to this page; one without a name where there is only one."""
        named = {block.marks[ONLY]: None for block in self.blocks if ONLY in block.marks}
        return tuple(named) or ("",)


def pages() -> list[Page]:
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [read(file, file.read_text()) for file in files]


def typed_block(page: str, words: str, test: str) -> str:
    """What a test types that is not of this folder: the one block of a page that is marked so and has these words."""
    path = ROOT / page
    marked = [block for block in read(path, path.read_text()).blocks if block.marks.get(TYPED_BY) == test]
    (script,) = (block.script for block in marked if words in block.text)
    return script


def read(path: Path, text: str) -> Page:
    found: list[Block] = []
    faults: list[str] = []
    end, lines = 0, text.splitlines()
    for block, first, last in _fences(lines):
        marks, unknown = _marks(lines, first)
        faults += [f"line {first + 1}: <!-- {name} --> is no mark" for name in unknown]
        between = "".join(lines[end:first]).strip()
        if block.language == "text" and not marks and not between and found and found[-1].is_shell:
            before = found.pop()
            found.append(Block(before.line, before.language, before.text, before.marks, block.text))
        else:
            found.append(Block(block.line, block.language, block.text, marks))
        end = last + 1
    faults += [fault for block in found for fault in _faults(block)]
    begins = [match[2] for line in lines if (match := _MARK.match(line)) and match[1] == BEGINS]
    faults += ["it begins with two things"] if len(begins) > 1 else []
    return Page(path, tuple(found), begins[0] if begins else "", tuple(faults))


def _faults(block: Block) -> Iterator[str]:
    where = f"line {block.line}"
    if not block.language:
        yield f"{where}: the block has no language: sh, console or bash if it is typed, else text, yaml, …"
    elif block.language not in (*SHELL, *OTHERS):
        yield f"{where}: {block.language} is no language that is known here"
    if block.marks and not block.is_shell:
        yield f"{where}: a mark on a block that nobody runs"
    if block.language == "console" and not block.text.startswith("$ "):
        yield f"{where}: a console block begins with `$ `"
    if TERMINAL in block.marks and not block.shown:
        yield f"{where}: a terminal of its own needs a text block after it: what it says when it is ready"


def _fences(lines: list[str]) -> Iterator[tuple[Block, int, int]]:
    at = 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        at += 1
        if opened is None:
            continue
        first = at - 1
        while at < len(lines) and lines[at].strip() != opened[2]:
            at += 1
        text = textwrap.dedent("\n".join(lines[first + 1 : at]))
        yield Block(first + 1, opened[3] if at < len(lines) else NOT_CLOSED, text), first, at
        at += 1


def _marks(lines: list[str], fence: int) -> tuple[dict[str, str], list[str]]:
    """The comments right above a fence."""
    marks: dict[str, str] = {}
    unknown = []
    at = fence - 1
    while at >= 0 and lines[at].strip().startswith("<!--"):
        match = _MARK.match(lines[at])
        if match and match[1] in MARKS:
            marks[match[1]] = match[2]
        elif not match or match[1] != BEGINS:
            unknown.append(lines[at].strip().removeprefix("<!--").removesuffix("-->").strip())
        at -= 1
    return marks, unknown
