"""The log of a serving process on standard error: klog lines, or one JSON object per line.

The JSON fields are those of Kubernetes' components: ts, caller, logger, level, v, msg, err. Messages to a person
(`print_message`) become log lines if the format is JSON, so that a program can read every line. The standard library's
logging is imported on demand, because help does not need it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import LogRecord

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_VERBOSITY = {"DEBUG": 4, "INFO": 0, "WARNING": 0}
"""klog's numbers; errors have none."""
_settings = {"level": "warning", "format": "text"}


def level() -> str:
    return _settings["level"]


def is_json() -> bool:
    return _settings["format"] == "json"


def configure(*, level: str = "", form: str = "") -> None:
    """Sets level and format for the process, from its flags. Empty values stay unchanged."""
    import logging  # noqa: PLC0415

    _settings.update({"level": level or _settings["level"], "format": form or _settings["format"]})

    class Lines(logging.Formatter):
        def format(self, record: LogRecord) -> str:
            trace = self.formatException(record.exc_info) if record.exc_info else ""
            return json_line(record, trace) if is_json() else text_line(record, trace)

    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    root = logging.getLogger("shoal")
    root.handlers[:] = [handler]
    root.setLevel(_settings["level"].upper())
    root.propagate = False
    others = logging.getLogger()
    others.handlers[:] = [handler]
    others.setLevel("WARNING" if _settings["level"] in ("debug", "info") else _settings["level"].upper())


def say(text: str, *, error: bool = False, hint: str = "") -> None:
    """Prints a message to a person, at any level."""
    if is_json():
        about = {"ts": time.time(), "logger": "shoal", "level": "error" if error else "info", "msg": text}
        line = json.dumps({**about, **({} if error else {"v": 0}), **({"hint": hint} if hint else {})})
    else:
        line = f"error: {text}" if error else text
        line += f"\nhint: {hint}" if hint else ""
    print(line, file=sys.stderr, flush=True)


def json_line(record: LogRecord, trace: str) -> str:
    said: dict[str, Any] = {
        "ts": round(record.created, 6),
        "caller": _caller(record),
        "logger": record.name,
        "level": record.levelname.lower(),
    }
    if record.levelname in _VERBOSITY:
        said["v"] = _VERBOSITY[record.levelname]
    said["msg"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        said["err"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        said["stacktrace"] = trace
    return json.dumps(said, ensure_ascii=False)


def text_line(record: LogRecord, trace: str) -> str:
    """`I1116 10:01:15.123456    4711 runtime/controller.py:57] what happened`; an indented traceback follows."""
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
    micro = int(record.created % 1 * 1_000_000)
    head = f"{record.levelname[0]}{stamp}.{micro:06d} {os.getpid():7d} {_caller(record)}] "
    lines = [head + record.getMessage().replace("\n", "\\n"), *trace.splitlines()]
    return "\n    ".join(lines)


def _caller(record: LogRecord) -> str:
    return f"{os.path.basename(os.path.dirname(record.pathname))}/{record.filename}:{record.lineno}"
