"""POST of serviceaccounts/NAME/token: issues a short-lived token for a ServiceAccount."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.dispatch import admit_body
from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.body import decode_small_body, object_field
from shoal.clock import rfc3339
from shoal.kinds.core.node_identity import node_name_of
from shoal.objects.errors import (
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    invalid_object,
    invalid_value,
)
from shoal.objects.wire import Response

Object = dict[str, Any]

MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 1 << 32, 3600
_BOUND_RESOURCES = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


async def create_token(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_write_options(ctx.query, "CreateOptions")
    body = await read_token_request(server, ctx, "service account", dry_run=options.dry_run)
    metadata = object_field(body, "metadata")
    account = served_object(ctx.resource, ctx.require_object())
    uid = account["metadata"]["uid"]
    if metadata.get("uid") and metadata["uid"] != uid:
        reason = (
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})"
        )
        raise _conflict("TokenRequest.authentication.k8s.io", ctx.name, reason)
    spec = object_field(body, "spec")
    seconds = read_seconds(spec)
    _check_seconds(seconds)
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise BadRequest("json: cannot unmarshal into Go struct field TokenRequestSpec.spec.audiences of type []string")
    bound = _bound_object(server, ctx, object_field(spec, "boundObjectRef"))
    node = node_name_of(ctx.user.name, ctx.user.groups)
    if node and ("pod" not in bound or bound.get("node", ("",))[0] != node):
        reason = f'node "{node}" may request only tokens that are bound to its own pods'
        raise Forbidden(f'serviceaccounts "{ctx.name}" is forbidden: {reason}', name=ctx.name, kind="serviceaccounts")
    answered_spec = {
        "audiences": audiences or [server.tokens.issuer(ctx.info.cluster)],
        "expirationSeconds": seconds,
        "boundObjectRef": spec.get("boundObjectRef"),
    }
    if options.dry_run:
        return token_response(server, ctx, uid, answered_spec)
    await server.keys.ensure_signing_key(ctx.info.cluster)
    issued = server.tokens.issue(ctx.info.cluster, account, audiences, seconds, bound, server.clock.now())
    return token_response(server, ctx, uid, answered_spec, issued)


async def read_token_request(server: ServerComponents, ctx: RequestContext, owner: str, *, dry_run: bool) -> Object:
    """Returns the admitted TokenRequest in the body. `owner` is what a message calls the object of the request."""
    body = decode_small_body(ctx.request, "TokenRequest")
    if body.get("kind") not in (None, "", "TokenRequest"):
        raise BadRequest(f"{body.get('kind')} cannot be handled as a TokenRequest")
    body = await admit_body(server, ctx, body, dry_run)
    _check_metadata(ctx, object_field(body, "metadata"), owner)
    return body


def read_seconds(spec: Object) -> int:
    """Returns `expirationSeconds`, or the default of an hour."""
    seconds = spec.get("expirationSeconds")
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise BadRequest(
            "json: cannot unmarshal into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64"
        )
    return seconds


def token_response(
    server: ServerComponents, ctx: RequestContext, uid: str, spec: Object, issued: tuple[str, float] | None = None
) -> Response:
    """`issued` is the token and its expiry; None in a dry run."""
    metadata = {
        "name": ctx.name,
        "namespace": ctx.namespace,
        "uid": uid,
        "creationTimestamp": rfc3339(server.clock.now()),
    }
    status: Object = {"token": "", "expirationTimestamp": None}
    if issued is not None:
        status = {"token": issued[0], "expirationTimestamp": rfc3339(issued[1])}
    type_meta = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    return Response(201, orjson.dumps({**type_meta, "metadata": metadata, "spec": spec, "status": status}))


def _check_metadata(ctx: RequestContext, metadata: Object, owner: str) -> None:
    for field, expected in (("name", ctx.name), ("namespace", ctx.namespace)):
        if metadata.get(field) and metadata[field] != expected:
            message = f"must match the {owner} {field} if specified"
            raise _invalid(ctx.name, invalid_value(f"metadata.{field}", metadata[field], message))


def _invalid(name: str, cause: Cause) -> Invalid:
    return invalid_object("TokenRequest", "authentication.k8s.io", name, [cause])


def _conflict(kind: str, name: str, reason: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {kind} "{name}": {reason}'
    kind, _, group = kind.partition(".")
    return Conflict(message, name=name, group=group, kind=kind)


def _check_seconds(seconds: int) -> None:
    cause = None
    if seconds < MIN_SECONDS:
        cause = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > MAX_SECONDS:
        cause = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if cause is not None:
        # Upstream gives no name here.
        raise _invalid("", cause)


def _bound_object(
    server: ServerComponents, ctx: RequestContext, reference: Object | None
) -> dict[str, tuple[str, str]]:
    """Resolves the Pod, Node or Secret a token is bound to. It must exist, with the given uid."""
    if not reference:
        return {}
    kind, version = str(reference.get("kind") or ""), str(reference.get("apiVersion") or "")
    if kind not in _BOUND_RESOURCES or "/" in version:
        group, _, rest = version.rpartition("/")
        raise BadRequest(f"cannot bind token to object of type {group}/{rest}, Kind={kind}")
    name = str(reference.get("name", ""))
    obj = _find_object(server, ctx, _BOUND_RESOURCES[kind], name)
    if obj is None:
        raise NotFound(f'{_BOUND_RESOURCES[kind]} "{name}" not found', name=name, kind=_BOUND_RESOURCES[kind])
    if kind == "Pod" and obj["spec"].get("serviceAccountName") != ctx.name:
        reason = f'cannot bind token for serviceaccount "{ctx.name}" to pod running with different serviceaccount name.'
        raise BadRequest(reason)
    uid = obj["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        reason = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise _conflict(kind, name, reason)
    bound_objects = {kind.lower(): (name, uid)}
    if kind == "Pod" and (node := obj["spec"].get("nodeName")):
        node_object = _find_object(server, ctx, "nodes", node)
        bound_objects["node"] = (node, node_object["metadata"]["uid"] if node_object is not None else "")
    return bound_objects


def _find_object(server: ServerComponents, ctx: RequestContext, plural: str, name: str) -> Object | None:
    namespace = "" if plural == "nodes" else ctx.namespace
    entry = server.cache.resource_cache("", plural).get(ctx.info.cluster, namespace, name)
    return entry.object() if entry is not None else None
