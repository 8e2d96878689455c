"""Parses RE2 syntax into a tree, and writes the tree as an unambiguous pattern for the engine."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import NoReturn

from shoal.objects.cel.regex.charclass import PERL, POSIX, CharSet, fold_case, is_unicode_class

MAX_REPEAT = 1000
MAX_DEPTH = 60
MAX_SIZE = 20_000
"""Maximum number of characters and operators of the expression, with repeats expanded."""


@dataclass(frozen=True, slots=True)
class AssertionNode:
    kind: str
    """`\\A`, `\\z`, `^` and `$` at lines, `\\b`, `\\B`."""


@dataclass(frozen=True, slots=True)
class ConcatNode:
    parts: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class AlternateNode:
    parts: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class RepeatNode:
    part: RegexNode
    minimum: int
    maximum: int | None
    greedy: bool


RegexNode = CharSet | AssertionNode | ConcatNode | AlternateNode | RepeatNode

_ASSERTION_PATTERNS = {
    "\\A": r"\A", "\\z": r"\z", "^": "(?m:^)", "$": "(?m:$)", "\\b": r"(?-u:\b)", "\\B": r"(?-u:\B)",
}  # fmt: skip
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


def parse(pattern: str) -> RegexNode:
    tree = _RegexParser(pattern).parse_pattern()
    if _expanded_size(tree) > MAX_SIZE:
        raise ValueError(f"error parsing regexp: expression too large: `{pattern}`")
    return tree


def to_pattern(tree: RegexNode) -> str:
    if isinstance(tree, CharSet):
        return tree.to_pattern()
    if isinstance(tree, AssertionNode):
        return _ASSERTION_PATTERNS[tree.kind]
    if isinstance(tree, ConcatNode):
        return "".join(map(to_pattern, tree.parts))
    if isinstance(tree, AlternateNode):
        return f"(?:{'|'.join(map(to_pattern, tree.parts))})"
    most = "" if tree.maximum is None else str(tree.maximum)
    return f"(?:{to_pattern(tree.part)}){{{tree.minimum},{most}}}{'' if tree.greedy else '?'}"


def _expanded_size(tree: RegexNode) -> int:
    if isinstance(tree, (ConcatNode, AlternateNode)):
        return 1 + sum(map(_expanded_size, tree.parts))
    if isinstance(tree, RepeatNode):
        return 1 + _expanded_size(tree.part) * max(tree.maximum or 0, tree.minimum, 1)
    return 1


@dataclass(frozen=True, slots=True)
class _RegexFlags:
    fold: bool = False
    lines: bool = False
    dot_all: bool = False
    swap: bool = False


class _RegexParser:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.position = 0
        self.depth = 0
        self.flags = _RegexFlags()
        self.group_names: set[str] = set()

    def fail(self, message: str, start: int, end: int | None = None) -> NoReturn:
        raise ValueError(
            f"error parsing regexp: {message}: `{self.text[start : self.position if end is None else end]}`"
        )

    def peek(self, prefix: str) -> bool:
        return self.text.startswith(prefix, self.position)

    def accept(self, prefix: str) -> bool:
        if self.peek(prefix):
            self.position += len(prefix)
            return True
        return False

    def parse_pattern(self) -> RegexNode:
        tree = self.parse_alternation()
        if self.position < len(self.text):
            self.fail("unexpected )", 0, len(self.text))
        return tree

    def parse_alternation(self) -> RegexNode:
        parts = [self.parse_concat()]
        while self.accept("|"):
            parts.append(self.parse_concat())
        return parts[0] if len(parts) == 1 else AlternateNode(tuple(parts))

    def parse_concat(self) -> RegexNode:
        parts: list[RegexNode] = []
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            start = self.position
            if self.accept("\\Q"):
                end = self.text.find("\\E", self.position)
                quoted = self.text[self.position : end if end >= 0 else None]
                self.position += len(quoted) + (2 if end >= 0 else 0)
                parts += [self.literal(ord(char)) for char in quoted]
                continue
            atom = self.parse_atom()
            if atom is not None:
                parts.append(self.parse_repeat(atom, start))
        return parts[0] if len(parts) == 1 else ConcatNode(tuple(parts))

    def parse_repeat(self, atom: RegexNode, start: int) -> RegexNode:
        before = self.position
        bounds = self.parse_bounds()
        if bounds is None:
            return atom
        greedy = not self.accept("?")
        operator = self.position
        if self.parse_bounds() is not None:
            self.fail("invalid nested repetition operator", before)
        self.position = operator
        return RepeatNode(atom, bounds[0], bounds[1], greedy != self.flags.swap)

    def parse_bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(sign):
                return found
        return self.parse_counted_bounds() if self.peek("{") else None

    def parse_counted_bounds(self) -> tuple[int, int | None] | None:
        """Parses `{n}`, `{n,}` or `{n,m}`. Any other brace is a literal."""
        end = self.text.find("}", self.position)
        least, comma, most = self.text[self.position + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _digits(least) or (most and not _digits(most)):
            return None
        start, self.position = self.position, end + 1
        low = int(least[:9])
        high = int(most[:9]) if most else None if comma else low
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            self.fail("invalid repeat count", start)
        return low, high

    def literal(self, code: int) -> CharSet:
        return CharSet(fold_case(((code, code),)) if self.flags.fold else ((code, code),))

    def parse_atom(self) -> RegexNode | None:
        char, start = self.text[self.position], self.position
        self.position += 1
        if char == "(":
            return self.parse_group(start)
        if char == "[":
            return self.parse_brackets(start)
        if char == ".":
            return (
                CharSet(((10, 10),), (), not self.flags.dot_all)
                if not self.flags.dot_all
                else CharSet(((0, 0x10FFFF),))
            )
        if char == "^":
            return AssertionNode("^" if self.flags.lines else "\\A")
        if char == "$":
            return AssertionNode("$" if self.flags.lines else "\\z")
        if char == "\\":
            return self.parse_escape(start)
        if char in "*+?":
            self.fail("missing argument to repetition operator", start)
        return self.literal(ord(char))

    def parse_group(self, start: int) -> RegexNode | None:
        kept = self.flags
        if self.accept("?"):
            if self.peek("P<") or (self.peek("<") and not self.peek("<=") and not self.peek("<!")):
                self.parse_group_name(start)
            elif not self.parse_flags(start):
                return None
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("expression nests too deeply", 0, len(self.text))
        tree = self.parse_alternation()
        self.depth -= 1
        self.flags = kept
        if not self.accept(")"):
            self.fail("missing closing )", 0, len(self.text))
        return tree

    def parse_group_name(self, start: int) -> None:
        end = self.text.find(">", self.position)
        name = self.text[self.text.index("<", self.position) + 1 : end] if end > 0 else ""
        if not name or not (name.isascii() and name.replace("_", "a").isalnum()):
            self.fail("invalid named capture", start, end + 1 if end > 0 else len(self.text))
        if name in self.group_names:
            self.fail("duplicate capture group name", start, end + 1)
        self.group_names.add(name)
        self.position = end + 1

    def parse_flags(self, start: int) -> bool:
        """`(?i)` sets flags and ends (returns False). `(?i:` opens a group."""
        flags, value, any_flag = self.flags, True, False
        names = {"i": "fold", "m": "lines", "s": "dot_all", "U": "swap"}
        while self.position < len(self.text):
            char = self.text[self.position]
            self.position += 1
            if char in names:
                flags, any_flag = replace(flags, **{names[char]: value}), True
            elif char == "-" and value:
                value, any_flag = False, False
            elif char in ":)" and (value or any_flag):
                self.flags = flags
                return char == ":"
            else:
                self.fail("invalid or unsupported Perl syntax", start)
        return bool(self.fail("missing closing )", 0, len(self.text)))

    def parse_escape(self, start: int) -> RegexNode:
        if self.position >= len(self.text):
            self.fail("trailing backslash at end of expression", len(self.text), len(self.text))
        char = self.text[self.position]
        if char in "AzbB":
            self.position += 1
            return AssertionNode(f"\\{char}")
        found = self.parse_class_escape(start)
        return found if found is not None else self.literal(self.parse_escaped_code(start))

    def parse_class_escape(self, start: int) -> CharSet | None:
        char = self.text[self.position]
        if char.lower() in PERL:
            self.position += 1
            return CharSet(PERL[char.lower()], (), char.isupper())
        if char not in "pP":
            return None
        self.position += 1
        name = self.text[self.position : self.position + 1]
        self.position += 1
        if name == "{":
            end = self.text.find("}", self.position)
            name = self.text[self.position : end] if end > 0 else ""
            self.position = end + 1 if end > 0 else len(self.text)
        negated = char == "P"
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if not is_unicode_class(name):
            self.fail("invalid character class range", start)
        return CharSet((), (name,), negated)

    def parse_escaped_code(self, start: int) -> int:
        """Returns the character of an escape."""
        char = self.text[self.position]
        self.position += 1
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            end = self.text.find("}", self.position) if self.peek("{") else self.position + 2
            digits = self.text[self.position : end].removeprefix("{") if end > 0 else ""
            braces = self.peek("{")
            self.position = min(end + (1 if braces else 0), len(self.text)) if end > 0 else len(self.text)
            if digits and len(digits) <= 8 and all(digit in string.hexdigits for digit in digits):
                value = int(digits, 16)
                if value <= 0x10FFFF and (braces or len(digits) == 2):
                    return value
        elif char in "01234567" and (char == "0" or self.text[self.position : self.position + 1] in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self.text[self.position : self.position + 1] in tuple("01234567"):
                digits += self.text[self.position]
                self.position += 1
            return int(digits, 8)
        elif char.isascii() and char in string.punctuation and char != "_":
            return ord(char)
        return int(self.fail("invalid escape sequence", start))

    def parse_brackets(self, start: int) -> CharSet:
        negated = self.accept("^")
        ranges: list[tuple[int, int]] = []
        classes: list[str] = []
        first = True
        while first or not self.peek("]"):
            if self.position >= len(self.text):
                self.fail("missing closing ]", start, len(self.text))
            first = False
            if self.peek("[:") and (end := self.text.find(":]", self.position)) > 0:
                name = self.text[self.position : end + 2]
                self.position = end + 2
                if name not in POSIX:
                    self.fail("invalid character class range", end + 2 - len(name))
                ranges += POSIX[name]
                continue
            here = self.position
            if self.accept("\\"):
                if self.position >= len(self.text):
                    self.fail("missing closing ]", start, len(self.text))
                found = self.parse_class_escape(here)
                if found is not None:
                    inner = found.without_negation()
                    ranges += inner.ranges
                    classes += inner.classes
                    continue
            self.position = here
            low = self.parse_bracket_code()
            high = low
            if self.peek("-") and self.text[self.position + 1 : self.position + 2] not in ("]", ""):
                self.position += 1
                high = self.parse_bracket_code()
                if high < low:
                    self.fail("invalid character class range", here)
            ranges.append((low, high))
        self.position += 1
        kept = tuple(ranges)
        return CharSet(fold_case(kept) if self.flags.fold else kept, tuple(classes), negated)

    def parse_bracket_code(self) -> int:
        start = self.position
        if self.accept("\\"):
            if self.position >= len(self.text):
                self.fail("missing closing ]", start)
            return self.parse_escaped_code(start)
        self.position += 1
        return ord(self.text[start])


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
