"""requestObject and responseObject of audit Events at the levels Request and RequestResponse.

As upstream, only resource requests have them: the object in the request body (a patch as it was sent) and the object in
the response. A watch has no responseObject.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.response.negotiation import PROTOBUF, YAML, request_media_type
from shoal.objects import strictyaml
from shoal.objects.errors import ShoalError
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Answer, Request, Response


def request_object(request: Request, omit_managed_fields: bool) -> Any:
    """Returns None if the request has no body or the body cannot be parsed."""
    return _omit_managed_fields(_parse_body(request.body, request.headers.get("content-type", "")), omit_managed_fields)


def response_object(answer: Answer, omit_managed_fields: bool) -> Any:
    if not isinstance(answer, Response):
        return None
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return _omit_managed_fields(_parse_body(body, answer.content_type), omit_managed_fields)


def _parse_body(body: bytes, content_type: str) -> Any:
    if not body:
        return None
    try:
        if "patch+" in content_type:
            return strictyaml.loads(body) if "yaml" in content_type else orjson.loads(body)
        media_type = request_media_type(content_type)
        if media_type == PROTOBUF:
            return decode_protobuf(body)[2]
        return strictyaml.loads(body) if media_type == YAML else orjson.loads(body)
    except (ShoalError, ValueError):
        return None


def _omit_managed_fields(obj: Any, omit_managed_fields: bool) -> Any:
    if omit_managed_fields and isinstance(obj, dict):
        for each in (obj, *(obj.get("items") or ())):
            metadata = each.get("metadata") if isinstance(each, dict) else None
            if isinstance(metadata, dict):
                metadata.pop("managedFields", None)
    return obj
