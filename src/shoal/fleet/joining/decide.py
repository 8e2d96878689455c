"""Decides whether a worker's CertificateSigningRequest is approved. Pure.

A join token is good once, for the name it was issued for, and never for a name that another worker has. A worker's own
certificate is good to renew itself. Everything else is left to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds import fleet, joining
from shoal.kinds.certificate_requests import Asked
from shoal.kinds.joining import Token

Object = dict[str, Any]

APPROVED, DENIED = "Approved", "Denied"


@dataclass(frozen=True, slots=True)
class Verdict:
    type: str
    """Approved or Denied."""
    reason: str
    message: str
    claims: bool = False
    """The token is marked as used by this request first."""


def is_open(request: Object) -> bool:
    """True if no condition is set yet."""
    return request["spec"].get("signerName") == joining.SIGNER and not (request.get("status") or {}).get("conditions")


def token_of(request: Object) -> str:
    """Returns the id of the join token the request was made with; empty if it was made with other credentials."""
    user = request["spec"].get("username") or ""
    joins = joining.is_joining(user, request["spec"].get("groups") or ())
    return user.removeprefix(joining.BOOTSTRAP_PREFIX) if joins else ""


def store_of(request: Object) -> str:
    """Returns the store id that the requesting worker claims."""
    return str((request["metadata"].get("annotations") or {}).get(fleet.STORE) or "")


def decide(
    request: Object, asked: Asked | None, token: Token | None, worker: Object | None, now: float
) -> Verdict | None:
    """`csr_subject` is the parsed request, None if it cannot be parsed. `token` is the token it was made with, None if
    it no longer exists. `worker` is the existing Worker of that name. Returns None if the decision is left to
    people.
    """
    user, groups = request["spec"].get("username") or "", request["spec"].get("groups") or ()
    renews, id_ = joining.worker_of(user, groups), token_of(request)
    if not renews and not id_:
        return None
    if asked is None:
        return _denied("MalformedRequest", "the request cannot be read")
    wrong = joining.wrong_subject(asked, request["spec"].get("usages") or ())
    if wrong:
        return _denied("MalformedRequest", wrong)
    name = asked.common_name.removeprefix(joining.PREFIX)
    if renews:
        if renews != name:
            return _denied("AnotherWorker", f"worker {renews} may not ask for the certificate of worker {name}")
        return Verdict(APPROVED, "Renewal", f"worker {name} renews its own certificate")
    if token is None or token.has_expired(now):
        return _denied("TokenExpired", f"join token {id_} has expired")
    return _with_token(request, name, token, worker)


def _with_token(request: Object, name: str, token: Token, worker: Object | None) -> Verdict:
    uid = request["metadata"]["uid"]
    if token.worker and token.worker != name:
        return _denied("AnotherName", f"join token {token.id} is for worker {token.worker}, not for {name}")
    if not token.reusable and token.request not in ("", uid):
        return _denied("TokenUsed", f"join token {token.id} was used already, by worker {token.used_by}")
    if worker is not None and joining.is_expelled(worker):
        return _denied("Expelled", f"worker {name} was expelled")
    if worker is not None:
        taken = _taken(name, token, str((worker["metadata"].get("annotations") or {}).get(fleet.STORE) or ""), request)
        if taken:
            return _denied("NameTaken", taken)
    return Verdict(APPROVED, "JoinToken", f"worker {name} joins with token {token.id}", claims=token.request != uid)


def _taken(name: str, token: Token, store: str, request: Object) -> str:
    """Returns why an existing name is not given again; empty if it may be."""
    if store and store != store_of(request):
        return (
            f"the name {name} belongs to another worker's store; start this one with another --name, or delete that "
            "Worker if it is gone for good"
        )
    if token.worker != name:
        return f"there is a worker {name} already; to let it join again, make a token with --name {name}"
    return ""


def _denied(reason: str, message: str) -> Verdict:
    return Verdict(DENIED, reason, message)


def decided(request: Object, verdict: Verdict) -> Object:
    """Returns the request with the condition, as `/approval` takes it. The server sets the time."""
    condition = {"type": verdict.type, "status": "True", "reason": verdict.reason, "message": verdict.message}
    return {**request, "status": {**(request.get("status") or {}), "conditions": [condition]}}
