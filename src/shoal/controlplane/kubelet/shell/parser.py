"""Parses a script into a syntax tree. Pure.

Supported: words with quotes, `$NAME`, `$(command)` and `$((arithmetic))`; `;`, `&&`, `||`, `!`, `{ }`; if, while,
until; functions. Pipes, redirections, background jobs, case, for, globs and the rest of a shell raise `UnknownOutcome`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


class UnknownOutcome(Exception):
    """The outcome is unknown without running the script."""


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class VariablePart:
    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class SubstitutionPart:
    script: Script
    quoted: bool


@dataclass(frozen=True, slots=True)
class ArithmeticPart:
    text: str


Word: TypeAlias = "tuple[TextPart | VariablePart | SubstitutionPart | ArithmeticPart, ...]"
"""Concatenated parts. A quoted empty word has one empty part."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]

    @property
    def all_words(self) -> tuple[Word, ...]:
        return (*self.words, *(word for _, word in self.assignments))


@dataclass(frozen=True, slots=True)
class IfCommand:
    branches: tuple[tuple[Script, Script], ...]
    else_body: Script


@dataclass(frozen=True, slots=True)
class LoopCommand:
    condition: Script
    body: Script
    until: bool


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    name: str
    body: Script


@dataclass(frozen=True, slots=True)
class CommandGroup:
    body: Script


Command: TypeAlias = "SimpleCommand | IfCommand | LoopCommand | FunctionDefinition | CommandGroup"


@dataclass(frozen=True, slots=True)
class ScriptStep:
    connector: str
    """`;`, `&&` or `||`: the connector to the previous step."""
    command: Command
    negated: bool = False


Script: TypeAlias = "tuple[ScriptStep, ...]"

