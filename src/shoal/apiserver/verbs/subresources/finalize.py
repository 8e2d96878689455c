"""PUT of namespaces/NAME/finalize: the only way to change a namespace's finalizers."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.body import check_type, decode_small_body, object_field
from shoal.apiserver.write.pipeline import write_object
from shoal.objects.errors import BadRequest
from shoal.objects.wire import Response

Object = dict[str, Any]


async def finalize(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_write_options(ctx.query, "UpdateOptions")
    body = decode_small_body(ctx.request)
    check_type(ctx, body)
    finalizers = object_field(body, "spec").get("finalizers") or []
    if not isinstance(finalizers, list) or not all(isinstance(each, str) for each in finalizers):
        raise BadRequest("json: cannot unmarshal into Go struct field NamespaceSpec.spec.finalizers of type []string")

    def build(old: Object) -> Object:
        new: Object = orjson.loads(orjson.dumps(old))
        new["spec"] = {"finalizers": finalizers} if finalizers else {}
        given = body["metadata"].get("resourceVersion")
        if given:
            new["metadata"]["resourceVersion"] = given
        return new

    return await write_object(server, ctx, options, build)
