"""Errors of kind with a reason and message for a condition, and a hint. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.objects.errors import ShoalError

MAX_MESSAGE = 1000
KIND_NOT_FOUND, ENGINE_NOT_FOUND, ENGINE_UNAVAILABLE = "KindNotFound", "EngineNotFound", "EngineUnavailable"
ALREADY_EXISTS, TIMED_OUT, COMMAND_FAILED = "AlreadyExists", "TimedOut", "CommandFailed"
NAME_BUSY, NO_SPACE, LOAD_FAILED = "NameBusy", "NoSpaceLeft", "LoadFailed"
FAILURES = frozenset(
    {
        *(KIND_NOT_FOUND, ENGINE_NOT_FOUND, ENGINE_UNAVAILABLE, ALREADY_EXISTS, TIMED_OUT, COMMAND_FAILED),
        *(NAME_BUSY, NO_SPACE, LOAD_FAILED),
    }
)
"""Reasons of Events that are warnings."""

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


_NO_SPACE = ("no space left on device", "disk quota exceeded")


class KindError(ShoalError):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message[:MAX_MESSAGE]


def kind_not_found(program: str) -> KindError:
    return KindError(
        KIND_NOT_FOUND,
        f"the command {program} was not found: install kind (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)"
        " where Shoal runs, in its PATH",
    )


def engine_not_found(engines: Sequence[str]) -> KindError:
    if len(engines) == 1:
        return KindError(
            ENGINE_NOT_FOUND, f"the container engine {engines[0]} was not found: install it where Shoal runs"
        )
    return KindError(
        ENGINE_NOT_FOUND,
        "no container engine was found: install Docker (https://docs.docker.com/engine/install/), Podman or nerdctl"
        " where Shoal runs",
    )


def timeout_error(command: str, seconds: float) -> KindError:
    return KindError(TIMED_OUT, f"{command} did not finish within {seconds:.0f} s")


def name_busy(name: str) -> KindError:
    return KindError(NAME_BUSY, f"another process on this machine is creating or deleting the kind cluster {name}")


def os_error(command: str, error: Exception) -> KindError:
    return _failure(f"{command}: {error}")


def _failure(message: str) -> KindError:
    if _names_full_disk(message):
        return KindError(NO_SPACE, f"a disk is full, make room on it: {message}")
    return KindError(COMMAND_FAILED, message)


def _names_full_disk(text: str) -> bool:
    return any(pattern in text.lower() for pattern in _NO_SPACE)


def unexpected_error(error: BaseException) -> KindError:
    """Of a failure that is neither kind's nor the engine's. The log has the details."""
    return KindError(COMMAND_FAILED, f"{type(error).__name__}")


def command_error(command: str, output: Iterable[str]) -> KindError:
    """Built from the last lines of a command that failed."""
    lines = [line for line in output if line]
    summary = _error_summary(lines) or "no output"
    full = next((line for line in lines if _names_full_disk(line)), "")
    if full and not _names_full_disk(summary):
        summary = f"{summary[: MAX_MESSAGE // 2]}: {full}"
    lower = summary.lower()
    if any(pattern in lower for pattern in _UNAVAILABLE):
        return KindError(ENGINE_UNAVAILABLE, f"the container engine does not answer, start it: {summary}")
    if "already exist for a cluster with the name" in lower:
        return KindError(ALREADY_EXISTS, summary)
    return _failure(f"{command}: {summary}")


def _error_summary(lines: list[str]) -> str:
    """kind's own error, and the last line of the program it called, which has the cause."""
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR: ")]
    if not errors:
        return lines[-1] if lines else ""
    error = lines[errors[-1]].removeprefix("ERROR: ")
    last = lines[-1].removeprefix("Command Output: ")
    return error if errors[-1] == len(lines) - 1 else f"{error[: MAX_MESSAGE // 2]}: {last}"
