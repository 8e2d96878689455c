"""Worker join: the worker's identity on its hub, the signer of its certificate, and join tokens as Secrets. Pure.

A join token is a Kubernetes bootstrap token: Secret `bootstrap-token-<id>` in kube-system, `<id>.<secret>` on the wire.
Shoal's additions are in annotations.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kinds.certificates.pem import CSRSubject
from shoal.kinds.fleet import infrav1
from shoal.objects.duration import parse_time
from shoal.objects.names import is_dns1123_label

Object = dict[str, Any]

USER_PREFIX, WORKERS_GROUP = "system:worker:", "system:workers"
"""User `system:worker:<name>` of this group is the worker of that name."""
SIGNER_NAME = "shoal.dev/worker"
"""The signer of CertificateSigningRequests of such users."""
KEY_USAGES = ("client auth", "digital signature")
MAX_CERTIFICATE_SECONDS = 30 * 86_400
"""The maximum validity of a worker's certificate: as long as it may be disconnected and still come back on its own."""

TOKEN_SECRET_TYPE, TOKEN_NAMESPACE = "bootstrap.kubernetes.io/token", "kube-system"
BOOTSTRAP_USER_PREFIX, BOOTSTRAP_GROUP = "system:bootstrap:", "system:bootstrappers"
JOIN_GROUP = "system:bootstrappers:workers"
"""A client with a join token is user `system:bootstrap:<id>` of this group."""
ID_LENGTH, SECRET_LENGTH = 6, 16
TOKEN_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"

WORKER_URI = "urn:uuid:"
"""Prefix of the URI in a worker's certificate that names the uid of its Worker."""

CA_PATH = "/join/ca.crt"
"""The path of a hub's CA certificate, readable by anybody."""

WORKER_ANNOTATION = "shoal.dev/worker"
"""Annotation of a token: the only worker name it is valid for."""
LOCATION_ANNOTATION = "shoal.dev/location"
REUSABLE_ANNOTATION = "shoal.dev/reusable"
EXPELLED_ANNOTATION = "shoal.dev/expelled"
"""Annotation of a Worker, set by users to any value: the worker has no rights any more and cannot join again."""
JOIN_REQUEST_ANNOTATION = "shoal.dev/join-request"
"""Annotation of a Worker, set by the hub: the uid of the last CertificateSigningRequest that was approved for it with a
join token. A Worker that has it accepts only certificates that name its uid.
"""
USED_BY_ANNOTATION, REQUEST_UID_ANNOTATION = "shoal.dev/used-by", "shoal.dev/request"
"""Annotations of a used token: the worker that used it, and the uid of the CertificateSigningRequest."""


def user_name(worker: str) -> str:
    return USER_PREFIX + worker


def worker_of(user: str, groups: Iterable[str]) -> str:
    """Empty: the user is not a worker."""
    return user.removeprefix(USER_PREFIX) if user.startswith(USER_PREFIX) and WORKERS_GROUP in groups else ""


def worker_uri(uid: str) -> str:
    """The URI that binds a certificate to the Worker of that uid, and not to a later Worker of the same name."""
    return WORKER_URI + uid


def uid_in_uris(uris: Iterable[str]) -> str:
    """Returns the uid of the Worker that a certificate with these URIs is bound to; empty: it is bound to none."""
    uids = [uri.removeprefix(WORKER_URI) for uri in uris if uri.startswith(WORKER_URI)]
    return uids[0] if len(uids) == 1 else ""


def accepts_unbound_certificates(worker: Object) -> bool:
    """Reports whether certificates that name no uid are accepted: only for a Worker whose worker has joined before hubs
    bound certificates.
    """
    annotations = worker["metadata"].get("annotations") or {}
    return infrav1.STORE_ANNOTATION in annotations and JOIN_REQUEST_ANNOTATION not in annotations


def is_expelled(worker: Object) -> bool:
    return bool((worker["metadata"].get("annotations") or {}).get(EXPELLED_ANNOTATION))


def is_join_token_user(user: str, groups: Iterable[str]) -> bool:
    return user.startswith(BOOTSTRAP_USER_PREFIX) and JOIN_GROUP in groups


def name_error(worker: str) -> str:
    """Returns why a worker name is invalid; empty: it is valid."""
    if len(worker) > infrav1.MAX_WORKER_NAME_LENGTH:
        return f"at most {infrav1.MAX_WORKER_NAME_LENGTH} characters"
    return next(iter(is_dns1123_label(worker)), "")


