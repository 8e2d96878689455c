"""Errors of kind with a reason and message for a condition, and a hint. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.objects.errors import ShoalError

LONGEST = 1000
KIND_NOT_FOUND, ENGINE_NOT_FOUND, ENGINE_UNAVAILABLE = "KindNotFound", "EngineNotFound", "EngineUnavailable"
ALREADY_EXISTS, TIMED_OUT, FAILED = "AlreadyExists", "TimedOut", "CommandFailed"

_UNAVAILABLE = (
    "cannot connect to the docker daemon",
    "cannot connect to podman",
    "unable to connect to podman",
    "cannot access containerd socket",
    "docker daemon socket",
    "rootless containerd not running",
    "failed to connect to the docker api",
)
"""Messages of the engines that are installed but do not respond."""


class Problem(ShoalError):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message[:LONGEST]


def kind_missing(program: str) -> Problem:
    return Problem(
        KIND_NOT_FOUND,
        f"the command {program} was not found: install kind (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)"
        " where Shoal runs, in its PATH",
    )


def engine_missing(engines: Sequence[str]) -> Problem:
    if len(engines) == 1:
        return Problem(
            ENGINE_NOT_FOUND, f"the container engine {engines[0]} was not found: install it where Shoal runs"
        )
    return Problem(
        ENGINE_NOT_FOUND,
        "no container engine was found: install Docker (https://docs.docker.com/engine/install/), Podman or nerdctl"
        " where Shoal runs",
    )


def timed_out(what: str, seconds: float) -> Problem:
    return Problem(TIMED_OUT, f"kind {what} did not end within {seconds:.0f} s")


def failure(what: str, said: Iterable[str]) -> Problem:
    """Built from the last lines of a failed kind."""
    lines = [line for line in said if line]
    words = _summary(lines) or "it said nothing"
    lower = words.lower()
    if any(known in lower for known in _UNAVAILABLE):
        return Problem(ENGINE_UNAVAILABLE, f"the container engine does not answer, start it: {words}")
    if "already exist for a cluster with the name" in lower:
        return Problem(ALREADY_EXISTS, words)
    return Problem(FAILED, f"kind {what}: {words}")


def _summary(lines: list[str]) -> str:
    """kind's own error, and the last line of the program it called, which has the cause."""
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR: ")]
    if not errors:
        return lines[-1] if lines else ""
    error = lines[errors[-1]].removeprefix("ERROR: ")
    last = lines[-1].removeprefix("Command Output: ")
    return error if errors[-1] == len(lines) - 1 else f"{error[: LONGEST // 2]}: {last}"
