"""requestObject and responseObject of audit Events at the levels Request and RequestResponse.

As upstream, only resource requests have them: the object in the request body (a patch as it was sent) and the object in
the response. A watch has no responseObject.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.negotiate import PROTOBUF, YAML, body_type
from shoal.objects import yaml_read
from shoal.objects.errors import ShoalError
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Answer, Request, Response


def request_object(request: Request, omit_owners: bool) -> Any:
    """Returns None if the request has no body or the body cannot be parsed."""
    return _shown(_parsed(request.body, request.headers.get("content-type", "")), omit_owners)


def response_object(answer: Answer, omit_owners: bool) -> Any:
    if not isinstance(answer, Response):
        return None
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return _shown(_parsed(body, answer.content_type), omit_owners)


def _parsed(body: bytes, content_type: str) -> Any:
    if not body:
        return None
    try:
        if "patch+" in content_type:
            return yaml_read.loads(body) if "yaml" in content_type else orjson.loads(body)
        form = body_type(content_type)
        if form == PROTOBUF:
            return decode_protobuf(body)[2]
        return yaml_read.loads(body) if form == YAML else orjson.loads(body)
    except (ShoalError, ValueError):
        return None


def _shown(obj: Any, omit_owners: bool) -> Any:
    if omit_owners and isinstance(obj, dict):
        for each in (obj, *(obj.get("items") or ())):
            metadata = each.get("metadata") if isinstance(each, dict) else None
            if isinstance(metadata, dict):
                metadata.pop("managedFields", None)
    return obj
