"""Encodes responses as YAML or, for built-in kinds, protobuf.

Verbs respond in JSON, and `encode_as` converts that. Objects, lists and watches in protobuf are frequent, so the verbs
encode them from cached messages instead, except large objects.
"""

from __future__ import annotations

from collections.abc import Generator

import orjson

from shoal.apiserver.response.negotiation import JSON, PROTOBUF, YAML
from shoal.apiserver.response.yaml_encoder import YAMLEncoder, dump_yaml
from shoal.objects import protobuf
from shoal.objects.wire import Answer, Response

WATCH_PROTOBUF = PROTOBUF + ";stream=watch"


LONG_BYTES = 32 * 1024
"""Bytes of an object, as JSON, whose encoding takes so long that it has to be done in slices."""


def is_long(answer: Answer, media_type: str) -> bool:
    """Whether the encoding has to be done in slices."""
    if media_type not in (YAML, PROTOBUF) or not isinstance(answer, Response) or answer.content_type != JSON:
        return False
    return not isinstance(answer.body, bytes) or len(answer.body) > LONG_BYTES


def encoding_slices(answer: Response, media_type: str) -> Generator[None, None, Response]:
    """As `encode_as`, in small steps."""
    obj = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
    if media_type == PROTOBUF:
        body = yield from protobuf.encoding_steps(obj)
    else:
        encoder = YAMLEncoder()
        yield from encoder.steps(obj)
        body = encoder.finish()
    return Response(answer.status, body, content_type=media_type, headers=answer.headers)


def encode_as(answer: Answer, media_type: str) -> Answer:
    """Encodes the response in that media type. A stream, or a response that is not JSON, is returned unchanged."""
    if not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    obj = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
    body = protobuf.encode(obj) if media_type == PROTOBUF else dump_yaml(obj)
    return Response(answer.status, body, content_type=media_type, headers=answer.headers)
