"""Interprets a parsed script and returns its duration, exit code and created files. Pure: nothing sleeps.

Anything that depends on unknown state (an unset variable, a file of the image, a program) raises `UnknownOutcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shoal.controlplane.kubelet.shell.arithmetic import evaluate, evaluate_expr, parse_number
from shoal.controlplane.kubelet.shell.parser import (
    ArithmeticPart,
    Command,
    CommandGroup,
    FunctionDefinition,
    IfCommand,
    LoopCommand,
    Script,
    SimpleCommand,
    SubstitutionPart,
    TextPart,
    UnknownOutcome,
    VariablePart,
    Word,
    parse_script,
)

FOREVER = 10.0 * 365 * 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_STEPS, MAX_CALL_DEPTH = 2000, 5
TERM_SIGNALS, EXIT_SIGNALS = {"TERM", "SIGTERM", "15"}, {"EXIT", "0"}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__, "-gt": int.__gt__, "-ge": int.__ge__,
}  # fmt: skip

FileExists = Callable[[str], bool]
"""Returns whether a file existed when the script began; raises `UnknownOutcome`."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    seconds: float
    """Counted from its start."""
    exit_code: int
    on_sigterm: CommandOutcome | None = None
    """Outcome from the moment of SIGTERM; None if SIGTERM kills it at once."""
    files: tuple[str, ...] = ()
    """Files created by the script."""


def run_script(script: Script, variables: Mapping[str, str], exists: FileExists) -> CommandOutcome:
    shell = _Interpreter(variables, exists)
    shell.run_to_end(script)
    outcome = CommandOutcome(shell.seconds, shell.exit_code, files=tuple(shell.files))
    return replace(outcome, on_sigterm=shell.sigterm_outcome())


def run_command(words: tuple[str, ...]) -> CommandOutcome:
    """Runs a command without a shell, which has no files or variables."""
    shell = _Interpreter({}, unknown_file)
    shell.run_program(words)
    return CommandOutcome(shell.seconds, shell.exit_code)


def unknown_file(path: str) -> bool:
    raise UnknownOutcome(path)


class _ScriptExit(Exception):
    """Leaves a script, function or substitution."""


