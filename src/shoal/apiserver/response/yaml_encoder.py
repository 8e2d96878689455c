"""Encodes YAML in small steps, from the events that libyaml's emitter takes.

The steps make a large answer interruptible. The events are those that `yaml.dump` derives from its tree of nodes, which
takes it three times as long.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml

_STEP_VALUES = 64
"""Scalars, mappings and sequences in one step."""
_LONG_STRING = 4096
"""A string of this length ends a step."""
_MAX_RESOLVED_LENGTH = 64
"""The resolution of shorter strings is cached."""
_STRING, _SEQUENCE, _MAPPING = (f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))
_SCALAR_KIND = (True, False)
"""The emitter asks for the tag of a plain scalar."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes every string that some parser would read as something else."""


# Strings that Go's parsers read as numbers or booleans, beyond Python's YAML 1.1.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.?[0-9]|0o)[0-9_.]*([eE][-+]?[0-9]+)?$"), list("-+.0123456789")
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))
_resolver = _Dumper(io.BytesIO())


class YAMLEncoder:
    """Encodes one document. Keys are sorted, as upstream does, and equal values are written twice."""

    def __init__(self) -> None:
        self._text = io.BytesIO()
        self._emitter = _Dumper(self._text, encoding="utf-8", allow_unicode=True, width=1_000_000)
        self._emit(yaml.StreamStartEvent(encoding="utf-8"))
        self._emit(yaml.DocumentStartEvent(explicit=False))

    def _emit(self, event: yaml.Event) -> None:
        self._emitter.emit(event)

    def begin_mapping(self) -> None:
        self._emit(yaml.MappingStartEvent(None, _MAPPING, True, flow_style=False))

    def end_mapping(self) -> None:
        self._emit(yaml.MappingEndEvent())

    def begin_sequence(self) -> None:
        self._emit(yaml.SequenceStartEvent(None, _SEQUENCE, True, flow_style=False))

    def end_sequence(self) -> None:
        self._emit(yaml.SequenceEndEvent())

    def write(self, value: Any) -> None:
        for _ in self.steps(value):
            pass

    def steps(self, value: Any) -> Iterator[None]:
        """Writes a value. A loop with a stack of its own: a value may be nested deeper than Python's calls."""
        pending: list[tuple[Iterator[Any], yaml.Event | None]] = [(iter((value,)), None)]
        written = 0
        while pending:
            values, end = pending[-1]
            for each in values:
                written += 1
                if isinstance(each, dict):
                    self.begin_mapping()
                    pending.append((_sorted_pairs(each), yaml.MappingEndEvent()))
                    break
                if isinstance(each, list):
                    self.begin_sequence()
                    pending.append((iter(each), yaml.SequenceEndEvent()))
                    break
                self._emit(_scalar_event(each))
                if written >= _STEP_VALUES or (isinstance(each, str) and len(each) > _LONG_STRING):
                    written = 0
                    yield
            else:
                pending.pop()
                if end is not None:
                    self._emit(end)
            if written >= _STEP_VALUES:  # mappings and sequences may have no scalars in them
                written = 0
                yield

    def take(self) -> bytes:
        """Returns what was encoded since the last call. The emitter holds back up to 16 KiB."""
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text

    def finish(self) -> bytes:
        self._emit(yaml.DocumentEndEvent(explicit=False))
        self._emit(yaml.StreamEndEvent())
        return self.take()


def _sorted_pairs(value: dict[str, Any]) -> Iterator[Any]:
    for key in sorted(value):
        yield key
        yield value[key]


def _scalar_event(value: Any) -> yaml.Event:
    if isinstance(value, str):
        plain = (_resolve_cached if len(value) < _MAX_RESOLVED_LENGTH else _resolve)(value) == _STRING
        return yaml.ScalarEvent(None, _STRING, (plain, True), value)
    node = _resolver.represent_data(value)
    return yaml.ScalarEvent(None, node.tag, (_resolve(node.value) == node.tag, False), node.value)


def _resolve(text: str) -> str:
    """Returns the tag that a parser gives a plain scalar."""
    tag: str = _resolver.resolve(yaml.ScalarNode, text, _SCALAR_KIND)
    return tag


_resolve_cached = lru_cache(maxsize=4096)(_resolve)


def dump_yaml(value: Any) -> bytes:
    """Encodes YAML that every parser reads as the same value: strings that some parsers would read as numbers are
    quoted.
    """
    encoder = YAMLEncoder()
    encoder.write(value)
    return encoder.finish()
