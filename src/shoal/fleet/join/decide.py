"""Decides whether a worker's CertificateSigningRequest is approved. Pure.

A join token is good once, for the name it was issued for, and never for a name that another worker has. A worker's own
certificate is good to renew itself. Everything else is left to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds.certificates.pem import CSRSubject
from shoal.kinds.fleet import infrav1, worker_join
from shoal.kinds.fleet.worker_join import JOIN_REQUEST_ANNOTATION, BootstrapToken

Object = dict[str, Any]

APPROVED, DENIED = "Approved", "Denied"


@dataclass(frozen=True, slots=True)
class CSRDecision:
    type: str
    """Approved or Denied."""
    reason: str
    message: str
    claims_token: bool = False
    """The token is marked as used by this request first."""
    joins: bool = False
    """The Worker is created, or marked as joined by this request, before it is approved."""


def is_pending(csr: Object) -> bool:
    """True if no condition is set yet."""
    return csr["spec"].get("signerName") == worker_join.SIGNER_NAME and not (csr.get("status") or {}).get("conditions")


def token_id_of(csr: Object) -> str:
    """Returns the id of the join token the request was made with; empty if it was made with other credentials."""
    user = csr["spec"].get("username") or ""
    joins = worker_join.is_join_token_user(user, csr["spec"].get("groups") or ())
    return user.removeprefix(worker_join.BOOTSTRAP_USER_PREFIX) if joins else ""


def store_of(csr: Object) -> str:
    """Returns the store id that the requesting worker claims."""
    return str((csr["metadata"].get("annotations") or {}).get(infrav1.STORE_ANNOTATION) or "")


def decide(
    csr: Object, csr_subject: CSRSubject | None, token: BootstrapToken | None, worker: Object | None, now: float
) -> CSRDecision | None:
    """`csr_subject` is the parsed request, None if it cannot be parsed. `token` is the token it was made with, None if
    it no longer exists. `worker` is the existing Worker of that name. Returns None if the decision is left to
    people.
    """
    user, groups = csr["spec"].get("username") or "", csr["spec"].get("groups") or ()
    renewing_worker, token_id = worker_join.worker_of(user, groups), token_id_of(csr)
    if not renewing_worker and not token_id:
        return None
    if csr_subject is None:
        return _deny("MalformedRequest", "cannot decode the certificate request")
    subject_error = worker_join.subject_error(csr_subject, csr["spec"].get("usages") or ())
    if subject_error:
        return _deny("MalformedRequest", subject_error)
    name = csr_subject.common_name.removeprefix(worker_join.USER_PREFIX)
    if renewing_worker:
        if renewing_worker != name:
            return _deny("AnotherWorker", f"worker {renewing_worker} may not request a certificate for worker {name}")
        if worker is None or (csr["spec"].get("uid") or worker["metadata"]["uid"]) != worker["metadata"]["uid"]:
            return _deny("Deleted", f"worker {name} was deleted")
        if worker_join.is_expelled(worker):
            return _deny("Expelled", f"worker {name} was expelled")
        return CSRDecision(APPROVED, "Renewal", f"worker {name} renews its own certificate")
    if token is None or token.is_expired(now):
        return _deny("TokenExpired", f"join token {token_id} has expired")
    return _decide_join(csr, name, token, worker)


def _decide_join(csr: Object, name: str, token: BootstrapToken, worker: Object | None) -> CSRDecision:
    uid = csr["metadata"]["uid"]
    if token.worker and token.worker != name:
        return _deny("AnotherName", f"join token {token.id} is for worker {token.worker}, not for {name}")
    if not token.reusable and token.request_uid not in ("", uid):
        return _deny("TokenUsed", f"join token {token.id} was already used by worker {token.used_by}")
    if worker is not None and worker_join.is_expelled(worker):
        return _deny("Expelled", f"worker {name} was expelled")
    if worker is not None:
        reject_reason = _name_taken_reason(name, token, worker, csr)
        if reject_reason:
            return _deny("NameTaken", reject_reason)
    message = f"worker {name} joins with token {token.id}"
    return CSRDecision(APPROVED, "JoinToken", message, claims_token=token.request_uid != uid, joins=True)


def _name_taken_reason(name: str, token: BootstrapToken, worker: Object, csr: Object) -> str:
    """Returns why an existing name is not given again; empty if it may be."""
    annotations = worker["metadata"].get("annotations") or {}
    store, request_uid = (annotations.get(key) or "" for key in (infrav1.STORE_ANNOTATION, JOIN_REQUEST_ANNOTATION))
    if request_uid == csr["metadata"]["uid"]:
        return ""
    if store and store != store_of(csr):
        return (
            f"the name {name} is taken by a worker with another store; start this one with another --name, or delete "
            "that Worker if it is gone for good"
        )
    # The same worker comes again, with another token, if it was killed before it registered.
    has_registered = bool(infrav1.spec_of(worker).get("version"))
    if token.worker != name and (has_registered or not store or not request_uid):
        return f"worker {name} already exists; to let it join again, create a token with --name {name}"
    return ""


def joined_worker(csr: Object, name: str) -> Object:
    """Returns the Worker of a worker that joins by a name nobody has. No hub starts a process for it."""
    annotations = {infrav1.STORE_ANNOTATION: store_of(csr), JOIN_REQUEST_ANNOTATION: csr["metadata"]["uid"]}
    return {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.WORKER,
        "metadata": {
            "name": name,
            "namespace": infrav1.NAMESPACE,
            "annotations": {key: value for key, value in annotations.items() if value},
        },
        "spec": {"infrastructure": infrav1.EXTERNAL_WORKER},
    }


def joined_patch(csr: Object, worker: Object) -> Object | None:
    """Returns the patch that marks a Worker as joined by the request; None if it is marked."""
    metadata, request_uid = worker["metadata"], csr["metadata"]["uid"]
    if (metadata.get("annotations") or {}).get(JOIN_REQUEST_ANNOTATION) == request_uid:
        return None
    version = metadata["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {JOIN_REQUEST_ANNOTATION: request_uid}}}


def _deny(reason: str, message: str) -> CSRDecision:
    return CSRDecision(DENIED, reason, message)


def with_decision(csr: Object, decision: CSRDecision) -> Object:
    """Returns the request with the condition, as `/approval` takes it. The server sets the time."""
    condition = {"type": decision.type, "status": "True", "reason": decision.reason, "message": decision.message}
    return {**csr, "status": {**(csr.get("status") or {}), "conditions": [condition]}}
