"""Decides which CertificateSigningRequests are signed, which fail and when they are deleted. Pure.

Approval is out of scope: nothing here approves a request.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shoal.kinds import joining
from shoal.kinds.certificate_requests import Asked
from shoal.kinds.nodes_identity import GROUP as NODES
from shoal.kinds.nodes_identity import PREFIX as NODE

Object = dict[str, Any]

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, joining.SIGNER)

HOUR = 3600.0
DECIDED, PENDING = HOUR, 24 * HOUR
SHORTEST, LONGEST = 600.0, 365 * 24 * HOUR
FAILED = "SignerValidationFailure"


def _conditions(csr: Object) -> dict[str, Object]:
    found = (csr.get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition for condition in found if condition.get("status", "True") == "True"}


def is_issued(csr: Object) -> bool:
    return bool((csr.get("status") or {}).get("certificate"))


def is_to_be_signed(csr: Object) -> bool:
    conditions = _conditions(csr)
    ours = csr["spec"].get("signerName") in SIGNERS
    return ours and "Approved" in conditions and not {"Denied", "Failed"} & conditions.keys() and not is_issued(csr)


def lifetime(csr: Object) -> float:
    asked = csr["spec"].get("expirationSeconds")
    longest = joining.LONGEST_SECONDS if csr["spec"].get("signerName") == joining.SIGNER else LONGEST
    return longest if asked is None else min(max(float(asked), SHORTEST), longest)


def problem(signer: str, asked: Asked, usages: list[str]) -> str:
    """Returns upstream's reason why the signer rejects the request; empty if it signs."""
    if signer == CLIENT:
        if "system:masters" in asked.organizations:
            return f"use of {CLIENT} signer with system:masters group is not allowed"
        return _client_usages(usages)
    if signer == joining.SIGNER:
        return joining.wrong_subject(asked, usages)
    if asked.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if signer == KUBELET_SERVING and not asked.dns and not asked.addresses:
        return "DNS or IP subjectAltName is required"
    if signer == KUBELET_CLIENT and asked.dns:
        return "DNS subjectAltNames are not allowed"
    if asked.emails:
        return "Email subjectAltNames are not allowed"
    if signer == KUBELET_CLIENT and asked.addresses:
        return "IP subjectAltNames are not allowed"
    if asked.uris:
        return "URI subjectAltNames are not allowed"
    if not asked.common_name.startswith(NODE):
        return f"subject common name does not begin with {NODE}"
    needed = {"digital signature", "server auth" if signer == KUBELET_SERVING else "client auth"}
    if set(usages) not in (needed, needed | {"key encipherment"}):
        return f"usages did not match [{' '.join(sorted(needed | {'key encipherment'}))}]"
    return ""


def _client_usages(usages: list[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def failed(csr: Object, message: str, now: str) -> Object:
    condition = {"type": "Failed", "status": "True", "reason": FAILED, "message": message}
    condition |= {"lastUpdateTime": now, "lastTransitionTime": now}
    status = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


def signed(csr: Object, certificate: str) -> Object:
    """`certificate` is base64 of PEM."""
    return {**csr, "status": {**(csr.get("status") or {}), "certificate": certificate}}


def removal(csr: Object, not_after: float | None) -> float | None:
    """Returns the deletion time in seconds since the epoch. `not_after` is the expiry of the issued certificate."""
    ends = [] if not_after is None else [not_after]
    conditions = (csr.get("status") or {}).get("conditions") or ()
    if not conditions:
        return _seconds(csr["metadata"]["creationTimestamp"]) + PENDING
    for condition in conditions:
        if condition.get("lastUpdateTime"):
            unsigned = condition["type"] == "Approved" and not is_issued(csr)
            ends.append(_seconds(condition["lastUpdateTime"]) + (PENDING if unsigned else DECIDED))
    return min(ends, default=None)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
