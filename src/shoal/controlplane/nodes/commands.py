"""How long a container runs and how it ends, as far as its command says so itself. Pure.

Only the plainest commands are understood: `sleep 30`, `true`, `sh -c "echo hello; sleep 5 && exit 1"`, and the image
`pause`. Any other says nothing, and nothing is guessed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Object = dict[str, Any]

SHELLS = ("sh", "bash", "ash", "dash")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FOREVER = 10.0 * 365 * 86400
PAUSE = "pause"
"""The image that does nothing for ever."""


@dataclass(frozen=True, slots=True)
class Ending:
    seconds: float
    """From its start."""
    code: int
    leaves: bool = False
    """It ends the script it is in."""


def pod_ending(pod: Object) -> Ending | None:
    """Of a pod with one container that is not started again whatever happens."""
    containers = pod["spec"]["containers"]
    if len(containers) != 1 or pod["spec"].get("restartPolicy") in (None, "Always"):
        return None
    words = (*(containers[0].get("command") or ()), *(containers[0].get("args") or ()))
    if not words and _program(containers[0].get("image") or "").partition(":")[0] == PAUSE:
        return Ending(FOREVER, 0)
    return _ending(words) if words else None


@lru_cache(maxsize=1024)
def _ending(words: tuple[str, ...]) -> Ending | None:
    if _program(words[0]) in SHELLS:
        return _script(words[2]) if len(words) == 3 and words[1] == "-c" else None
    return _simple(list(words)) if words[0] != "exit" else None


def _script(text: str) -> Ending | None:
    lexer = shlex.shlex(text.strip().rstrip(";").replace("\n", ";"), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return None
    seconds, code, statement, skipped = 0.0, 0, list[str](), False
    for token in (*tokens, ";"):
        if token not in (";", "&&"):
            statement.append(token)
            continue
        done = _simple(statement)
        if done is None:
            return None
        if not skipped:
            seconds, code = seconds + done.seconds, done.code
            if done.leaves:
                return Ending(seconds, code)
        statement, skipped = [], token == "&&" and (skipped or code != 0)
    return Ending(seconds, code)


def _simple(words: list[str]) -> Ending | None:
    match [_program(words[0]), *words[1:]] if words else [""]:
        case ["true" | ":"] | ["echo", *_]:
            return Ending(0, 0) if not any("$" in word or "`" in word for word in words) else None
        case ["false"]:
            return Ending(0, 1)
        case ["sleep", "infinity" | "inf"]:
            return Ending(FOREVER, 0)
        case ["sleep", length] if length[-1:] in UNITS and length[:-1].isascii() and length[:-1].isdigit():
            return Ending(int(length[:-1]) * UNITS[length[-1]], 0)
        case ["sleep", length] if length.isascii() and length.isdigit():
            return Ending(int(length), 0)
        case ["exit", code] if code.isascii() and code.isdigit() and int(code) < 256:
            return Ending(0, int(code), leaves=True)
    return None


def _program(word: str) -> str:
    return word.rpartition("/")[2]
