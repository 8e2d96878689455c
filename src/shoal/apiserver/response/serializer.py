"""Encodes responses as YAML or, for built-in kinds, protobuf.

Verbs respond in JSON, and `encode_as` converts that. Objects, lists and watches in protobuf are frequent, so the verbs
encode them from cached messages instead.
"""

from __future__ import annotations

from collections.abc import Generator

import orjson

from shoal.apiserver.response.negotiation import JSON, PROTOBUF, YAML
from shoal.apiserver.response.yaml_encoder import YAMLEncoder, dump_yaml
from shoal.objects import protobuf
from shoal.objects.wire import Answer, Response

WATCH_PROTOBUF = PROTOBUF + ";stream=watch"


_LONG_BYTES = 32 * 1024


def is_long_yaml(answer: Answer, media_type: str) -> bool:
    """Whether the encoding takes so long that it has to be done in slices."""
    if media_type != YAML or not isinstance(answer, Response) or answer.content_type != JSON:
        return False
    return not isinstance(answer.body, bytes) or len(answer.body) > _LONG_BYTES


def yaml_slices(answer: Response) -> Generator[None, None, Response]:
    """As `encode_as` for YAML, in small steps."""
    encoder = YAMLEncoder()
    yield from encoder.steps(orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)))
    return Response(answer.status, encoder.finish(), content_type=YAML, headers=answer.headers)


def encode_as(answer: Answer, media_type: str) -> Answer:
    """Encodes the response in that media type. A stream, or a response that is not JSON, is returned unchanged."""
    if not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    obj = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
    body = protobuf.encode(obj) if media_type == PROTOBUF else dump_yaml(obj)
    return Response(answer.status, body, content_type=media_type, headers=answer.headers)
