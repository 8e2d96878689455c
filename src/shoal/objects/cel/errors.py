"""CEL errors: at compilation (with the source position, formatted as cel-go does) or at evaluation."""

from __future__ import annotations

_SNIPPET = 16384
_NO_OVERLOAD = "no such overload"


class CelError(Exception):
    """An evaluation without a value: `no such key: x`, `division by zero`. `&&` and `||` may absorb it."""


class CostExceeded(Exception):
    """The evaluation was stopped because of its cost. Nothing absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class CompileError(Exception):
    """The expression is invalid. The text lists each error with its line and a marker below the position."""

    def __init__(self, source: str, problems: list[tuple[int, str]]) -> None:
        problems = sorted(problems, key=lambda problem: problem[0])
        self.problems = [message for _, message in problems]
        super().__init__("\n".join(_shown(source, at, message) for at, message in problems))


def no_overload() -> CelError:
    return CelError(_NO_OVERLOAD)


def _shown(source: str, at: int, message: str) -> str:
    if not source:
        return f"ERROR: <input>:1:0: {message}"
    before = source[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1].replace("\t", " ")
    shown = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if len(text) > _SNIPPET:
        return shown
    dots = "".join("." if ord(char) < 128 else "\uff0e" for char in text[:column])
    mark = "^" if column >= len(text) or ord(text[column]) < 128 else "\uff3e"
    return f"{shown}\n | {text}\n | {dots}{mark}"
