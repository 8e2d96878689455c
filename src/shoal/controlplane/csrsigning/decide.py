"""Decides which CertificateSigningRequests are signed, which fail and when they are deleted. Pure.

Approval is out of scope: nothing here approves a request.
"""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_address
from typing import Any

from shoal.kinds.certificates.pem import CSRSubject
from shoal.kinds.core.node_identity import NODES_GROUP as NODES
from shoal.kinds.core.node_identity import USER_PREFIX as NODE
from shoal.kinds.fleet import worker_join

Object = dict[str, Any]

API_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING_SIGNER = "kubernetes.io/kubelet-serving"
SIGNERS = (API_CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, worker_join.SIGNER_NAME)

HOUR = 3600.0
DECIDED_TTL, PENDING_TTL = HOUR, 24 * HOUR
MIN_DURATION, MAX_DURATION = 600.0, 365 * 24 * HOUR
FAILED_REASON = "SignerValidationFailure"


def _true_conditions(csr: Object) -> dict[str, Object]:
    conditions = (csr.get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition for condition in conditions if condition.get("status", "True") == "True"}


def is_issued(csr: Object) -> bool:
    return bool((csr.get("status") or {}).get("certificate"))


def needs_signing(csr: Object) -> bool:
    conditions = _true_conditions(csr)
    is_known_signer = csr["spec"].get("signerName") in SIGNERS
    return (
        is_known_signer
        and "Approved" in conditions
        and not {"Denied", "Failed"} & conditions.keys()
        and not is_issued(csr)
    )


def duration_of(csr: Object) -> float:
    requested = csr["spec"].get("expirationSeconds")
    maximum = (
        worker_join.MAX_CERTIFICATE_SECONDS
        if csr["spec"].get("signerName") == worker_join.SIGNER_NAME
        else MAX_DURATION
    )
    return maximum if requested is None else min(max(float(requested), MIN_DURATION), maximum)


def validation_error(signer: str, subject: CSRSubject, usages: list[str]) -> str:
    """Returns upstream's reason why the signer rejects the request; empty if it signs."""
    if signer == API_CLIENT_SIGNER:
        if "system:masters" in subject.organizations:
            return f"use of {API_CLIENT_SIGNER} signer with system:masters group is not allowed"
        return _client_usages_error(usages)
    if signer == worker_join.SIGNER_NAME:
        return worker_join.subject_error(subject, usages)
    if subject.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if signer == KUBELET_SERVING_SIGNER and not subject.dns_names and not subject.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if signer == KUBELET_CLIENT_SIGNER and subject.dns_names:
        return "DNS subjectAltNames are not allowed"
    if subject.email_addresses:
        return "Email subjectAltNames are not allowed"
    if signer == KUBELET_CLIENT_SIGNER and subject.ip_addresses:
        return "IP subjectAltNames are not allowed"
    if subject.uris:
        return "URI subjectAltNames are not allowed"
    if not subject.common_name.startswith(NODE):
        return f"subject common name does not begin with {NODE}"
    needed = {"digital signature", "server auth" if signer == KUBELET_SERVING_SIGNER else "client auth"}
    if set(usages) not in (needed, needed | {"key encipherment"}):
        return f"usages did not match [{' '.join(sorted(needed | {'key encipherment'}))}]"
    return ""


def node_of(subject: CSRSubject) -> str:
    """Returns the name of the Node of a kubelet's request."""
    return subject.common_name.removeprefix(NODE)


def serving_names_error(subject: CSRSubject, node: Object | None) -> str:
    """Returns why a kubelet may not serve under the names it requests; empty if they are names of its Node.

    Upstream leaves this to the approver.
    """
    if node is None:
        return f'node "{node_of(subject)}" does not exist'
    addresses = (node.get("status") or {}).get("addresses") or ()
    names = {node_of(subject).lower(), *(str(each.get("address")).lower() for each in addresses)}
    ips = {str(ip_address(name)) for name in names if _is_ip_address(name)}
    strange = [name for name in subject.dns_names if name.lower() not in names]
    strange += [address for address in subject.ip_addresses if str(ip_address(address)) not in ips]
    return f'{strange[0]} is not an address of node "{node_of(subject)}"' if strange else ""


def worker_name(subject: CSRSubject) -> str:
    """Returns the name of the Worker of a worker's request."""
    return subject.common_name.removeprefix(worker_join.USER_PREFIX)


def worker_error(csr: Object, subject: CSRSubject, worker: Object | None) -> str:
    """Returns why a worker gets no certificate for its Worker; empty if it gets one. A worker that renews its
    certificate gets one for the Worker that the current certificate is bound to, and for no later one.
    """
    name = worker_name(subject)
    if worker is None:
        return f'worker "{name}" does not exist'
    if worker_join.is_expelled(worker):
        return f'worker "{name}" was expelled'
    spec = csr["spec"]
    renews = bool(worker_join.worker_of(spec.get("username") or "", spec.get("groups") or ()))
    if renews and spec.get("uid") and spec["uid"] != worker["metadata"]["uid"]:
        return f'the request is of an earlier worker "{name}"'
    return ""


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def approval_time(csr: Object) -> float:
    """Returns when the request was approved, in seconds since the epoch."""
    time = _true_conditions(csr)["Approved"].get("lastUpdateTime")
    return _timestamp(time) if time else 0.0


def _client_usages_error(usages: list[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def with_failed_condition(csr: Object, message: str, now: str) -> Object:
    condition = {"type": "Failed", "status": "True", "reason": FAILED_REASON, "message": message}
    condition |= {"lastUpdateTime": now, "lastTransitionTime": now}
    status = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


def with_certificate(csr: Object, certificate: str) -> Object:
    """`certificate` is base64 of PEM."""
    return {**csr, "status": {**(csr.get("status") or {}), "certificate": certificate}}


def removal_time(csr: Object, not_after: float | None) -> float | None:
    """Returns the deletion time in seconds since the epoch. `not_after` is the expiry of the issued certificate."""
    times = [] if not_after is None else [not_after]
    conditions = (csr.get("status") or {}).get("conditions") or ()
    if not conditions:
        return _timestamp(csr["metadata"]["creationTimestamp"]) + PENDING_TTL
    for condition in conditions:
        if condition.get("lastUpdateTime"):
            is_unsigned = condition["type"] == "Approved" and not is_issued(csr)
            times.append(_timestamp(condition["lastUpdateTime"]) + (PENDING_TTL if is_unsigned else DECIDED_TTL))
    return min(times, default=None)


def _timestamp(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
