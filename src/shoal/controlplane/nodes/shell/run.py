"""Interprets a parsed script and returns its duration, exit code and created files. Pure: nothing sleeps.

Anything that depends on unknown state (an unset variable, a file of the image, a program) raises `UnknownOutcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shoal.controlplane.nodes.shell.numbers import arithmetic, expression, number
from shoal.controlplane.nodes.shell.syntax import (
    Arithmetic,
    Command,
    Function,
    Group,
    If,
    Loop,
    Script,
    Simple,
    Substitution,
    Text,
    Unknown,
    Variable,
    Word,
    parse,
)

FOREVER = 10.0 * 365 * 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_STEPS, MOST_CALLS = 2000, 5
TERM, AT_EXIT = {"TERM", "SIGTERM", "15"}, {"EXIT", "0"}
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__, "-gt": int.__gt__, "-ge": int.__ge__,
}  # fmt: skip

Exists = Callable[[str], bool]
"""Returns whether a file existed when the script began; raises `UnknownOutcome`."""


@dataclass(frozen=True, slots=True)
class Ending:
    seconds: float
    """Counted from its start."""
    code: int
    stop: Ending | None = None
    """Outcome from the moment of SIGTERM; None if SIGTERM kills it at once."""
    files: tuple[str, ...] = ()
    """Files created by the script."""


def run(script: Script, variables: Mapping[str, str], exists: Exists) -> Ending:
    shell = _Shell(variables, exists)
    shell.to_end(script)
    ending = Ending(shell.seconds, shell.code, files=tuple(shell.files))
    return replace(ending, stop=shell.stop())


def run_words(words: tuple[str, ...]) -> Ending:
    """Runs a command without a shell, which has no files or variables."""
    shell = _Shell({}, nobody_knows)
    shell.program(words)
    return Ending(shell.seconds, shell.code)


def nobody_knows(path: str) -> bool:
    raise Unknown(path)


class _Exit(Exception):
    """Leaves a script, function or substitution."""


class _Shell:
    def __init__(self, variables: Mapping[str, str], exists: Exists) -> None:
        self.seconds, self.code = 0.0, 0
        self.files: dict[str, None] = {}
        self._variables, self._exists = dict(variables), exists
        self._functions: dict[str, Script] = {}
        self._trap: str | None = None
        self._output = ""
        self._steps = self._calls = 0

    def to_end(self, script: Script) -> bool:
        """Returns whether the script exited explicitly."""
        try:
            self.script(script)
        except _Exit:
            return True
        return False

    def stop(self) -> Ending | None:
        """Returns the outcome of the trap, which runs last. If the trap does not exit, the script continues until it is
        killed.
        """
        if self._trap is None:
            return None
        self.seconds = 0.0
        left = bool(self._trap) and self.to_end(parse(self._trap))
        return Ending(self.seconds, self.code) if left else Ending(FOREVER, 137)

    def script(self, script: Script) -> None:
        for step in script:
            if (step.joined == "&&" and self.code != 0) or (step.joined == "||" and self.code == 0):
                continue
            self._command(step.command)
            if step.negated:
                self.code = int(self.code == 0)

    def _command(self, command: Command) -> None:
        match command:
            case Simple():
                self._simple(command)
            case If():
                self._if(command)
            case Loop():
                self._loop(command)
            case Group(body):
                self.script(body)
            case Function(name, body):
                self._functions[name], self.code = body, 0

    def _if(self, command: If) -> None:
        for condition, body in command.branches:
            self.script(condition)
            if self.code == 0:
                self.script(body)
                return
        if not command.otherwise:
            self.code = 0
        self.script(command.otherwise)

    def _loop(self, loop: Loop) -> None:
        """An iteration that changes nothing repeats for ever."""
        code = 0
        while True:
            before = (dict(self._variables), len(self.files), self.code)
            self.script(loop.condition)
            if (self.code == 0) == loop.until:
                self.code = code
                return
            self.script(loop.body)
            code = self.code
            if before == (self._variables, len(self.files), self.code):
                self.seconds, self.code = FOREVER, 0
                raise _Exit

    def _simple(self, command: Simple) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS or (command.assignments and command.words):
            raise Unknown("steps")
        words = tuple(field for word in command.words for field in self._fields(word))
        for name, word in command.assignments:
            self._variables[name] = "".join(self._fields(word))
        if words:
            self._called(words)
        elif not any(isinstance(part, Substitution) for word in command.all_words for part in word):
            self.code = 0

    def _called(self, words: tuple[str, ...]) -> None:
        match words:
            case (name, *given) if name in self._functions:
                if given or self._calls == MOST_CALLS:
                    raise Unknown(name)
                self._calls += 1
                self.script(self._functions[name])
                self._calls -= 1
            case ("exit",):
                raise _Exit
            case ("exit", code) if 0 <= number(code) < 256:
                self.code = number(code)
                raise _Exit
            case ("trap", action, *signals) if signals and not AT_EXIT & set(signals):
                self.code = 0
                if TERM & set(signals):
                    self._trap = None if action == "-" else action
            case ("exec", *rest) if rest:
                self.program(tuple(rest))
                raise _Exit
            case _:
                self.program(words)

    def program(self, words: tuple[str, ...]) -> None:
        match [words[0].rpartition("/")[2], *words[1:]]:
            case ["true" | ":"]:
                self.code = 0
            case ["false"]:
                self.code = 1
            case ["echo", *said] if not said or not said[0].startswith("-"):
                self._output, self.code = f"{self._output}{' '.join(said)}\n", 0
            case ["sleep", length]:
                self.seconds, self.code = self.seconds + _seconds(length), 0
            case ["expr", *rest]:
                found = expression(rest)
                self._output, self.code = f"{self._output}{found}\n", int(found == 0)
            case ["touch", *paths] if paths and all(path.startswith("/") for path in paths):
                for path in paths:
                    self._exists(path)
                    self.files[path] = None
                self.code = 0
            case ["test", *rest] | ["[", *rest, "]"] | ["[[", *rest, "]]"]:
                self.code = int(not self._holds(rest))
            case _:
                raise Unknown(words[0])

    def _holds(self, words: list[str]) -> bool:
        match words:
            case ["!", *rest]:
                return not self._holds(rest)
            case ["-n", text] | [text]:
                return bool(text)
            case ["-z", text]:
                return not text
            case ["-e" | "-f" | "-r" | "-w", path] if path.startswith("/"):
                return path in self.files or self._exists(path)
            case [left, "=" | "==", right]:
                return left == right
            case [left, "!=", right]:
                return left != right
            case [left, sign, right] if sign in COMPARED:
                return COMPARED[sign](number(left), number(right))
        raise Unknown("test")

    def _fields(self, word: Word) -> list[str]:
        """Returns no field for an unquoted empty value. Raises `UnknownOutcome` for values that a shell would split or
        expand as a pattern.
        """
        joined, quoted = "", not word
        for part in word:
            value, bare = self._value(part)
            if bare and any(letter in " \t\n*?[" for letter in value):
                raise Unknown(value)
            joined, quoted = joined + value, quoted or not bare
        return [joined] if joined or quoted else []

    def _value(self, part: Text | Variable | Substitution | Arithmetic) -> tuple[str, bool]:
        """Returns the value, and whether it is unquoted."""
        match part:
            case Text(text):
                return text, False
            case Variable(name, quoted):
                if name != "?" and name not in self._variables:
                    raise Unknown(name)
                return str(self.code) if name == "?" else self._variables[name], not quoted
            case Arithmetic(text):
                return str(arithmetic(text, self._variables)), False
            case Substitution(script, quoted):
                return self._substituted(script), not quoted

    def _substituted(self, script: Script) -> str:
        before, variables, trap, self._output = self._output, self._variables, self._trap, ""
        self._variables = dict(variables)
        self.to_end(script)
        made, self._output, self._variables, self._trap = self._output, before, variables, trap
        return made.rstrip("\n")


def _seconds(length: str) -> float:
    if length in ("infinity", "inf"):
        return FOREVER
    unit = UNITS.get(length[-1:], 0)
    plain = length[:-1] if unit else length
    whole, _, rest = plain.partition(".")
    if not whole.isdigit() or not (rest or "0").isdigit() or not plain.isascii() or len(plain) > 18:
        raise Unknown(length)
    return float(plain) * (unit or 1)
