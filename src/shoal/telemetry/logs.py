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
_config = {"level": "warning", "format": "text"}


def current_level() -> str:
    return _config["level"]


def is_json() -> bool:
    return _config["format"] == "json"


def configure(*, level: str = "", log_format: str = "") -> None:
    """Sets level and format for the process, from its flags. Empty values stay unchanged."""
    import logging  # noqa: PLC0415

    _config.update({"level": level or _config["level"], "format": log_format or _config["format"]})

    class LineFormatter(logging.Formatter):
        def format(self, record: LogRecord) -> str:
            trace = self.formatException(record.exc_info) if record.exc_info else ""
            return format_json(record, trace) if is_json() else format_text(record, trace)

    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    shoal_logger = logging.getLogger("shoal")
    shoal_logger.handlers[:] = [handler]
    shoal_logger.setLevel(_config["level"].upper())
    shoal_logger.propagate = False
    root_logger = logging.getLogger()
    root_logger.handlers[:] = [handler]
    root_logger.setLevel("WARNING" if _config["level"] in ("debug", "info") else _config["level"].upper())


def print_message(text: str, *, error: bool = False, hint: str = "") -> None:
    """Prints a message to a person, at any level."""
    if is_json():
        fields = {"ts": time.time(), "logger": "shoal", "level": "error" if error else "info", "msg": text}
        line = json.dumps({**fields, **({} if error else {"v": 0}), **({"hint": hint} if hint else {})})
    else:
        line = f"error: {text}" if error else text
        line += f"\nhint: {hint}" if hint else ""
    print(line, file=sys.stderr, flush=True)


def format_json(record: LogRecord, trace: str) -> str:
    fields: dict[str, Any] = {
        "ts": round(record.created, 6),
        "caller": _caller(record),
        "logger": record.name,
        "level": record.levelname.lower(),
    }
    if record.levelname in _VERBOSITY:
        fields["v"] = _VERBOSITY[record.levelname]
    fields["msg"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        fields["err"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        fields["stacktrace"] = trace
    return json.dumps(fields, ensure_ascii=False)


def format_text(record: LogRecord, trace: str) -> str:
    """`I1116 10:01:15.123456    4711 runtime/controller.py:57] what happened`; an indented traceback follows."""
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
    micro = int(record.created % 1 * 1_000_000)
    prefix = f"{record.levelname[0]}{stamp}.{micro:06d} {os.getpid():7d} {_caller(record)}] "
    lines = [prefix + record.getMessage().replace("\n", "\\n"), *trace.splitlines()]
    return "\n    ".join(lines)


def _caller(record: LogRecord) -> str:
    return f"{os.path.basename(os.path.dirname(record.pathname))}/{record.filename}:{record.lineno}"
