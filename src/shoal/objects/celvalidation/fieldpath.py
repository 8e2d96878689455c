"""The `fieldPath` of a rule: `.spec.name` or `['a-b']`, resolved against the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

JsonSchema = dict[str, Any]

_match_token = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]']+", re.DOTALL).match
_replace_escapes = re.compile(r"\\(.)", re.DOTALL).sub
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def normalize_field_path(path: str, schema: JsonSchema) -> str | None:
    """Returns the path as field errors write it, or None if the schema has no such field."""
    normalized_path = ""
    node: Any = schema
    try:
        for name in _split_field_path(path):
            properties, additional = node.get("properties"), node.get("additionalProperties")
            if properties:
                node = properties[name]
                normalized_path += f".{name}"
            elif isinstance(additional, dict):
                node = additional
                normalized_path += f"[{name}]"
            else:
                return None
    except (KeyError, ValueError):
        return None
    return normalized_path.removeprefix(".")


def _split_field_path(path: str) -> Iterator[str]:
    todo = _tokenize(path)
    for token in todo:
        name = next(todo, "")
        if token == "[":
            if len(name) < 2 or name[0] != "'" or name[-1] != "'" or next(todo, "") != "]":
                raise ValueError(path)
            yield _replace_escapes(lambda found: _ESCAPES[found.group(1)], name[1:-1])
        elif token == "." and name and name not in (".", "[", "]"):
            yield name
        else:
            raise ValueError(path)


def _tokenize(path: str) -> Iterator[str]:
    at = 0
    while at < len(path):
        token = _match_token(path, at)
        if token is None:
            raise ValueError(path)
        yield token.group()
        at = token.end()
