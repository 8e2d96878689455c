"""CertificateSigningRequests: records the requesting user, and checks the permission to approve and sign by signer."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes
from shoal.apiserver.core import Call, Core
from shoal.clock import rfc3339
from shoal.kinds.certificate_requests import looked_at
from shoal.kinds.certificates import stamp_conditions, validate_decisions
from shoal.objects.errors import Cause, invalid_object

RESOURCE = ("certificates.k8s.io", "certificatesigningrequests")
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_MASTERS = "system:masters"

Object = dict[str, Any]


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    if old is None:
        _create(call, new)
    elif call.target.subresource:
        status, before = new.setdefault("status", {}), old.get("status") or {}
        stamp_conditions(new, old, rfc3339(core.clock.now()))
        signer = old["spec"].get("signerName") or ""
        if call.target.subresource == "approval":
            kept = {field: value for field, value in before.items() if field != "conditions"}
            conditions = status.get("conditions")
            new["status"] = kept | ({"conditions": conditions} if conditions else {})
            _may(core, call, "approve", signer)
        elif status != before:
            _may(core, call, "sign", signer)
            _refuse(call, new, validate_decisions(new, old))


def _create(call: Call, new: Object) -> None:
    spec, user = new["spec"], call.user
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if spec.get("signerName") == CLIENT_SIGNER and _MASTERS in looked_at(spec.get("request"))[1]:
        raise call.resource.forbidden(new, f"use of {CLIENT_SIGNER} signer with {_MASTERS} group is not allowed")


def _may(core: Core, call: Call, verb: str, signer: str) -> None:
    """The user needs the verb for the signer by name, or for all signers of its domain."""
    for name in (signer, signer.partition("/")[0] + "/*"):
        wanted = Attributes(
            cluster=call.target.cluster, verb=verb, group=RESOURCE[0], version="*", resource="signers", name=name
        )
        if core.authorizer.authorize(call.user, wanted).allowed:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise call.resource.forbidden({"metadata": {"name": call.name}}, why)


def _refuse(call: Call, obj: Object, causes: list[Cause]) -> None:
    if causes:
        name = obj["metadata"].get("name") or ""
        raise invalid_object(call.resource.kind, call.resource.group, name, causes)
