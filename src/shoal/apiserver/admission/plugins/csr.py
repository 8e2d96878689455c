"""CertificateSigningRequests: records the requesting user, and checks the permission to approve and sign by signer."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.clock import rfc3339
from shoal.kinds.certificates.csr import set_condition_times, validate_csr_status_update
from shoal.kinds.certificates.pem import inspect_request
from shoal.objects.errors import Cause, invalid_object

RESOURCE = ("certificates.k8s.io", "certificatesigningrequests")
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_MASTERS = "system:masters"

Object = dict[str, Any]


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    if old is None:
        _set_requester(ctx, new)
    elif ctx.info.subresource:
        status, before = new.setdefault("status", {}), old.get("status") or {}
        set_condition_times(new, old, rfc3339(server.clock.now()))
        signer = old["spec"].get("signerName") or ""
        if ctx.info.subresource == "approval":
            unchanged = {field: value for field, value in before.items() if field != "conditions"}
            conditions = status.get("conditions")
            new["status"] = unchanged | ({"conditions": conditions} if conditions else {})
            _check_signer_permission(server, ctx, "approve", signer)
        elif status != before:
            _check_signer_permission(server, ctx, "sign", signer)
            _raise_if_invalid(ctx, new, validate_csr_status_update(new, old))


def _set_requester(ctx: RequestContext, new: Object) -> None:
    spec, user = new["spec"], ctx.user
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if spec.get("signerName") == CLIENT_SIGNER and _MASTERS in inspect_request(spec.get("request"))[1]:
        raise ctx.resource.forbidden(new, f"use of {CLIENT_SIGNER} signer with {_MASTERS} group is not allowed")


def _check_signer_permission(server: ServerComponents, ctx: RequestContext, verb: str, signer: str) -> None:
    """The user needs the verb for the signer by name, or for all signers of its domain."""
    for name in (signer, signer.partition("/")[0] + "/*"):
        attributes = Attributes(
            cluster=ctx.info.cluster, verb=verb, group=RESOURCE[0], version="*", resource="signers", name=name
        )
        if server.authorizer.authorize(ctx.user, attributes).allowed:
            return
    reason = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise ctx.resource.forbidden({"metadata": {"name": ctx.name}}, reason)


def _raise_if_invalid(ctx: RequestContext, obj: Object, causes: list[Cause]) -> None:
    if causes:
        name = obj["metadata"].get("name") or ""
        raise invalid_object(ctx.resource.kind, ctx.resource.group, name, causes)
