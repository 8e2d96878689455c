"""POST of a new object."""

from __future__ import annotations

from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.attempt import WritePlan
from shoal.apiserver.write.authorization import require_create
from shoal.apiserver.write.body import check_type, decode_body, prune_and_report
from shoal.apiserver.write.pipeline import write_planned
from shoal.objects.errors import BadRequest, MethodNotSupported
from shoal.objects.wire import Response


async def create(server: ServerComponents, ctx: RequestContext) -> Response:
    if ctx.name:
        if not ctx.resource.custom:
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        # A custom kind has one handler for all of its paths: the object's own name counts. The filter has asked for the
        # name in the path, so that a role with resourceNames would allow any other name too.
        ctx.info = ctx.info._replace(name="")
        require_create(server, ctx)
    return await write_planned(server, ctx, plan_create)


def plan_create(ctx: RequestContext, now: float) -> WritePlan:
    options = parse_write_options(ctx.query, "CreateOptions")
    obj = decode_body(ctx.request, ctx.resource.kind)
    check_type(ctx, obj)
    if obj["metadata"].get("resourceVersion") not in (None, "", "0") and not options.dry_run:
        raise BadRequest("resourceVersion should not be set on objects to be created")
    prune_and_report(ctx, options, obj, ctx.request.body)
    return WritePlan(options, lambda old: obj, creates=True, updates=False)
