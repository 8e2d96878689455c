"""Which commands a shell script has: their words, what they are given on standard input, and where they write.

Enough of a shell for documentation: quotes, comments, pipes, lists, loops, substitutions, redirections and here
documents. Nothing is expanded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_KEYWORDS = {"do", "then", "else", "if", "elif", "while", "until", "!", "time", "{", "exec", "command", "nice", "sudo"}
_NOT_COMMANDS = {"for", "case", "done", "fi", "esac", "}", "function", "export", "set", "cd"}
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTED = re.compile(r"(\d?)(<<-?|>>|>&|<&|&>|>|<)(?!\()")


@dataclass(slots=True)
class Command:
    words: list[str]
    given: str | None = None
    """A here document."""
    writes: str | None = None
    """The file its standard output goes to."""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


@dataclass(slots=True)
class _Reader:
    script: str
    at: int = 0
    found: list[Command] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    word: str | None = None
    target: str = ""
    """The redirection whose file comes next."""
    writes: str | None = None
    waiting: list[tuple[str, Command]] = field(default_factory=list)
    """Here documents that begin with the next line."""
    delimiters: list[str] = field(default_factory=list)

    def read(self) -> list[Command]:
        while self.at < len(self.script):
            self._next()
        self._end_command()
        return [command for command in self.found if command.words]

    def _next(self) -> None:
        char = self.script[self.at]
        redirected = _REDIRECTED.match(self.script, self.at) if self.word is None or char in "<>" else None
        if self.script.startswith("\\\n", self.at):
            self.at += 2
        elif char == "\\":
            self._add(self.script[self.at + 1 : self.at + 2], 2)
        elif char == "'":
            end = self.script.index("'", self.at + 1)
            self._add(self.script[self.at + 1 : end], end + 1 - self.at)
        elif char == '"':
            self._quoted()
        elif self.script.startswith(("$(", "<("), self.at):
            self._substituted()
        elif char == "#" and self.word is None:
            self.at = _index(self.script, "\n", self.at)
        elif redirected:
            self._end_word()
            self.target = redirected[2]
            self.at = redirected.end()
        elif char == "\n":
            self._end_command()
            self.at += 1
            self._here_documents()
        elif char in ";|&()":
            self._end_command()
            self.at += 1
        elif char.isspace():
            self._end_word()
            self.at += 1
        else:
            self._add(char, 1)

    def _add(self, text: str, length: int) -> None:
        self.word = (self.word or "") + text
        self.at += length

    def _quoted(self) -> None:
        end = self.at + 1
        while self.script[end] != '"':
            if self.script.startswith("$(", end):
                close = _closing(self.script, end + 1)
                self.found += _Reader(self.script[end + 2 : close]).read()
                end = close
            end += 2 if self.script[end] == "\\" else 1
        self._add(self.script[self.at + 1 : end], end + 1 - self.at)

    def _substituted(self) -> None:
        close = _closing(self.script, self.at + 1)
        if not self.script.startswith("$((", self.at):
            self.found += _Reader(self.script[self.at + 2 : close]).read()
        self._add(self.script[self.at : close + 1], close + 1 - self.at)

    def _end_word(self) -> None:
        if self.word is None:
            return
        if self.target.startswith("<<"):
            self.delimiters.append(self.word)
        elif self.target in (">", ">>"):
            self.writes = self.word
        elif not self.target:
            self.words.append(self.word)
        self.word, self.target = None, ""

    def _end_command(self) -> None:
        self._end_word()
        words = self.words
        while words and (words[0] in _KEYWORDS or _ASSIGNED.match(words[0])):
            words = words[1:]
        command = Command([] if words and words[0] in _NOT_COMMANDS else words, None, self.writes)
        self.waiting += [(delimiter, command) for delimiter in self.delimiters]
        self.found.append(command)
        self.words, self.writes, self.delimiters = [], None, []

    def _here_documents(self) -> None:
        for delimiter, command in self.waiting:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(self.script, self.at)
            assert end is not None, f"nothing ends the here document {delimiter}"
            command.given = self.script[self.at : end.start()]
            self.at = end.end()
        self.waiting.clear()


def commands(script: str) -> list[Command]:
    return _Reader(script).read()


def programs(script: str) -> set[str]:
    return {command.program for command in commands(script)}


def values(command: Command, *flags: str) -> Iterator[str]:
    """What is given for a flag that may come more than once, as `-f x`, `-fx` or `--filename=x`."""
    words = command.words
    for at, word in enumerate(words):
        if word in flags and at + 1 < len(words):
            yield words[at + 1]
        name, equals, value = word.partition("=")
        if equals and name in flags:
            yield value


def _closing(script: str, opened: int) -> int:
    """Where the parenthesis that opens there is closed."""
    depth = 0
    for at in range(opened, len(script)):
        depth += {"(": 1, ")": -1}.get(script[at], 0)
        if depth == 0:
            return at
    raise AssertionError("a parenthesis is not closed")


def _index(text: str, wanted: str, start: int) -> int:
    found = text.find(wanted, start)
    return len(text) if found < 0 else found
