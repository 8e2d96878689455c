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

from shoal.kinds import fleet
from shoal.kinds.certificate_requests import Asked
from shoal.objects.duration import parse_time
from shoal.objects.names import is_dns1123_label

Object = dict[str, Any]

PREFIX, GROUP = "system:worker:", "system:workers"
"""User `system:worker:<name>` of this group is the worker of that name."""
SIGNER = "shoal.dev/worker"
"""The signer of CertificateSigningRequests of such users."""
USAGES = ("client auth", "digital signature")
LONGEST_SECONDS = 30 * 86_400
"""The maximum validity of a worker's certificate: as long as it may be disconnected and still come back on its own."""

TOKEN_TYPE, TOKEN_NAMESPACE = "bootstrap.kubernetes.io/token", "kube-system"
BOOTSTRAP_PREFIX, BOOTSTRAPPERS = "system:bootstrap:", "system:bootstrappers"
JOINING = "system:bootstrappers:workers"
"""A client with a join token is user `system:bootstrap:<id>` of this group."""
ID_LENGTH, SECRET_LENGTH = 6, 16
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

AUTHORITY_PATH = "/join/ca.crt"
"""The path of a hub's CA certificate, readable by anybody."""

FOR = "shoal.dev/worker"
"""Annotation of a token: the only worker name it is valid for."""
LOCATION = "shoal.dev/location"
REUSABLE = "shoal.dev/reusable"
EXPELLED = "shoal.dev/expelled"
"""Annotation of a Worker, set by users to any value: the worker has no rights any more and cannot join again."""
USED_BY, REQUEST = "shoal.dev/used-by", "shoal.dev/request"
"""Annotations of a used token: the worker that used it, and the uid of the CertificateSigningRequest."""


def user_name(worker: str) -> str:
    return PREFIX + worker


def worker_of(user: str, groups: Iterable[str]) -> str:
    """Empty: the user is not a worker."""
    return user.removeprefix(PREFIX) if user.startswith(PREFIX) and GROUP in groups else ""


def is_expelled(worker: Object) -> bool:
    return bool((worker["metadata"].get("annotations") or {}).get(EXPELLED))


def is_joining(user: str, groups: Iterable[str]) -> bool:
    return user.startswith(BOOTSTRAP_PREFIX) and JOINING in groups


def wrong_name(worker: str) -> str:
    """Returns why a worker name is invalid; empty: it is valid."""
    if len(worker) > fleet.WORKER_NAME_LIMIT:
        return f"at most {fleet.WORKER_NAME_LIMIT} characters"
    return next(iter(is_dns1123_label(worker)), "")


def wrong_subject(asked: Asked, usages: Sequence[str]) -> str:
    """Returns why a request is not for a worker's certificate; empty: it is one."""
    if not asked.common_name.startswith(PREFIX) or wrong_name(asked.common_name.removeprefix(PREFIX)):
        return f"subject common name is not {PREFIX}NAME"
    if asked.organizations != (GROUP,):
        return f"subject organization is not {GROUP}"
    if asked.dns or asked.addresses or asked.emails or asked.uris:
        return "subjectAltNames are not allowed"
    if set(usages) != set(USAGES):
        return f"usages did not match [{', '.join(USAGES)}]"
    return ""


@dataclass(frozen=True, slots=True)
class Token:
    """A bootstrap token, read from its Secret."""

    id: str
    secret: str
    expires: float | None
    """Seconds since the epoch; None: never."""
    authenticates: bool
    groups: tuple[str, ...]
    worker: str
    """The only worker name it is valid for; empty: any unused one."""
    location: str
    reusable: bool
    used_by: str
    request: str

    @property
    def joins(self) -> bool:
        """Reports whether it is a join token and not a bootstrap token for another purpose."""
        return self.authenticates and JOINING in self.groups

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


def secret_name(id_: str) -> str:
    return f"bootstrap-token-{id_}"


def split_token(token: str) -> tuple[str, str] | None:
    """Returns id and secret; None: malformed."""
    if len(token) != ID_LENGTH + 1 + SECRET_LENGTH or token[ID_LENGTH] != ".":
        return None
    id_, secret = token[:ID_LENGTH], token[ID_LENGTH + 1 :]
    return (id_, secret) if set(id_ + secret) <= set(LETTERS) else None


def token_secret(
    token: tuple[str, str], expiration: str, worker: str = "", location: str = "", reusable: bool = False
) -> Object:
    """Returns the Secret of a join token. `token` is its id and secret, `expiration` is RFC 3339."""
    id_, secret = token
    data = {
        "token-id": id_,
        "token-secret": secret,
        "expiration": expiration,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": JOINING,
        "description": "Lets a worker join.",
    }
    given = {FOR: worker, LOCATION: location, REUSABLE: "true" if reusable else ""}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(id_),
            "namespace": TOKEN_NAMESPACE,
            "annotations": {key: value for key, value in given.items() if value},
        },
        "type": TOKEN_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def read_token(obj: Object) -> Token | None:
    """Returns None when the Secret is not a bootstrap token or is being deleted."""
    metadata, data = obj["metadata"], obj.get("data") or {}
    id_, secret = _text(data, "token-id"), _text(data, "token-secret")
    if obj.get("type") != TOKEN_TYPE or metadata["name"] != secret_name(id_) or "deletionTimestamp" in metadata:
        return None
    if split_token(f"{id_}.{secret}") is None:
        return None
    expiration, said = _text(data, "expiration"), metadata.get("annotations") or {}
    extra = tuple(group for group in _text(data, "auth-extra-groups").split(",") if group)
    return Token(
        id=id_,
        secret=secret,
        # An unreadable expiration counts as expired.
        expires=(parse_time(expiration) or 0.0) if expiration else None,
        authenticates=_text(data, "usage-bootstrap-authentication") == "true" and _are_bootstrappers(extra),
        groups=(BOOTSTRAPPERS, *extra),
        worker=said.get(FOR, ""),
        location=said.get(LOCATION, ""),
        reusable=said.get(REUSABLE) == "true",
        used_by=said.get(USED_BY, ""),
        request=said.get(REQUEST, ""),
    )


def _are_bootstrappers(groups: Iterable[str]) -> bool:
    """A token may give only bootstrap groups."""
    return all(group.startswith(BOOTSTRAPPERS + ":") and group != BOOTSTRAPPERS + ":" for group in groups)


def _text(data: Object, key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
