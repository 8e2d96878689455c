"""POST of serviceaccounts/NAME/token: issues a short-lived token for a ServiceAccount."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.webhooks import reviewed_body
from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import write_options
from shoal.apiserver.render import served_object
from shoal.apiserver.writing import member, read_body
from shoal.clock import rfc3339
from shoal.kinds.nodes_identity import node_of
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

SHORTEST, LONGEST, USUAL = 600, 1 << 32, 3600
_BOUND = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


async def create_token(core: Core, call: Call) -> Response:
    options = write_options(call.query, "CreateOptions")
    body = read_body(call.request, "TokenRequest")
    if body.get("kind") not in (None, "", "TokenRequest"):
        raise BadRequest(f"{body.get('kind')} cannot be handled as a TokenRequest")
    body = await reviewed_body(core, call, body, options.dry_run)
    metadata = member(body, "metadata")
    _check_named(call, metadata)
    account = served_object(call.resource, call.found())
    uid = account["metadata"]["uid"]
    if metadata.get("uid") and metadata["uid"] != uid:
        why = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})"
        raise _conflict("TokenRequest.authentication.k8s.io", call.name, why)
    spec = member(body, "spec")
    seconds = spec.get("expirationSeconds")
    seconds = USUAL if seconds is None else seconds
    _check(seconds)
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise BadRequest("json: cannot unmarshal into Go struct field TokenRequestSpec.spec.audiences of type []string")
    bound = _bound(core, call, member(spec, "boundObjectRef"))
    node = node_of(call.user.name, call.user.groups)
    if node and ("pod" not in bound or bound.get("node", ("",))[0] != node):
        why = f'node "{node}" may ask for tokens only that are bound to a pod of its own'
        raise Forbidden(f'serviceaccounts "{call.name}" is forbidden: {why}', name=call.name, kind="serviceaccounts")
    answer: Object = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": call.name,
            "namespace": call.namespace,
            "uid": uid,
            "creationTimestamp": rfc3339(core.clock.now()),
        },
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


def _check_named(call: Call, metadata: Object) -> None:
    for field, wanted in (("name", call.name), ("namespace", call.namespace)):
        if metadata.get(field) and metadata[field] != wanted:
            told = f"must match the service account {field} if specified"
            raise _invalid(call.name, invalid_value(f"metadata.{field}", metadata[field], told))


def _invalid(name: str, cause: Cause) -> Invalid:
    return invalid_object("TokenRequest", "authentication.k8s.io", name, [cause])


def _conflict(kind: str, name: str, why: str) -> Conflict:
    said = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    kind, _, group = kind.partition(".")
    return Conflict(said, name=name, group=group, kind=kind)


def _check(seconds: object) -> None:
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
        # Upstream gives no name here.
        raise _invalid("", cause)


def _bound(core: Core, call: Call, reference: Object | None) -> dict[str, tuple[str, str]]:
    """Resolves the Pod, Node or Secret a token is bound to. It must exist, with the given uid."""
    if not reference:
        return {}
    kind, version = str(reference.get("kind") or ""), str(reference.get("apiVersion") or "")
    if kind not in _BOUND or "/" in version:
        group, _, rest = version.rpartition("/")
        raise BadRequest(f"cannot bind token to object of type {group}/{rest}, Kind={kind}")
    name = str(reference.get("name", ""))
    obj = _existing(core, call, _BOUND[kind], name)
    if obj is None:
        raise NotFound(f'{_BOUND[kind]} "{name}" not found', name=name, kind=_BOUND[kind])
    if kind == "Pod" and obj["spec"].get("serviceAccountName") != call.name:
        why = f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
        raise BadRequest(why)
    uid = obj["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise _conflict(kind, name, why)
    found = {kind.lower(): (name, uid)}
    if kind == "Pod" and (node := obj["spec"].get("nodeName")):
        there = _existing(core, call, "nodes", node)
        found["node"] = (node, there["metadata"]["uid"] if there is not None else "")
    return found


def _existing(core: Core, call: Call, plural: str, name: str) -> Object | None:
    namespace = "" if plural == "nodes" else call.namespace
    entry = core.cache.kind("", plural).get(call.target.cluster, namespace, name)
    return entry.object() if entry is not None else None
