"""POST of serviceaccounts/NAME/token: a short-lived token for a ServiceAccount."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.webhooks import reviewed_body
from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import write_options
from shoal.apiserver.render import served_object
from shoal.apiserver.writing import member, read_body
from shoal.clock import rfc3339
from shoal.objects.errors import BadRequest, Conflict, NotFound, invalid_object, invalid_value
from shoal.objects.wire import Response

Object = dict[str, Any]

SHORTEST, LONGEST, USUAL = 600, 1 << 32, 3600


async def create_token(core: Core, call: Call) -> Response:
    options = write_options(call.query, "CreateOptions")
    body = read_body(call.request)
    if body.get("kind") not in (None, "", "TokenRequest"):
        raise BadRequest(f"{body.get('kind')} cannot be handled as a TokenRequest")
    body = await reviewed_body(core, call, body, options.dry_run)
    account = served_object(call.resource, call.found())
    spec = member(body, "spec")
    seconds = spec.get("expirationSeconds")
    seconds = USUAL if seconds is None else seconds
    _check(call, seconds)
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise BadRequest("json: cannot unmarshal into Go struct field TokenRequestSpec.spec.audiences of type []string")
    bound = _bound(core, call, member(spec, "boundObjectRef"))
    answer: Object = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": rfc3339(core.clock.now())},
        "spec": {
            "audiences": audiences or [core.tokens.issuer(call.target.cluster)],
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
    }
    if options.dry_run:
        answer["status"] = {"token": "", "expirationTimestamp": None}
        return Response(201, orjson.dumps(answer))
    token, expiry = core.tokens.issue(call.target.cluster, account, audiences, seconds, bound, core.clock.now())
    answer["status"] = {"token": token, "expirationTimestamp": rfc3339(expiry)}
    return Response(201, orjson.dumps(answer))


def _check(call: Call, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise BadRequest(
            "json: cannot unmarshal into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64"
        )
    cause = None
    if seconds < SHORTEST:
        cause = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > LONGEST:
        cause = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if cause is not None:
        raise invalid_object("TokenRequest", "authentication.k8s.io", call.name, [cause])


def _bound(core: Core, call: Call, reference: Object | None) -> dict[str, tuple[str, str]]:
    """The Secret a token is bound to: it must exist, as the one named. Pods and nodes come with their kinds."""
    if not reference:
        return {}
    if reference.get("kind") != "Secret":
        raise BadRequest(
            f'cannot bind token for serviceaccount "{call.name}" to object of type {reference.get("kind")}'
        )
    name = str(reference.get("name", ""))
    entry = core.cache.kind("", "secrets").get(call.target.cluster, call.namespace, name)
    if entry is None:
        raise NotFound(f'secrets "{name}" not found', name=name, kind="secrets")
    uid = entry.object()["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        raise Conflict(
            f'Operation cannot be fulfilled on Secret "{name}": the UID in the bound object reference '
            f"({reference['uid']}) does not match the UID in record. The object might have been deleted and then "
            "recreated",
            name=name,
            kind="Secret",
        )
    return {"secret": (name, uid)}
