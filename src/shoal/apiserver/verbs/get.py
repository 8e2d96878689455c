"""GET of one object."""

from __future__ import annotations

from shoal.apiserver.request.options import parse_revision
from shoal.apiserver.response.negotiation import PROTOBUF
from shoal.apiserver.response.render import encode_object, encode_protobuf, is_long_message, object_response
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.list import revision_too_large
from shoal.apiserver.verbs.node_leases import synthesize_lease
from shoal.objects import protobuf
from shoal.objects.wire import Response


def get(server: ServerComponents, ctx: RequestContext) -> Response:
    if ctx.query:
        min_revision = parse_revision(ctx.query.get("resourceVersion", ""))
        if min_revision > server.cache.revision:
            raise revision_too_large(min_revision, server.cache.revision)
    entry = ctx.cached_object() or synthesize_lease(server, ctx)
    if entry is None:
        raise ctx.not_found()
    view, resource = ctx.output, ctx.resource
    if view.media_type == PROTOBUF and view.mode == "object" and not is_long_message(entry):
        body = protobuf.envelope(resource.api_version, resource.kind, encode_protobuf(resource, entry))
        return Response(200, body, content_type=PROTOBUF)
    data = encode_object(resource, entry)
    if view.mode == "object":
        return Response(200, data)
    return object_response(resource, view, data, server.clock.now(), include_object=ctx.query.get("includeObject", ""))