class _Interpreter:
    def __init__(self, variables: Mapping[str, str], exists: FileExists) -> None:
        self.seconds, self.exit_code = 0.0, 0
        self.files: dict[str, None] = {}
        self._variables, self._exists = dict(variables), exists
        self._functions: dict[str, Script] = {}
        self._trap: str | None = None
        self._output = ""
        self._steps = self._calls = 0

    def run_to_end(self, script: Script) -> bool:
        """Returns whether the script exited explicitly."""
        try:
            self.run_steps(script)
        except _ScriptExit:
            return True
        return False

    def sigterm_outcome(self) -> CommandOutcome | None:
        """Returns the outcome of the trap, which runs last. If the trap does not exit, the script continues until it is
        killed.
        """
        if self._trap is None:
            return None
        self.seconds = 0.0
        exited = bool(self._trap) and self.run_to_end(parse_script(self._trap))
        return CommandOutcome(self.seconds, self.exit_code) if exited else CommandOutcome(FOREVER, 137)

    def run_steps(self, script: Script) -> None:
        for step in script:
            if (step.connector == "&&" and self.exit_code != 0) or (step.connector == "||" and self.exit_code == 0):
                continue
            self._run_command(step.command)
            if step.negated:
                self.exit_code = int(self.exit_code == 0)

    def _run_command(self, command: Command) -> None:
        match command:
            case SimpleCommand():
                self._run_simple(command)
            case IfCommand():
                self._run_if(command)
            case LoopCommand():
                self._run_loop(command)
            case CommandGroup(body):
                self.run_steps(body)
            case FunctionDefinition(name, body):
                self._functions[name], self.exit_code = body, 0

    def _run_if(self, command: IfCommand) -> None:
        for condition, body in command.branches:
            self.run_steps(condition)
            if self.exit_code == 0:
                self.run_steps(body)
                return
        if not command.else_body:
            self.exit_code = 0
        self.run_steps(command.else_body)

    def _run_loop(self, loop: LoopCommand) -> None:
        """An iteration that changes nothing repeats for ever."""
        code = 0
        while True:
            before = (dict(self._variables), len(self.files), self.exit_code)
            self.run_steps(loop.condition)
            if (self.exit_code == 0) == loop.until:
                self.exit_code = code
                return
            self.run_steps(loop.body)
            code = self.exit_code
            if before == (self._variables, len(self.files), self.exit_code):
                self.seconds, self.exit_code = FOREVER, 0
                raise _ScriptExit

    def _run_simple(self, command: SimpleCommand) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS or (command.assignments and command.words):
            raise UnknownOutcome("steps")
        words = tuple(field for word in command.words for field in self._expand(word))
        for name, word in command.assignments:
            self._variables[name] = "".join(self._expand(word))
        if words:
            self._call(words)
        elif not any(isinstance(part, SubstitutionPart) for word in command.all_words for part in word):
            self.exit_code = 0

    def _call(self, words: tuple[str, ...]) -> None:
        match words:
            case (name, *arguments) if name in self._functions:
                if arguments or self._calls == MAX_CALL_DEPTH:
                    raise UnknownOutcome(name)
                self._calls += 1
                self.run_steps(self._functions[name])
                self._calls -= 1
            case ("exit",):
                raise _ScriptExit
            case ("exit", code) if 0 <= parse_number(code) < 256:
                self.exit_code = parse_number(code)
                raise _ScriptExit
            case ("trap", action, *signals) if signals and not EXIT_SIGNALS & set(signals):
                self.exit_code = 0
                if TERM_SIGNALS & set(signals):
                    self._trap = None if action == "-" else action
            case ("exec", *rest) if rest:
                self.run_program(tuple(rest))
                raise _ScriptExit
            case _:
                self.run_program(words)

    def run_program(self, words: tuple[str, ...]) -> None:
        match [words[0].rpartition("/")[2], *words[1:]]:
            case ["true" | ":"]:
                self.exit_code = 0
            case ["false"]:
                self.exit_code = 1
            case ["echo", *words_to_print] if not words_to_print or not words_to_print[0].startswith("-"):
                self._output, self.exit_code = f"{self._output}{' '.join(words_to_print)}\n", 0
            case ["sleep", length]:
                self.seconds, self.exit_code = self.seconds + _parse_sleep(length), 0
            case ["expr", *rest]:
                value = evaluate_expr(rest)
                self._output, self.exit_code = f"{self._output}{value}\n", int(value == 0)
            case ["touch", *paths] if paths and all(path.startswith("/") for path in paths):
                for path in paths:
                    self._exists(path)
                    self.files[path] = None
                self.exit_code = 0
            case ["test", *rest] | ["[", *rest, "]"] | ["[[", *rest, "]]"]:
                self.exit_code = int(not self._test(rest))
            case _:
                raise UnknownOutcome(words[0])

    def _test(self, words: list[str]) -> bool:
        match words:
            case ["!", *rest]:
                return not self._test(rest)
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
            case [left, sign, right] if sign in COMPARISONS:
                return COMPARISONS[sign](parse_number(left), parse_number(right))
        raise UnknownOutcome("test")

    def _expand(self, word: Word) -> list[str]:
        """Returns no field for an unquoted empty value. Raises `UnknownOutcome` for values that a shell would split or
        expand as a pattern.
        """
        joined, quoted = "", not word
        for part in word:
            value, bare = self._expand_part(part)
            if bare and any(letter in " \t\n*?[" for letter in value):
                raise UnknownOutcome(value)
            joined, quoted = joined + value, quoted or not bare
        return [joined] if joined or quoted else []

    def _expand_part(self, part: TextPart | VariablePart | SubstitutionPart | ArithmeticPart) -> tuple[str, bool]:
        """Returns the value, and whether it is unquoted."""
        match part:
            case TextPart(text):
                return text, False
            case VariablePart(name, quoted):
                if name != "?" and name not in self._variables:
                    raise UnknownOutcome(name)
                return str(self.exit_code) if name == "?" else self._variables[name], not quoted
            case ArithmeticPart(text):
                return str(evaluate(text, self._variables)), False
            case SubstitutionPart(script, quoted):
                return self._substitute(script), not quoted

    def _substitute(self, script: Script) -> str:
        outer_output, variables, trap, self._output = self._output, self._variables, self._trap, ""
        self._variables = dict(variables)
        self.run_to_end(script)
        output, self._output, self._variables, self._trap = self._output, outer_output, variables, trap
        return output.rstrip("\n")


def _parse_sleep(length: str) -> float:
    if length in ("infinity", "inf"):
        return FOREVER
    unit = UNITS.get(length[-1:], 0)
    plain = length[:-1] if unit else length
    whole, _, rest = plain.partition(".")
    if not whole.isdigit() or not (rest or "0").isdigit() or not plain.isascii() or len(plain) > 18:
        raise UnknownOutcome(length)
    return float(plain) * (unit or 1)
