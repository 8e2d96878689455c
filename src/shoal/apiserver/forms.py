"""Answers in other forms than JSON: YAML, and the protobuf of built-in kinds.

Verbs answer in JSON, and `converted` makes the form that was asked for of it. What is asked for often (objects,
lists and watches in protobuf) is encoded from the cached messages by the verbs themselves.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
import yaml

from shoal.apiserver.negotiate import JSON, PROTOBUF
from shoal.objects import protobuf
from shoal.objects.wire import Answer, Response

WATCH_PROTOBUF = PROTOBUF + ";stream=watch"


def converted(answer: Answer, form: str) -> Answer:
    """The answer in that form. What is no JSON (a stream, or in its form already) stays as it is."""
    if not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    obj = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
    body = protobuf.encode(obj) if form == PROTOBUF else dump_yaml(obj)
    return Response(answer.status, body, content_type=form, headers=answer.headers)


def dump_yaml(value: Any) -> bytes:
    """YAML that every reader takes for the same value: text that some would take for a number is quoted."""
    text: bytes = yaml.dump(value, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, width=1_000_000)
    return text


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Sorts keys, as upstream does, and writes no aliases: equal values are not one value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# What Go's readers take for numbers and booleans beyond YAML 1.1 as Python knows it.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.?[0-9]|0o)[0-9_.]*([eE][-+]?[0-9]+)?$"), list("-+.0123456789")
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))
