"""POST of a review of access or identity. It is answered and not stored."""

from __future__ import annotations

import orjson

from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.response.negotiation import reject_transform
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.subresources.access_review import review_response
from shoal.apiserver.write.pipeline import check_type, decode_body, prune_and_report
from shoal.objects.wire import Response


def review(server: ServerComponents, ctx: RequestContext) -> Response:
    reject_transform(ctx.output)
    options = parse_write_options(ctx.query, "CreateOptions")
    obj = decode_body(ctx.request)
    check_type(ctx, obj)
    prune_and_report(ctx, options, obj, ctx.request.body)
    body = review_response(
        ctx.resource.kind,
        obj,
        user=ctx.user,
        cluster=ctx.info.cluster,
        namespace=ctx.namespace,
        authorizer=server.authorizer,
        authenticator=server.authenticator,
        now=server.clock.now(),
    )
    return Response(201, orjson.dumps(body))
