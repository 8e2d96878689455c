"""Parses RE2 syntax into a tree, and writes the tree as an unambiguous pattern for the engine."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import NoReturn

from shoal.objects.cel.regex.classes import PERL, POSIX, Set, folded, unicode_class

MAX_REPEAT = 1000
MAX_DEPTH = 60
MAX_SIZE = 20_000
"""Maximum number of characters and operators of the expression, with repeats expanded."""


@dataclass(frozen=True, slots=True)
class Assertion:
    kind: str
    """`\\A`, `\\z`, `^` and `$` at lines, `\\b`, `\\B`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Tree
    least: int
    most: int | None
    greedy: bool


Tree = Set | Assertion | Sequence | Either | Repeat

_WRITTEN = {
    "\\A": r"\A", "\\z": r"\z", "^": "(?m:^)", "$": "(?m:$)", "\\b": r"(?-u:\b)", "\\B": r"(?-u:\B)",
}  # fmt: skip
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


def parse(pattern: str) -> Tree:
    tree = _Reader(pattern).whole()
    if _size(tree) > MAX_SIZE:
        raise ValueError(f"error parsing regexp: expression too large: `{pattern}`")
    return tree


def emitted(tree: Tree) -> str:
    if isinstance(tree, Set):
        return tree.written()
    if isinstance(tree, Assertion):
        return _WRITTEN[tree.kind]
    if isinstance(tree, Sequence):
        return "".join(map(emitted, tree.parts))
    if isinstance(tree, Either):
        return f"(?:{'|'.join(map(emitted, tree.parts))})"
    most = "" if tree.most is None else str(tree.most)
    return f"(?:{emitted(tree.part)}){{{tree.least},{most}}}{'' if tree.greedy else '?'}"


