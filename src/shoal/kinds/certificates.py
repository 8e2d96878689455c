"""CertificateSigningRequest of certificates.k8s.io/v1: strategy functions and validation. Pure."""

from __future__ import annotations

from shoal.kinds.certificate_requests import certificate_problem, looked_at
from shoal.kinds.checks import Object, one_of, said, section
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
SHORTEST = 600
RESETS: dict[str, Object] = {
    "": {"f:spec": {}, "f:status": {}},
    "status": {"f:spec": {}, "f:status": {"f:conditions": {}}},
    "approval": {"f:spec": {}, "f:status": {"f:certificate": {}}},
}
"""Fields that a write of the request, its status or its approval does not own."""
_DECISIONS = ("Approved", "Denied")
_ONLY_TRUE = (*_DECISIONS, "Failed")
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"


def default_request(obj: Object) -> None:
    section(obj, "spec")
    for condition in section(obj, "status").get("conditions") or ():
        condition.setdefault("lastUpdateTime", None)
        condition.setdefault("lastTransitionTime", None)


def keep_request(new: Object, old: Object) -> None:
    """Keeps spec and status: a request never changes after creation."""
    new["spec"], new["status"] = old["spec"], old.get("status") or {}


def validate_request(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = [] if old is not None else _spec(spec)
    status = obj.get("status") or {}
    causes += _conditions(status.get("conditions") or [])
    certificate = status.get("certificate")
    if certificate and (old is None or certificate != (old.get("status") or {}).get("certificate")):
        causes += said("status.certificate", "<certificate data>", filter(None, [certificate_problem(certificate)]))
    if old is None:
        return causes
    for kind in _ONLY_TRUE:
        if len(_of(obj, kind)) < len(_of(old, kind)):
            said_ = f'updates may not remove a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", said_))
    return causes


def validate_decisions(obj: Object, old: Object) -> list[Cause]:
    """Validates a write of /status: approval conditions are set through /approval, and a certificate is issued once."""
    causes = []
    for kind in _DECISIONS:
        new, before = _of(obj, kind), _of(old, kind)
        if len(new) > len(before):
            said_ = f'updates may not add a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", said_))
        elif len(new) == len(before) and new != before:
            said_ = f'updates may not modify a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", said_))
    given = (old.get("status") or {}).get("certificate")
    if given and given != (obj.get("status") or {}).get("certificate"):
        causes.append(forbidden_field("status.certificate", "updates may not modify existing certificate content"))
    return causes


def _of(obj: Object, kind: str) -> list[Object]:
    return [c for c in (obj.get("status") or {}).get("conditions") or () if c.get("type") == kind]


def _spec(spec: Object) -> list[Cause]:
    usages, seconds = spec.get("usages") or [], spec.get("expirationSeconds")
    wrong, _ = looked_at(spec.get("request"))
    causes = [invalid_value("spec.request", spec.get("request"), wrong)] if wrong else []
    if not usages:
        causes.append(required("spec.usages"))
    for i, usage in enumerate(usages):
        causes += one_of(usage, f"spec.usages[{i}]", *USAGES)
    causes += [duplicate(f"spec.usages[{i}]", usage) for i, usage in enumerate(usages) if usage in usages[:i]]
    causes += _signer(spec.get("signerName") or "", "spec.signerName")
    if seconds is not None and seconds < SHORTEST:
        said_ = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, said_))
    return causes


def _signer(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    if name == LEGACY_SIGNER:
        return [invalid_value(path, name, "the legacy signerName is not allowed via this API version")]
    if name.count("/") != 1:
        form = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(path, name, form)]
    domain, _, rest = name.partition("/")
    causes: list[Cause] = []
    for part, rule in ((domain, is_dns1123_label), (rest, is_dns1123_subdomain)):
        wrong = next(((label, rule(label)) for label in part.split(".") if rule(label)), None)
        if wrong:
            causes += said(path, part, (f'validating label "{wrong[0]}": {text}' for text in wrong[1]))
    if "." not in domain:
        said_ = "should be a domain with at least two segments separated by dots"
        causes.append(invalid_value(path, domain, said_))
    return causes


def _conditions(conditions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind, status, path = condition.get("type") or "", condition.get("status") or "", f"status.conditions[{i}]"
        if not kind:
            causes.append(required(f"{path}.type"))
        allowed = ("True",) if kind in _ONLY_TRUE else ("False", "True", "Unknown")
        causes += one_of(status, f"{path}.status", *allowed) if status else [required(f"{path}.status")]
        if kind in _DECISIONS and seen & (set(_DECISIONS) - {kind}):
            causes.append(invalid_value("status.conditions", kind, _EXCLUSIVE))
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    return causes


def stamp_conditions(obj: Object, old: Object, now: str) -> None:
    """Sets lastUpdateTime and lastTransitionTime of conditions where the client did not."""
    before = (old.get("status") or {}).get("conditions") or ()
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = [
                c
                for c in before
                if (c.get("type"), c.get("status")) == (condition.get("type"), condition.get("status"))
            ]
            kept = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), now)
            condition["lastTransitionTime"] = kept
