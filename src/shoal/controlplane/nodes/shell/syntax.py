"""Parses a script into a syntax tree. Pure.

Supported: words with quotes, `$NAME`, `$(command)` and `$((arithmetic))`; `;`, `&&`, `||`, `!`, `{ }`; if, while,
until; functions. Pipes, redirections, background jobs, case, for, globs and the rest of a shell raise `UnknownOutcome`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


class Unknown(Exception):
    """The outcome is unknown without running the script."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Substitution:
    script: Script
    quoted: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    text: str


Word: TypeAlias = "tuple[Text | Variable | Substitution | Arithmetic, ...]"
"""Concatenated parts. A quoted empty word has one empty part."""


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]

    @property
    def all_words(self) -> tuple[Word, ...]:
        return (*self.words, *(word for _, word in self.assignments))


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Script, Script], ...]
    otherwise: Script


@dataclass(frozen=True, slots=True)
class Loop:
    condition: Script
    body: Script
    until: bool


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: Script


@dataclass(frozen=True, slots=True)
class Group:
    body: Script


Command: TypeAlias = "Simple | If | Loop | Function | Group"


@dataclass(frozen=True, slots=True)
class Step:
    joined: str
    """`;`, `&&` or `||`: the connector to the previous step."""
    command: Command
    negated: bool = False