def _size(tree: Tree) -> int:
    if isinstance(tree, (Sequence, Either)):
        return 1 + sum(map(_size, tree.parts))
    if isinstance(tree, Repeat):
        return 1 + _size(tree.part) * max(tree.most or 0, tree.least, 1)
    return 1


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    lines: bool = False
    dot_all: bool = False
    swap: bool = False


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.depth = 0
        self.flags = _Flags()
        self.names: set[str] = set()

    def fail(self, told: str, start: int, end: int | None = None) -> NoReturn:
        raise ValueError(f"error parsing regexp: {told}: `{self.text[start : self.at if end is None else end]}`")

    def peek(self, wanted: str) -> bool:
        return self.text.startswith(wanted, self.at)

    def accept(self, wanted: str) -> bool:
        if self.peek(wanted):
            self.at += len(wanted)
            return True
        return False

    def whole(self) -> Tree:
        tree = self.either()
        if self.at < len(self.text):
            self.fail("unexpected )", 0, len(self.text))
        return tree

    def either(self) -> Tree:
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start = self.at
            if self.accept("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at : end if end >= 0 else None]
                self.at += len(quoted) + (2 if end >= 0 else 0)
                parts += [self.single(ord(char)) for char in quoted]
                continue
            atom = self.atom()
            if atom is not None:
                parts.append(self.repeated(atom, start))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, atom: Tree, start: int) -> Tree:
        before = self.at
        bounds = self.bounds()
        if bounds is None:
            return atom
        greedy = not self.accept("?")
        operator = self.at
        if self.bounds() is not None:
            self.fail("invalid nested repetition operator", before)
        self.at = operator
        return Repeat(atom, bounds[0], bounds[1], greedy != self.flags.swap)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(sign):
                return found
        return self.counted() if self.peek("{") else None

    def counted(self) -> tuple[int, int | None] | None:
        """Parses `{n}`, `{n,}` or `{n,m}`. Any other brace is a literal."""
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _digits(least) or (most and not _digits(most)):
            return None
        start, self.at = self.at, end + 1
        low = int(least[:9])
        high = int(most[:9]) if most else None if comma else low
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            self.fail("invalid repeat count", start)
        return low, high

    def single(self, code: int) -> Set:
        return Set(folded(((code, code),)) if self.flags.fold else ((code, code),))

    def atom(self) -> Tree | None:
        char, start = self.text[self.at], self.at
        self.at += 1
        if char == "(":
            return self.group(start)
        if char == "[":
            return self.brackets(start)
        if char == ".":
            return Set(((10, 10),), (), not self.flags.dot_all) if not self.flags.dot_all else Set(((0, 0x10FFFF),))
        if char == "^":
            return Assertion("^" if self.flags.lines else "\\A")
        if char == "$":
            return Assertion("$" if self.flags.lines else "\\z")
        if char == "\\":
            return self.escape(start)
        if char in "*+?":
            self.fail("missing argument to repetition operator", start)
        return self.single(ord(char))

    def group(self, start: int) -> Tree | None:
        kept = self.flags
        if self.accept("?"):
            if self.peek("P<") or (self.peek("<") and not self.peek("<=") and not self.peek("<!")):
                self.name(start)
            elif not self.modified(start):
                return None
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("expression nests too deeply", 0, len(self.text))
        tree = self.either()
        self.depth -= 1
        self.flags = kept
        if not self.accept(")"):
            self.fail("missing closing )", 0, len(self.text))
        return tree

    def name(self, start: int) -> None:
        end = self.text.find(">", self.at)
        name = self.text[self.text.index("<", self.at) + 1 : end] if end > 0 else ""
        if not name or not (name.isascii() and name.replace("_", "a").isalnum()):
            self.fail("invalid named capture", start, end + 1 if end > 0 else len(self.text))
        if name in self.names:
            self.fail("duplicate capture group name", start, end + 1)
        self.names.add(name)
        self.at = end + 1

    def modified(self, start: int) -> bool:
        """`(?i)` sets flags and ends (returns False). `(?i:` opens a group."""
        changed, value, any_flag = self.flags, True, False
        names = {"i": "fold", "m": "lines", "s": "dot_all", "U": "swap"}
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char in names:
                changed, any_flag = replace(changed, **{names[char]: value}), True
            elif char == "-" and value:
                value, any_flag = False, False
            elif char in ":)" and (value or any_flag):
                self.flags = changed
                return char == ":"
            else:
                self.fail("invalid or unsupported Perl syntax", start)
        return bool(self.fail("missing closing )", 0, len(self.text)))

    def escape(self, start: int) -> Tree:
        if self.at >= len(self.text):
            self.fail("trailing backslash at end of expression", len(self.text), len(self.text))
        char = self.text[self.at]
        if char in "AzbB":
            self.at += 1
            return Assertion(f"\\{char}")
        found = self.class_escape(start)
        return found if found is not None else self.single(self.code(start))

    def class_escape(self, start: int) -> Set | None:
        char = self.text[self.at]
        if char.lower() in PERL:
            self.at += 1
            return Set(PERL[char.lower()], (), char.isupper())
        if char not in "pP":
            return None
        self.at += 1
        name = self.text[self.at : self.at + 1]
        self.at += 1
        if name == "{":
            end = self.text.find("}", self.at)
            name = self.text[self.at : end] if end > 0 else ""
            self.at = end + 1 if end > 0 else len(self.text)
        negated = char == "P"
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if not unicode_class(name):
            self.fail("invalid character class range", start)
        return Set((), (name,), negated)

    def code(self, start: int) -> int:
        """Returns the character of an escape."""
        char = self.text[self.at]
        self.at += 1
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            end = self.text.find("}", self.at) if self.peek("{") else self.at + 2
            digits = self.text[self.at : end].removeprefix("{") if end > 0 else ""
            braces = self.peek("{")
            self.at = min(end + (1 if braces else 0), len(self.text)) if end > 0 else len(self.text)
            if digits and len(digits) <= 8 and all(digit in string.hexdigits for digit in digits):
                value = int(digits, 16)
                if value <= 0x10FFFF and (braces or len(digits) == 2):
                    return value
        elif char in "01234567" and (char == "0" or self.text[self.at : self.at + 1] in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self.text[self.at]
                self.at += 1
            return int(digits, 8)
        elif char.isascii() and char in string.punctuation and char != "_":
            return ord(char)
        return int(self.fail("invalid escape sequence", start))

    def brackets(self, start: int) -> Set:
        negated = self.accept("^")
        ranges: list[tuple[int, int]] = []
        classes: list[str] = []
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.text):
                self.fail("missing closing ]", start, len(self.text))
            first = False
            if self.peek("[:") and (end := self.text.find(":]", self.at)) > 0:
                name = self.text[self.at : end + 2]
                self.at = end + 2
                if name not in POSIX:
                    self.fail("invalid character class range", end + 2 - len(name))
                ranges += POSIX[name]
                continue
            here = self.at
            if self.accept("\\"):
                if self.at >= len(self.text):
                    self.fail("missing closing ]", start, len(self.text))
                found = self.class_escape(here)
                if found is not None:
                    inner = found.flattened()
                    ranges += inner.ranges
                    classes += inner.classes
                    continue
            self.at = here
            low = self.bracket_code()
            high = low
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.bracket_code()
                if high < low:
                    self.fail("invalid character class range", here)
            ranges.append((low, high))
        self.at += 1
        kept = tuple(ranges)
        return Set(folded(kept) if self.flags.fold else kept, tuple(classes), negated)

    def bracket_code(self) -> int:
        start = self.at
        if self.accept("\\"):
            if self.at >= len(self.text):
                self.fail("missing closing ]", start)
            return self.code(start)
        self.at += 1
        return ord(self.text[start])


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
