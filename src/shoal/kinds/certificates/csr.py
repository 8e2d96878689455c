"""CertificateSigningRequest of certificates.k8s.io/v1: defaults, validation, strategy and printer columns. Pure."""

from __future__ import annotations

from shoal.kinds.certificates.pem import certificate_error, inspect_request
from shoal.kinds.column import AGE, NONE, Column, field_cell
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object, ensure_map, invalid_causes, repeated_positions, validate_enum
from shoal.objects.duration import human_duration
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
MIN_EXPIRATION_SECONDS = 600
RESET_FIELDS: dict[str, Object] = {
    "": {"f:spec": {}, "f:status": {}},
    "status": {"f:spec": {}, "f:status": {"f:conditions": {}}},
    "approval": {"f:spec": {}, "f:status": {"f:certificate": {}}},
}
"""Fields that a write of the request, its status or its approval does not own."""
_DECISION_CONDITIONS = ("Approved", "Denied")
_TRUE_ONLY_CONDITIONS = (*_DECISION_CONDITIONS, "Failed")
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"


def default_csr(obj: Object) -> None:
    ensure_map(obj, "spec")
    for condition in ensure_map(obj, "status").get("conditions") or ():
        condition.setdefault("lastUpdateTime", None)
        condition.setdefault("lastTransitionTime", None)


def prepare_csr_update(new: Object, old: Object) -> None:
    """Keeps spec and status: a request never changes after creation."""
    new["spec"], new["status"] = old["spec"], old.get("status") or {}


def validate_csr(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = [] if old is not None else _validate_spec(spec)
    status = obj.get("status") or {}
    causes += _validate_conditions(status.get("conditions") or [])
    certificate = status.get("certificate")
    if certificate and (old is None or certificate != (old.get("status") or {}).get("certificate")):
        causes += invalid_causes(
            "status.certificate", "<certificate data>", filter(None, [certificate_error(certificate)])
        )
    if old is None:
        return causes
    for kind in _TRUE_ONLY_CONDITIONS:
        if len(_conditions_of_type(obj, kind)) < len(_conditions_of_type(old, kind)):
            detail = f'updates may not remove a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", detail))
    return causes


def validate_csr_status_update(obj: Object, old: Object) -> list[Cause]:
    """Validates a write of /status: approval conditions are set through /approval, and a certificate is issued once."""
    causes = []
    for kind in _DECISION_CONDITIONS:
        new, before = _conditions_of_type(obj, kind), _conditions_of_type(old, kind)
        if len(new) > len(before):
            detail = f'updates may not add a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", detail))
        elif len(new) == len(before) and new != before:
            detail = f'updates may not modify a condition of type "{kind}"'
            causes.append(forbidden_field("status.conditions", detail))
    old_certificate = (old.get("status") or {}).get("certificate")
    if old_certificate and old_certificate != (obj.get("status") or {}).get("certificate"):
        causes.append(forbidden_field("status.certificate", "updates may not modify existing certificate content"))
    return causes


def _conditions_of_type(obj: Object, kind: str) -> list[Object]:
    return [c for c in (obj.get("status") or {}).get("conditions") or () if c.get("type") == kind]


def _validate_spec(spec: Object) -> list[Cause]:
    usages, seconds = spec.get("usages") or [], spec.get("expirationSeconds")
    request_error, _ = inspect_request(spec.get("request"))
    causes = [invalid_value("spec.request", spec.get("request"), request_error)] if request_error else []
    if not usages:
        causes.append(required_value("spec.usages"))
    for i, usage in enumerate(usages):
        causes += validate_enum(usage, f"spec.usages[{i}]", *USAGES)
    causes += [duplicate(f"spec.usages[{i}]", usages[i]) for i in repeated_positions(usages)]
    causes += _validate_signer(spec.get("signerName") or "", "spec.signerName")
    if seconds is not None and seconds < MIN_EXPIRATION_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, detail))
    return causes


def _validate_signer(name: str, path: str) -> list[Cause]:
    if not name:
        return [required_value(path)]
    if name == LEGACY_SIGNER:
        return [invalid_value(path, name, "the legacy signerName is not allowed via this API version")]
    if name.count("/") != 1:
        form = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(path, name, form)]
    domain, _, rest = name.partition("/")
    causes: list[Cause] = []
    for part, rule in ((domain, is_dns1123_label), (rest, is_dns1123_subdomain)):
        invalid_label = next(((label, rule(label)) for label in part.split(".") if rule(label)), None)
        if invalid_label:
            causes += invalid_causes(
                path, part, (f'validating label "{invalid_label[0]}": {text}' for text in invalid_label[1])
            )
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        causes.append(invalid_value(path, domain, detail))
    return causes


def _validate_conditions(conditions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind, status, path = condition.get("type") or "", condition.get("status") or "", f"status.conditions[{i}]"
        if not kind:
            causes.append(required_value(f"{path}.type"))
        allowed = ("True",) if kind in _TRUE_ONLY_CONDITIONS else ("False", "True", "Unknown")
        causes += validate_enum(status, f"{path}.status", *allowed) if status else [required_value(f"{path}.status")]
        if kind in _DECISION_CONDITIONS and seen & (set(_DECISION_CONDITIONS) - {kind}):
            causes.append(invalid_value("status.conditions", kind, _EXCLUSIVE))
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    return causes


def set_condition_times(obj: Object, old: Object, now: str) -> None:
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
            transition_time = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), now)
            condition["lastTransitionTime"] = transition_time


def _request_condition(obj: Object, now: float) -> object:
    status = obj.get("status") or {}
    kinds = {condition.get("type") for condition in status.get("conditions") or ()}
    states = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    states += ["Failed"] if "Failed" in kinds else []
    states += ["Issued"] if status.get("certificate") else []
    return ",".join(states)


def _requested_duration(obj: Object, now: float) -> object:
    seconds = (obj.get("spec") or {}).get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests.certificates.k8s.io": Strategy(
        status_writes_metadata=True,
        name_rule=is_path_segment_name,
        default=default_csr,
        prepare_for_update=prepare_csr_update,
        reset_fields=RESET_FIELDS,
        validate=validate_csr,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "certificatesigningrequests.certificates.k8s.io": (
        AGE,
        Column("SignerName", cell=field_cell("spec", "signerName", otherwise=NONE)),
        Column("Requestor", cell=field_cell("spec", "username", otherwise="")),
        Column("RequestedDuration", cell=_requested_duration),
        Column("Condition", cell=_request_condition),
    ),
}