Script: TypeAlias = "tuple[Step, ...]"

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
FUNCTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*\([ \t]*\)\s*\{(?=\s)")
BLANK, PLAIN_END, SPECIAL = " \t", " \t\n;&|<>()", "*?~"
ENDS = ("then", "elif", "else", "fi", "do", "done", "}")
REFUSED = ("for", "case", "select", "esac", "in", "function", "time", "coproc", "((")
TESTS = ("[", "]", "[[", "]]")
LONGEST, DEEPEST = 10_000, 10


def parse(text: str) -> Script:
    script = _Parser(text).script() if len(text) <= LONGEST else ()
    if not script:
        raise Unknown(text)
    return script


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def script(self, *until: str) -> Script:
        """Parses steps up to one of the words, which is not consumed; without one, to the end."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unknown(self.text)
        steps: list[Step] = []
        joined = ";"
        while True:
            self._gap(lines=True)
            if self.at >= len(self.text) or self._peek() in until:
                break
            steps.append(self._step(joined))
            joined = self._joint()
        if joined != ";" or (until and self.at >= len(self.text)):
            raise Unknown(self.text)
        self.depth -= 1
        return tuple(steps)

    def _step(self, joined: str) -> Step:
        negated = self._peek() == "!"
        if negated:
            self._expect("!")
            self._gap()
        return Step(joined, self._command(), negated)

    def _joint(self) -> str:
        self._gap()
        for mark in ("&&", "||"):
            if self.text.startswith(mark, self.at):
                self.at += 2
                return mark
        here = self.text[self.at : self.at + 1]
        if here in ("", "\n"):
            self.at += len(here)
        elif here == ";" and not self.text.startswith(";;", self.at):
            self.at += 1
        elif here != ")":
            raise Unknown(here)
        return ";"

    def _command(self) -> Command:
        match self._peek():
            case "if":
                return self._if()
            case "while" | "until" as kind:
                self._expect(kind)
                condition = self._block("do")
                return Loop(condition, self._block("done"), until=kind == "until")
            case "{":
                self._expect("{")
                return Group(self._block("}"))
            case word if word in ENDS or word in REFUSED:
                raise Unknown(word)
        return self._function() or self._simple()

    def _if(self) -> If:
        self._expect("if")
        branches: list[tuple[Script, Script]] = []
        while True:
            condition = self._block("then")
            body = self.script("elif", "else", "fi")
            branches.append((condition, body))
            if not body:
                raise Unknown("then")
            ending = self._peek()
            self._expect(ending)
            if ending != "elif":
                return If(tuple(branches), self._block("fi") if ending == "else" else ())

    def _block(self, ending: str) -> Script:
        body = self.script(ending)
        if not body:
            raise Unknown(ending)
        self._expect(ending)
        return body

    def _function(self) -> Function | None:
        found = FUNCTION.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return Function(found[1], self._block("}"))

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        while True:
            self._gap()
            if self.at >= len(self.text) or self.text[self.at] in "\n;&|)":
                break
            assigned = None if words else ASSIGNED.match(self.text, self.at)
            if assigned is not None:
                self.at = assigned.end()
                assignments.append((assigned[1], self._word()))
            else:
                words.append(self._word())
        if not words and not assignments:
            raise Unknown(self.text)
        return Simple(tuple(assignments), tuple(words))

    def _word(self) -> Word:
        parts: list[Text | Variable | Substitution | Arithmetic] = []
        bare = self._peek() in TESTS
        while self.at < len(self.text) and self.text[self.at] not in PLAIN_END:
            here = self.text[self.at]
            if here == "'":
                end = self._find("'", self.at + 1)
                parts.append(Text(self.text[self.at + 1 : end]))
                self.at = end + 1
            elif here == '"':
                self.at += 1
                parts += [Text(""), *self._quoted()]
            elif here == "\\":
                parts.append(Text(self.text[self.at + 1 : self.at + 2].replace("\n", "")))
                self.at += 2
            elif here == "$":
                parts.append(self._dollar(quoted=False))
            elif here in "`" + SPECIAL or (here in "[]{}" and not bare):
                raise Unknown(here)
            else:
                parts.append(Text(here))
                self.at += 1
        if self.at < len(self.text) and self.text[self.at] in "<>(":
            raise Unknown(self.text[self.at])
        return tuple(parts)

    def _quoted(self) -> list[Text | Variable | Substitution | Arithmetic]:
        parts: list[Text | Variable | Substitution | Arithmetic] = []
        while True:
            if self.at >= len(self.text) or self.text[self.at] == "`":
                raise Unknown('"')
            here = self.text[self.at]
            if here == '"':
                self.at += 1
                return parts
            if here == "$":
                parts.append(self._dollar(quoted=True))
                continue
            if here == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\"):
                self.at += 1
                here = self.text[self.at]
            parts.append(Text(here))
            self.at += 1

    def _dollar(self, quoted: bool) -> Text | Variable | Substitution | Arithmetic:
        text, start = self.text, self.at
        if text.startswith("$((", start):
            end = self._find("))", start)
            self.at = end + 2
            return Arithmetic(text[start + 3 : end])
        if text.startswith("$(", start):
            self.at += 2
            return Substitution(self._block(")"), quoted)
        braced = text.startswith("${", start)
        name = NAME.match(text, start + 1 + braced)
        if name is not None:
            self.at = name.end()
            if braced:
                self._expect("}")
            return Variable(name[0], quoted)
        if text.startswith("$?", start):
            self.at += 2
            return Variable("?", quoted)
        raise Unknown(text[start : start + 2])

    def _gap(self, lines: bool = False) -> None:
        text = self.text
        while self.at < len(text):
            if text[self.at] in BLANK or (lines and text[self.at] in "\n"):
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#":
                self.at = min(end for end in (text.find("\n", self.at), len(text)) if end >= 0)
            else:
                return

    def _peek(self) -> str:
        """Returns the next word as written, or a closing parenthesis."""
        if self.text.startswith(")", self.at):
            return ")"
        end = self.at
        while end < len(self.text) and self.text[end] not in PLAIN_END:
            end += 1
        return self.text[self.at : end]

    def _expect(self, word: str) -> None:
        if not self.text.startswith(word, self.at):
            raise Unknown(word)
        self.at += len(word)

    def _find(self, mark: str, start: int) -> int:
        end = self.text.find(mark, start)
        if end < 0:
            raise Unknown(mark)
        return end
