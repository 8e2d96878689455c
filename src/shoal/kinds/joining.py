"""How a worker joins its hub: who it is there, who signs that, and join tokens as Secrets. Pure.

A join token is a bootstrap token as Kubernetes has it: Secret `bootstrap-token-<id>` of kube-system, `<id>.<secret>` on
the wire. What Shoal adds to one is in annotations.
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
"""User `system:worker:<name>` of the group is the worker of that name."""
SIGNER = "shoal.dev/worker"
"""Of CertificateSigningRequests for that user."""
USAGES = ("client auth", "digital signature")
LONGEST_SECONDS = 30 * 86_400
"""A worker's certificate is good for at most so long: as long as it may be away and come back by itself."""

TOKEN_TYPE, TOKEN_NAMESPACE = "bootstrap.kubernetes.io/token", "kube-system"
BOOTSTRAP_PREFIX, BOOTSTRAPPERS = "system:bootstrap:", "system:bootstrappers"
JOINING = "system:bootstrappers:workers"
"""Who comes with a join token is user `system:bootstrap:<id>` of this group."""
ID_LENGTH, SECRET_LENGTH = 6, 16
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

AUTHORITY_PATH = "/join/ca.crt"
"""Of a hub: its certificate authority, for anybody."""

FOR = "shoal.dev/worker"
"""On a token: the one name it is good for."""
LOCATION = "shoal.dev/location"
REUSABLE = "shoal.dev/reusable"
EXPELLED = "shoal.dev/expelled"
"""On a Worker, set by people to any value: it has no rights any more, and does not join again."""
USED_BY, REQUEST = "shoal.dev/used-by", "shoal.dev/request"
"""On a token that was used: by which worker, and the uid of the request it was used for."""


def user_name(worker: str) -> str:
    return PREFIX + worker


def worker_of(user: str, groups: Iterable[str]) -> str:
    """Empty: the user is no worker."""
    return user.removeprefix(PREFIX) if user.startswith(PREFIX) and GROUP in groups else ""


def is_expelled(worker: Object) -> bool:
    return bool((worker["metadata"].get("annotations") or {}).get(EXPELLED))


def is_joining(user: str, groups: Iterable[str]) -> bool:
    return user.startswith(BOOTSTRAP_PREFIX) and JOINING in groups


def wrong_name(worker: str) -> str:
    """What is wrong with the name of a worker; empty: nothing."""
    if len(worker) > fleet.WORKER_NAME_LIMIT:
        return f"at most {fleet.WORKER_NAME_LIMIT} characters"
    return next(iter(is_dns1123_label(worker)), "")


def wrong_subject(asked: Asked, usages: Sequence[str]) -> str:
    """Why a request is not one for a worker's certificate; empty: it is."""
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
    """A bootstrap token, as its Secret has it."""

    id: str
    secret: str
    expires: float | None
    """Seconds since the epoch; None: never."""
    authenticates: bool
    groups: tuple[str, ...]
    worker: str
    """The one name it is good for; empty: any that nobody has."""
    location: str
    reusable: bool
    used_by: str
    request: str

    @property
    def joins(self) -> bool:
        """It is a join token, not one that somebody made for something else."""
        return self.authenticates and JOINING in self.groups

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


def secret_name(id_: str) -> str:
    return f"bootstrap-token-{id_}"


def split_token(token: str) -> tuple[str, str] | None:
    """Id and secret; None: it has not the form of one."""
    if len(token) != ID_LENGTH + 1 + SECRET_LENGTH or token[ID_LENGTH] != ".":
        return None
    id_, secret = token[:ID_LENGTH], token[ID_LENGTH + 1 :]
    return (id_, secret) if set(id_ + secret) <= set(LETTERS) else None


def token_secret(
    token: tuple[str, str], expiration: str, worker: str = "", location: str = "", reusable: bool = False
) -> Object:
    """The Secret of a join token; `token` is its id and secret, `expiration` as RFC 3339."""
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
    """None: the Secret is no bootstrap token, or is going away."""
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
        # One whose end cannot be read has ended.
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
    """A token gives no group of any other kind."""
    return all(group.startswith(BOOTSTRAPPERS + ":") and group != BOOTSTRAPPERS + ":" for group in groups)


def _text(data: Object, key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
