"""POST of managedclusters/NAME/token: a short-lived token by which a user of the hub enters a hosted cluster.

The worker of the cluster signs it. The caller's own credential stays at the hub.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.request.info import ROOT
from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.subresources.token import read_seconds, read_token_request, token_response
from shoal.apiserver.write.body import object_field
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.access import HubUser, HubUserTokenRequest, admitted_user
from shoal.objects.errors import Cause, Conflict, forbidden_field, invalid_object, invalid_value
from shoal.objects.wire import Response

Object = dict[str, Any]

MIN_SECONDS, MAX_SECONDS = 600, 43_200


async def create_hub_user_token(server: ServerComponents, ctx: RequestContext) -> Response:
    if server.paths.hub_user_tokens is None or ctx.info.cluster != ROOT:
        raise ctx.not_found()
    options = parse_write_options(ctx.query, "CreateOptions")
    body = await read_token_request(server, ctx, "ManagedCluster", dry_run=options.dry_run)
    seconds = _seconds(object_field(body, "spec"))
    managed = served_object(ctx.resource, ctx.require_object())
    user = _require_access(ctx, managed)
    if infrav1.is_deleting(managed):
        raise Conflict(
            f'managedclusters.{infrav1.GROUP} "{ctx.name}" is being deleted',
            name=ctx.name,
            group=infrav1.GROUP,
            kind="managedclusters",
        )
    uid = str(managed["metadata"]["uid"])
    spec: Object = {"audiences": [], "expirationSeconds": seconds, "boundObjectRef": None}
    if options.dry_run:
        return token_response(server, ctx, uid, spec)
    issued = await server.paths.hub_user_tokens(HubUserTokenRequest(ctx.namespace, ctx.name, uid, user, seconds))
    spec["audiences"] = [issued.audience]
    return token_response(server, ctx, uid, spec, (issued.token, issued.expiry))


def _require_access(ctx: RequestContext, managed: Object) -> HubUser:
    user = admitted_user(managed, ctx.user.name, ctx.user.groups)
    if user is None:
        raise ctx.resource.forbidden(
            managed, f'spec.access mentions neither user "{ctx.user.name}" nor a group of that user'
        )
    return user


def _seconds(spec: Object) -> int:
    seconds = read_seconds(spec)
    causes: list[Cause] = []
    if seconds < MIN_SECONDS:
        causes.append(
            invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    if seconds > MAX_SECONDS:
        causes.append(
            invalid_value("spec.expirationSeconds", seconds, "may not specify a duration larger than 12 hours")
        )
    for field in ("audiences", "boundObjectRef"):
        if spec.get(field):
            causes.append(forbidden_field(f"spec.{field}", "a token of a hub user is for the API of the cluster only"))
    if causes:
        raise invalid_object("TokenRequest", "authentication.k8s.io", "", causes)
    return seconds
