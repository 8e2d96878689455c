"""CEL errors: at compilation (with the source position, formatted as cel-go does) or at evaluation."""

from __future__ import annotations

MAX_REPORTED_ERRORS = 100
"""As cel-go: each error repeats its line, so an expression could have an answer of gigabytes."""
_MAX_SNIPPET_LENGTH = 16384
_NO_OVERLOAD = "no such overload"


class CELError(Exception):
    """An evaluation without a value: `no such key: x`, `division by zero`. `&&` and `||` may absorb it."""


class CostLimitExceeded(Exception):
    """The evaluation was stopped because of its cost. Nothing absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class CELCompileError(Exception):
    """The expression is invalid. The text lists the first errors, each with its line and a marker below its place."""

    def __init__(self, source: str, errors: list[tuple[int, str]]) -> None:
        reported = sorted(errors[:MAX_REPORTED_ERRORS], key=lambda problem: problem[0])
        self.errors = [message for _, message in reported]
        lines = [_format_error(source, at, message) for at, message in reported]
        if len(errors) > len(reported):
            lines.append(f"{len(errors) - len(reported)} more errors were truncated")
        super().__init__("\n".join(lines))


def no_overload() -> CELError:
    return CELError(_NO_OVERLOAD)


def _format_error(source: str, offset: int, message: str) -> str:
    if not source:
        return f"ERROR: <input>:1:0: {message}"
    before = source[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1].replace("\t", " ")
    header = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if len(text) > _MAX_SNIPPET_LENGTH:
        return header
    dots = "".join("." if ord(char) < 128 else "\uff0e" for char in text[:column])
    mark = "^" if column >= len(text) or ord(text[column]) < 128 else "\uff3e"
    return f"{header}\n | {text}\n | {dots}{mark}"