match_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").match
match_assignment = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=").match
match_function = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*\([ \t]*\)\s*\{(?=\s)").match
BLANK, PLAIN_END, SPECIAL = " \t", " \t\n;&|<>()", "*?~"
TERMINATORS = ("then", "elif", "else", "fi", "do", "done", "}")
UNSUPPORTED_WORDS = ("for", "case", "select", "esac", "in", "function", "time", "coproc", "((")
TESTS = ("[", "]", "[[", "]]")
MAX_LENGTH, MAX_DEPTH = 10_000, 10


def parse_script(text: str) -> Script:
    script = _ScriptParser(text).parse_steps() if len(text) <= MAX_LENGTH else ()
    if not script:
        raise UnknownOutcome(text)
    return script


class _ScriptParser:
    def __init__(self, text: str) -> None:
        self.text, self.position, self.depth = text, 0, 0

    def parse_steps(self, *until: str) -> Script:
        """Parses steps up to one of the words, which is not consumed; without one, to the end."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnknownOutcome(self.text)
        steps: list[ScriptStep] = []
        connector = ";"
        while True:
            self._skip_blanks(lines=True)
            if self.position >= len(self.text) or self._peek() in until:
                break
            steps.append(self._parse_step(connector))
            connector = self._parse_connector()
        if connector != ";" or (until and self.position >= len(self.text)):
            raise UnknownOutcome(self.text)
        self.depth -= 1
        return tuple(steps)

    def _parse_step(self, connector: str) -> ScriptStep:
        negated = self._peek() == "!"
        if negated:
            self._expect("!")
            self._skip_blanks()
        return ScriptStep(connector, self._parse_command(), negated)

    def _parse_connector(self) -> str:
        self._skip_blanks()
        for mark in ("&&", "||"):
            if self.text.startswith(mark, self.position):
                self.position += 2
                return mark
        char = self.text[self.position : self.position + 1]
        if char in ("", "\n"):
            self.position += len(char)
        elif char == ";" and not self.text.startswith(";;", self.position):
            self.position += 1
        elif char != ")":
            raise UnknownOutcome(char)
        return ";"

    def _parse_command(self) -> Command:
        match self._peek():
            case "if":
                return self._parse_if()
            case "while" | "until" as kind:
                self._expect(kind)
                condition = self._parse_block("do")
                return LoopCommand(condition, self._parse_block("done"), until=kind == "until")
            case "{":
                self._expect("{")
                return CommandGroup(self._parse_block("}"))
            case word if word in TERMINATORS or word in UNSUPPORTED_WORDS:
                raise UnknownOutcome(word)
        return self._parse_function() or self._parse_simple()

    def _parse_if(self) -> IfCommand:
        self._expect("if")
        branches: list[tuple[Script, Script]] = []
        while True:
            condition = self._parse_block("then")
            body = self.parse_steps("elif", "else", "fi")
            branches.append((condition, body))
            if not body:
                raise UnknownOutcome("then")
            terminator = self._peek()
            self._expect(terminator)
            if terminator != "elif":
                return IfCommand(tuple(branches), self._parse_block("fi") if terminator == "else" else ())

    def _parse_block(self, terminator: str) -> Script:
        body = self.parse_steps(terminator)
        if not body:
            raise UnknownOutcome(terminator)
        self._expect(terminator)
        return body

    def _parse_function(self) -> FunctionDefinition | None:
        match = match_function(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return FunctionDefinition(match[1], self._parse_block("}"))

    def _parse_simple(self) -> SimpleCommand:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        while True:
            self._skip_blanks()
            if self.position >= len(self.text) or self.text[self.position] in "\n;&|)":
                break
            assigned = None if words else match_assignment(self.text, self.position)
            if assigned is not None:
                self.position = assigned.end()
                assignments.append((assigned[1], self._parse_word()))
            else:
                words.append(self._parse_word())
        if not words and not assignments:
            raise UnknownOutcome(self.text)
        return SimpleCommand(tuple(assignments), tuple(words))

    def _parse_word(self) -> Word:
        parts: list[TextPart | VariablePart | SubstitutionPart | ArithmeticPart] = []
        bare = self._peek() in TESTS
        while self.position < len(self.text) and self.text[self.position] not in PLAIN_END:
            char = self.text[self.position]
            if char == "'":
                end = self._find("'", self.position + 1)
                parts.append(TextPart(self.text[self.position + 1 : end]))
                self.position = end + 1
            elif char == '"':
                self.position += 1
                parts += [TextPart(""), *self._parse_quoted()]
            elif char == "\\":
                parts.append(TextPart(self.text[self.position + 1 : self.position + 2].replace("\n", "")))
                self.position += 2
            elif char == "$":
                parts.append(self._parse_dollar(quoted=False))
            elif char in "`" + SPECIAL or (char in "[]{}" and not bare):
                raise UnknownOutcome(char)
            else:
                parts.append(TextPart(char))
                self.position += 1
        if self.position < len(self.text) and self.text[self.position] in "<>(":
            raise UnknownOutcome(self.text[self.position])
        return tuple(parts)

    def _parse_quoted(self) -> list[TextPart | VariablePart | SubstitutionPart | ArithmeticPart]:
        parts: list[TextPart | VariablePart | SubstitutionPart | ArithmeticPart] = []
        while True:
            if self.position >= len(self.text) or self.text[self.position] == "`":
                raise UnknownOutcome('"')
            char = self.text[self.position]
            if char == '"':
                self.position += 1
                return parts
            if char == "$":
                parts.append(self._parse_dollar(quoted=True))
                continue
            if char == "\\" and self.text[self.position + 1 : self.position + 2] in ("$", "`", '"', "\\"):
                self.position += 1
                char = self.text[self.position]
            parts.append(TextPart(char))
            self.position += 1

    def _parse_dollar(self, quoted: bool) -> TextPart | VariablePart | SubstitutionPart | ArithmeticPart:
        text, start = self.text, self.position
        if text.startswith("$((", start):
            end = self._find("))", start)
            self.position = end + 2
            return ArithmeticPart(text[start + 3 : end])
        if text.startswith("$(", start):
            self.position += 2
            return SubstitutionPart(self._parse_block(")"), quoted)
        braced = text.startswith("${", start)
        name = match_name(text, start + 1 + braced)
        if name is not None:
            self.position = name.end()
            if braced:
                self._expect("}")
            return VariablePart(name[0], quoted)
        if text.startswith("$?", start):
            self.position += 2
            return VariablePart("?", quoted)
        raise UnknownOutcome(text[start : start + 2])

    def _skip_blanks(self, lines: bool = False) -> None:
        text = self.text
        while self.position < len(text):
            if text[self.position] in BLANK or (lines and text[self.position] in "\n"):
                self.position += 1
            elif text.startswith("\\\n", self.position):
                self.position += 2
            elif text[self.position] == "#":
                self.position = min(end for end in (text.find("\n", self.position), len(text)) if end >= 0)
            else:
                return

    def _peek(self) -> str:
        """Returns the next word as written, or a closing parenthesis."""
        if self.text.startswith(")", self.position):
            return ")"
        end = self.position
        while end < len(self.text) and self.text[end] not in PLAIN_END:
            end += 1
        return self.text[self.position : end]

    def _expect(self, word: str) -> None:
        if not self.text.startswith(word, self.position):
            raise UnknownOutcome(word)
        self.position += len(word)

    def _find(self, mark: str, start: int) -> int:
        end = self.text.find(mark, start)
        if end < 0:
            raise UnknownOutcome(mark)
        return end
