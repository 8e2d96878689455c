"""Decodes YAML bodies to what JSON can represent: string keys, no cycles, no dates, no bytes.

Built from parser events, never by composing nodes. A body nested deeper than JSON may be, or whose aliases would expand
to more than a body may hold, is rejected before it costs memory, time or stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

import orjson
import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import ReaderError
from yaml.resolver import Resolver
from yaml.scanner import ScannerError

from shoal.objects.errors import BadRequest, format_value
from shoal.objects.strictjson import MAX_DEPTH, MAX_DUPLICATES

MAX_EXPANDED_CHARS = 8 * 1024 * 1024
"""Maximum characters of the document with every alias expanded."""

_TAG = "tag:yaml.org,2002:"


class _YAMLResolver(Resolver):
    """Dates stay strings."""


_YAMLResolver.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _TAG + "timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_YAMLResolver.add_implicit_resolver(_TAG + "bool", re.compile(r"[yYnN]$"), list("yYnN"))
# Go accepts an exponent without a decimal point.
_YAMLResolver.add_implicit_resolver(
    _TAG + "float", re.compile(r"[-+]?\.?[0-9]+[eE][-+]?[0-9]+$"), list("-+.0123456789")
)
_resolve: Any = _YAMLResolver().resolve
_constructor: Any = SafeConstructor()


def loads(data: bytes) -> Any:
    """Returns the first document. Raises BadRequest, with Go's message, for invalid YAML or a value JSON cannot
    represent.
    """
    try:
        # Through JSON, as upstream: keys are sorted, and no object is shared by two positions and pruned as one.
        return orjson.loads(orjson.dumps(_YAMLReader(_parse_events(data)).read_document(), option=orjson.OPT_SORT_KEYS))
    except (yaml.YAMLError, ValueError) as error:
        raise BadRequest(_go_message(error)) from None


def load_documents(data: bytes) -> list[Any]:
    """Returns every document, each within the limits of one."""
    events, documents = _parse_events(data), []
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                reader = _YAMLReader(events)
                value = reader.read_node()
                documents.append(orjson.loads(orjson.dumps(value)) if reader.has_aliases else value)
    except (yaml.YAMLError, ValueError) as error:
        raise BadRequest(_go_message(error)) from None
    return documents


def duplicate_key_errors(data: bytes) -> list[str]:
    """Returns duplicate keys, as Go's strict decoder reports them."""
    reader = _YAMLReader(_parse_events(data))
    try:
        reader.read_document()
    except (yaml.YAMLError, ValueError):
        return []
    return reader.duplicate_errors[:MAX_DUPLICATES]


def join_duplicate_errors(duplicates: list[str]) -> str:
    """Returns Go's message for all duplicates together."""
    return "yaml: unmarshal errors:\n  " + "\n  ".join(duplicates)


def _go_message(error: Exception) -> str:
    """Go's messages are those of the C library. It counts lines from zero, except in the scanner."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = error.problem_mark.line if error.problem_mark else 0
        if line:
            line += isinstance(error, ScannerError)
        elif error.context_mark:
            line = error.context_mark.line
        return f"yaml: {f'line {line}: ' if line else ''}{error.problem}"
    return f"yaml: {error.reason}" if isinstance(error, ReaderError) else str(error)


def _parse_events(data: bytes) -> Iterator[Any]:
    events: Iterator[Any] = yaml.parse(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return events


class _YAMLReader:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Any, int]] = {}
        """The value of an anchor, and its expanded size."""
        self._expanded_chars = 0
        self.has_aliases = False
        self.duplicate_errors: list[str] = []

    def read_document(self) -> Any:
        """Returns the first document. As upstream, later ones are ignored."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                value = self.read_node()
                next(self._events)
                return value
        return None

    def read_node(self) -> Any:
        return self._read_node(next(self._events), 0)

    def _read_node(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._read_alias(str(event.anchor))
        before = self._expanded_chars
        self._count_chars(1)
        if isinstance(event, yaml.ScalarEvent):
            self._count_chars(len(event.value))
            value = _parse_scalar(event)
        elif depth == MAX_DEPTH:
            raise ValueError("exceeded max depth")
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._read_mapping(depth)
        else:
            value = self._read_sequence(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._expanded_chars - before
        return value

    def _read_alias(self, name: str) -> Any:
        # An anchor is registered at the end of its node, so no node can contain itself.
        if name not in self._anchors:
            raise ValueError(f"yaml: anchor '{name}' value contains itself, or unknown anchor")
        value, text = self._anchors[name]
        self._count_chars(text)
        self.has_aliases = True
        return value

    def _count_chars(self, chars: int) -> None:
        self._expanded_chars += chars
        if self._expanded_chars > MAX_EXPANDED_CHARS:
            raise ValueError("yaml: document contains excessive aliasing")

    def _read_sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._read_node(event, depth + 1))
        return items

    def _read_mapping(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            merging = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = _key_text(self._read_node(event, depth + 1))
            if key in members:
                self.duplicate_errors.append(
                    f"line {event.start_mark.line + 1}: key {format_value(key)} already set in map"
                )
            value = self._read_node(next(self._events), depth + 1)
            if merging:
                _merge_mapping(merged, value)
            else:
                members[key] = value
        return {**merged, **members} if merged else members


def _merge_mapping(merged: dict[str, Any], value: Any) -> None:
    for each in reversed(value) if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            raise ValueError("yaml: map merge requires map or sequence of maps as the value")
        merged.update(each)


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError("a key of a mapping must be text, a number or a boolean")


def _parse_scalar(event: Any) -> Any:
    tag, text = event.tag, event.value
    if tag is None or tag == "!":
        tag = _resolve(yaml.ScalarNode, text, event.implicit) if tag is None else _TAG + "str"
    kind = tag.removeprefix(_TAG)
    # Go does not support sexagesimal numbers.
    if kind in ("str", "merge") or (kind in ("int", "float") and ":" in text):
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("y", "n"):
        return text.lower() == "y"
    if kind not in ("int", "float", "bool"):
        raise ValueError(f"yaml: cannot decode a value of the tag {tag}")
    try:
        value = getattr(_constructor, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
    except (KeyError, ValueError):
        raise ValueError(f"yaml: cannot decode {kind} `{text[:40]}`") from None
    if kind == "int" and not -(2**63) <= value < 2**64:
        value = float(value) if value.bit_length() < 1024 else float("inf")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"json: unsupported value: {text[:40]}")
    return value
