"""Encodes responses as YAML or, for built-in kinds, protobuf.

Verbs respond in JSON, and `encode_as` converts that. Objects, lists and watches in protobuf are frequent, so the verbs
encode them from cached messages instead.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
import yaml

from shoal.apiserver.response.negotiation import JSON, PROTOBUF
from shoal.objects import protobuf
from shoal.objects.wire import Answer, Response

WATCH_PROTOBUF = PROTOBUF + ";stream=watch"


def encode_as(answer: Answer, media_type: str) -> Answer:
    """Encodes the response in that media type. A stream, or a response that is not JSON, is returned unchanged."""
    if not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    obj = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
    body = protobuf.encode(obj) if media_type == PROTOBUF else dump_yaml(obj)
    return Response(answer.status, body, content_type=media_type, headers=answer.headers)


def dump_yaml(value: Any) -> bytes:
    """Encodes YAML that every parser reads as the same value: strings that some parsers would read as numbers are
    quoted.
    """
    text: bytes = yaml.dump(value, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, width=1_000_000)
    return text


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Sorts keys, as upstream does, and writes no aliases: equal values are not one value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# Strings that Go's parsers read as numbers or booleans, beyond Python's YAML 1.1.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.?[0-9]|0o)[0-9_.]*([eE][-+]?[0-9]+)?$"), list("-+.0123456789")
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))
