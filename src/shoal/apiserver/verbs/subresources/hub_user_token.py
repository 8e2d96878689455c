"""POST of managedclusters/NAME/token: a short-lived token by which a user of the hub enters a hosted cluster.

The worker of the cluster signs it. The caller's own credential stays at the hub.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.dispatch import admit_body
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.subresources.token import check_metadata
from shoal.apiserver.write.body import decode_body, object_field
from shoal.clock import rfc3339
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.access import HubUser, HubUserTokenRequest, admitted_user
from shoal.objects.errors import BadRequest, Cause, Conflict, forbidden_field, invalid_object, invalid_value
from shoal.objects.wire import Response

Object = dict[str, Any]

MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 43_200, 3600


async def create_hub_user_token(server: ServerComponents, ctx: RequestContext) -> Response:
    if server.paths.hub_user_tokens is None or ctx.info.cluster != ROOT:
        raise ctx.not_found()
    options = parse_write_options(ctx.query, "CreateOptions")
    body = decode_body(ctx.request, "TokenRequest")
    if body.get("kind") not in (None, "", "TokenRequest"):
        raise BadRequest(f"{body.get('kind')} cannot be handled as a TokenRequest")
    body = await admit_body(server, ctx, body, options.dry_run)
    check_metadata(ctx, object_field(body, "metadata"), "ManagedCluster")
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
    answer: Object = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": ctx.name,
            "namespace": ctx.namespace,
            "uid": uid,
            "creationTimestamp": rfc3339(server.clock.now()),
        },
        "spec": {"audiences": [], "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {"token": "", "expirationTimestamp": None},
    }
    if not options.dry_run:
        issued = await server.paths.hub_user_tokens(HubUserTokenRequest(ctx.namespace, ctx.name, uid, user, seconds))
        answer["spec"]["audiences"] = [issued.audience]
        answer["status"] = {"token": issued.token, "expirationTimestamp": rfc3339(issued.expiry)}
    return Response(201, orjson.dumps(answer))


def _require_access(ctx: RequestContext, managed: Object) -> HubUser:
    user = admitted_user(managed, ctx.user.name, ctx.user.groups)
    if user is None:
        raise ctx.resource.forbidden(
            managed, f'spec.access mentions neither user "{ctx.user.name}" nor a group of that user'
        )
    return user


def _seconds(spec: Object) -> int:
    seconds = spec.get("expirationSeconds")
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise BadRequest(
            "json: cannot unmarshal into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64"
        )
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
