"""PUT of a whole object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.request.options import WriteOptions, parse_write_options
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.attempt import WritePlan
from shoal.apiserver.write.body import check_type, decode_body, prune_and_report
from shoal.apiserver.write.pipeline import check_uid, write_planned
from shoal.objects.errors import BadRequest, invalid_object, invalid_value
from shoal.objects.wire import Response

Object = dict[str, Any]


async def update(server: ServerComponents, ctx: RequestContext) -> Response:
    return await write_planned(server, ctx, plan_update)


def plan_update(ctx: RequestContext, now: float) -> WritePlan:
    options = parse_write_options(ctx.query, "UpdateOptions")
    body = decode_body(ctx.request, ctx.resource.kind)
    check_type(ctx, body)
    prune_and_report(ctx, options, body, ctx.request.body)
    name = body["metadata"].get("name")
    if not name:
        raise BadRequest("name must be provided")
    if name != ctx.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")
    strategy = ctx.resource.strategy
    unused_body, uid, revision = [body], body["metadata"].get("uid"), body["metadata"].get("resourceVersion")

    def build(old: Object | None) -> Object:
        """Returns the decoded body. After a lost race it is decoded again, because the first attempt modified it."""
        if old is None and revision:
            raise ctx.not_found()
        if old is not None and not revision and not strategy.allow_unconditional_update:
            check_uid(ctx, uid, old)
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(ctx.resource.plural, ctx.resource.group, name, [cause])
        if unused_body:
            return unused_body.pop()
        body_again = decode_body(ctx.request, ctx.resource.kind)
        check_type(ctx, body_again)
        prune_and_report(ctx, WriteOptions(field_validation="Ignore"), body_again, None)
        return body_again

    creates = strategy.allow_create_on_update and not ctx.info.subresource
    return WritePlan(options, build, creates=creates)
