"""The `fieldPath` of a rule: `.spec.name` or `['a-b']`, resolved against the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

JsonSchema = dict[str, Any]

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]']+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def normalized(path: str, schema: JsonSchema) -> str | None:
    """Returns the path as field errors write it, or None if the schema has no such field."""
    written = ""
    here: Any = schema
    try:
        for name in _names(path):
            properties, additional = here.get("properties"), here.get("additionalProperties")
            if properties:
                here = properties[name]
                written += f".{name}"
            elif isinstance(additional, dict):
                here = additional
                written += f"[{name}]"
            else:
                return None
    except (KeyError, ValueError):
        return None
    return written.removeprefix(".")


def _names(path: str) -> Iterator[str]:
    tokens = _TOKEN.findall(path)
    if "".join(tokens) != path:
        raise ValueError(path)
    todo = iter(tokens)
    for token in todo:
        name = next(todo, "")
        if token == "[":
            if len(name) < 2 or name[0] != "'" or name[-1] != "'" or next(todo, "") != "]":
                raise ValueError(path)
            yield _ESCAPE.sub(lambda found: _ESCAPED[found.group(1)], name[1:-1])
        elif token == "." and name and name not in (".", "[", "]"):
            yield name
        else:
            raise ValueError(path)