def subject_error(subject: CSRSubject, usages: Sequence[str]) -> str:
    """Returns why a request is not for a worker's certificate; empty: it is one."""
    if not subject.common_name.startswith(USER_PREFIX) or name_error(subject.common_name.removeprefix(USER_PREFIX)):
        return f"subject common name is not {USER_PREFIX}NAME"
    if subject.organizations != (WORKERS_GROUP,):
        return f"subject organization is not {WORKERS_GROUP}"
    if subject.dns_names or subject.ip_addresses or subject.email_addresses or subject.uris:
        return "subjectAltNames are not allowed"
    if set(usages) != set(KEY_USAGES):
        return f"usages did not match [{', '.join(KEY_USAGES)}]"
    return ""


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A bootstrap token, read from its Secret."""

    id: str
    secret: str
    expires_at: float | None
    """Seconds since the epoch; None: never."""
    allows_authentication: bool
    groups: tuple[str, ...]
    worker: str
    """The only worker name it is valid for; empty: any unused one."""
    location: str
    reusable: bool
    used_by: str
    request_uid: str

    @property
    def is_join_token(self) -> bool:
        """Reports whether it is a join token and not a bootstrap token for another purpose."""
        return self.allows_authentication and JOIN_GROUP in self.groups

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def secret_name(id_: str) -> str:
    return f"bootstrap-token-{id_}"


def parse_token(token: str) -> tuple[str, str] | None:
    """Returns id and secret; None: malformed."""
    if len(token) != ID_LENGTH + 1 + SECRET_LENGTH or token[ID_LENGTH] != ".":
        return None
    id_, secret = token[:ID_LENGTH], token[ID_LENGTH + 1 :]
    return (id_, secret) if set(id_ + secret) <= set(TOKEN_ALPHABET) else None


def new_token_secret(
    token: tuple[str, str], expiration: str, worker: str = "", location: str = "", reusable: bool = False
) -> Object:
    """Returns the Secret of a join token. `token` is its id and secret, `expiration` is RFC 3339."""
    id_, secret = token
    data = {
        "token-id": id_,
        "token-secret": secret,
        "expiration": expiration,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": JOIN_GROUP,
        "description": "Lets a worker join.",
    }
    annotations = {
        WORKER_ANNOTATION: worker,
        LOCATION_ANNOTATION: location,
        REUSABLE_ANNOTATION: "true" if reusable else "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(id_),
            "namespace": TOKEN_NAMESPACE,
            "annotations": {key: value for key, value in annotations.items() if value},
        },
        "type": TOKEN_SECRET_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def token_from_secret(obj: Object) -> BootstrapToken | None:
    """Returns None when the Secret is not a bootstrap token or is being deleted."""
    metadata, data = obj["metadata"], obj.get("data") or {}
    id_, secret = _decoded_value(data, "token-id"), _decoded_value(data, "token-secret")
    if obj.get("type") != TOKEN_SECRET_TYPE or metadata["name"] != secret_name(id_) or "deletionTimestamp" in metadata:
        return None
    if parse_token(f"{id_}.{secret}") is None:
        return None
    expiration, annotations = _decoded_value(data, "expiration"), metadata.get("annotations") or {}
    extra = tuple(group for group in _decoded_value(data, "auth-extra-groups").split(",") if group)
    return BootstrapToken(
        id=id_,
        secret=secret,
        # An unreadable expiration counts as expired.
        expires_at=(parse_time(expiration) or 0.0) if expiration else None,
        allows_authentication=_decoded_value(data, "usage-bootstrap-authentication") == "true"
        and _are_bootstrap_groups(extra),
        groups=(BOOTSTRAP_GROUP, *extra),
        worker=annotations.get(WORKER_ANNOTATION, ""),
        location=annotations.get(LOCATION_ANNOTATION, ""),
        reusable=annotations.get(REUSABLE_ANNOTATION) == "true",
        used_by=annotations.get(USED_BY_ANNOTATION, ""),
        request_uid=annotations.get(REQUEST_UID_ANNOTATION, ""),
    )


def _are_bootstrap_groups(groups: Iterable[str]) -> bool:
    """A token may give only bootstrap groups."""
    return all(group.startswith(BOOTSTRAP_GROUP + ":") and group != BOOTSTRAP_GROUP + ":" for group in groups)


def _decoded_value(data: Object, key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
