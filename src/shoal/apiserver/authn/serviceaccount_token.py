"""Service-account tokens: ES256-signed JWTs with the server's key, one issuer per logical cluster.

Issues and verifies tokens; knows neither requests nor users. Every verification asks `lookup` whether the service
account and the bound object still exist. `es256`, which imports `cryptography`, is imported on first use, so a start
that signs nothing does not wait for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from shoal.objects.errors import BadRequest, ShoalError, Unauthorized

if TYPE_CHECKING:
    from shoal.apiserver.authn.es256 import PrivateKey, PublicKey

UIDLookup = Callable[[str, str, str, str], str | None]
"""(cluster, resource, namespace, name) -> uid, or None if it does not exist or is being deleted. Used for
`serviceaccounts`, `pods`, `secrets` and `nodes` (namespace empty).
"""

FormerKeySource = Callable[[str], Sequence[str]]
"""Cluster -> public keys (DER, base64) of the servers the cluster was on before. Their tokens stay valid in it."""

MAX_TOKEN = 16_384
LEEWAY = 60.0
"""Allowed clock skew in seconds, as upstream."""

_BOUND_RESOURCES = {"pod": "pods", "secret": "secrets", "node": "nodes"}


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The claims of a valid token. `recheck` repeats the checks that time and deletion can invalidate."""

    cluster: str
    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    expiry: float
    jti: str
    bound_objects: Mapping[str, tuple[str, str]]
    """`pod`, `secret` or `node` -> (name, uid)."""

    def recheck(self, cluster: str, now: float, lookup: UIDLookup) -> None:
        if cluster != self.cluster:
            raise Unauthorized("token issuer is invalid")
        if now > self.expiry + LEEWAY:
            raise Unauthorized("service account token has expired")
        if lookup(cluster, "serviceaccounts", self.namespace, self.name) != self.uid:
            raise Unauthorized(f"service account {self.namespace}/{self.name} was deleted or recreated")
        for kind, (name, uid) in self.bound_objects.items():
            if kind == "node" and "pod" in self.bound_objects:
                continue  # informational: the token is bound to the pod, not to its node
            if lookup(cluster, _BOUND_RESOURCES[kind], "" if kind == "node" else self.namespace, name) != uid:
                raise Unauthorized("service account token has been invalidated")


class TokenSigner:
    def __init__(
        self, pem: bytes, base: str = "https://shoal", former_keys: FormerKeySource = lambda cluster: ()
    ) -> None:
        self._pem = pem
        self._base = base
        self._former_keys = former_keys

    def issuer(self, cluster: str) -> str:
        return f"{self._base}/clusters/{cluster}"

    def issue(
        self,
        cluster: str,
        service_account: Mapping[str, Any],
        audiences: Sequence[str],
        seconds: int,
        bound: Mapping[str, tuple[str, str]],
        now: float,
    ) -> tuple[str, float]:
        """Returns a token and its expiry. Without audiences it is for the cluster's API."""
        metadata, start = service_account["metadata"], int(now)
        namespace, name = metadata["namespace"], metadata["name"]
        kubernetes_claims: dict[str, Any] = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": metadata["uid"]},
        }
        if "secret" in bound and len(bound) > 1:
            raise BadRequest("a token can only be bound to one object")
        for kind in bound:
            if kind not in _BOUND_RESOURCES:
                raise BadRequest(f"a token cannot be bound to a {kind}")
            kubernetes_claims[kind] = {"name": bound[kind][0], "uid": bound[kind][1]}
        claims = {
            "aud": list(audiences) or [self.issuer(cluster)],
            "exp": start + seconds,
            "iat": start,
            "iss": self.issuer(cluster),
            "jti": str(uuid.uuid4()),
            "kubernetes.io": kubernetes_claims,
            "nbf": start,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        header = {"alg": "ES256", "kid": self.key_id}
        signed = f"{_base64url_encode(orjson.dumps(header))}.{_base64url_encode(orjson.dumps(claims))}"
        token = f"{signed}.{_base64url_encode(self._key.sign(signed.encode()))}"
        if len(token) > MAX_TOKEN:
            raise BadRequest(f"the token would be longer than {MAX_TOKEN} bytes: too many audiences")
        return token, float(start + seconds)

    def verify(
        self, token: str, cluster: str, now: float, lookup: UIDLookup, audiences: Sequence[str] = ()
    ) -> VerifiedToken:
        """Returns the verified token or raises Unauthorized with the reason. Without audiences it must be for the
        cluster's API.
        """
        claims = self._verified_claims(token, cluster)
        if claims.get("iss") != self.issuer(cluster):
            raise Unauthorized("token issuer is invalid")
        accepted = audiences or (self.issuer(cluster),)
        verified = _verified_token(claims, cluster, accepted)
        if not verified.audiences:
            raise Unauthorized(
                f"token audiences {orjson.dumps(claims.get('aud')).decode()} is invalid for the target audiences "
                f"{orjson.dumps(list(accepted)).decode()}"
            )
        for claim, problem in (("nbf", "not valid yet"), ("iat", "issued in the future")):
            if _numeric_claim(claims, claim) > now + LEEWAY:
                raise Unauthorized(f"service account token is {problem}")
        verified.recheck(cluster, now, lookup)
        return verified

    def jwks(self, cluster: str = "") -> dict[str, Any]:
        """The document of /openid/v1/jwks."""
        return {"keys": [_jwk(key) for key in (self._key, *self._former_public_keys(cluster).values())]}

    def openid_configuration(self, cluster: str, jwks_uri: str = "") -> dict[str, Any]:
        """The document of /.well-known/openid-configuration."""
        return {
            "issuer": self.issuer(cluster),
            "jwks_uri": jwks_uri or f"{self.issuer(cluster)}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    @cached_property
    def key_id(self) -> str:
        return _key_id(self._key.public_der())

    @property
    def public_key(self) -> str:
        """This server's public key, in the form of `FormerKeySource`."""
        return base64.b64encode(self._key.public_der()).decode()

    @cached_property
    def _key(self) -> PrivateKey:
        from shoal.apiserver.authn.es256 import PrivateKey  # noqa: PLC0415

        return PrivateKey(self._pem)

    def _former_public_keys(self, cluster: str) -> dict[str, PublicKey]:
        from shoal.apiserver.authn.es256 import load_public_key  # noqa: PLC0415

        keys = {}
        for each in self._former_keys(cluster):
            with suppress(ValueError):  # an invalid key is ignored
                der = base64.b64decode(each, validate=True)
                keys[_key_id(der)] = load_public_key(der)
        return keys

    def _verified_claims(self, token: str, cluster: str) -> dict[str, Any]:
        """Returns the claims after verifying the signature by this server's key, or by the key of a server the cluster
        was on before.
        """
        parts = token.split(".", 3)
        if len(token) > MAX_TOKEN or len(parts) != 3 or not token.isascii():
            raise Unauthorized("invalid bearer token")
        header = _decode_json_part(parts[0])
        if header.get("alg") != "ES256" or "crit" in header:
            raise Unauthorized("invalid signature, no keys found")
        kid = header.get("kid")
        key = self._key if kid == self.key_id else self._former_public_keys(cluster).get(str(kid))
        if key is None:
            raise Unauthorized("invalid signature, no keys found")
        if not key.verify(f"{parts[0]}.{parts[1]}".encode(), _base64url_decode(parts[2])):
            raise Unauthorized("invalid signature")
        return _decode_json_part(parts[1])


def load_or_create_key(path: Path) -> bytes:
    """The PEM of the server's key, created on first use and readable by its owner only."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _create_key(path)
    if stat.S_IMODE(mode) & 0o077:
        raise ShoalError(f"{path} must be readable by its owner only (chmod 600)")
    return path.read_bytes()


def _create_key(path: Path) -> bytes:
    from shoal.apiserver.authn.es256 import generate_key  # noqa: PLC0415

    pem = generate_key()
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    return pem


def _verified_token(claims: Mapping[str, Any], cluster: str, accepted: Sequence[str]) -> VerifiedToken:
    kubernetes_claims = claims.get("kubernetes.io")
    audiences = claims.get("aud")
    if not isinstance(kubernetes_claims, dict) or not isinstance(audiences, list):
        raise Unauthorized("service account token claims could not be validated")
    namespace = kubernetes_claims.get("namespace")
    name, uid = _object_reference(kubernetes_claims.get("serviceaccount"))
    if not isinstance(namespace, str) or claims.get("sub") != f"system:serviceaccount:{namespace}:{name}":
        raise Unauthorized("service account token claims could not be validated")
    return VerifiedToken(
        cluster=cluster,
        namespace=namespace,
        name=name,
        uid=uid,
        audiences=tuple(audience for audience in audiences if audience in accepted),
        expiry=_numeric_claim(claims, "exp"),
        jti=str(claims.get("jti", "")),
        bound_objects={
            kind: _object_reference(kubernetes_claims[kind]) for kind in _BOUND_RESOURCES if kind in kubernetes_claims
        },
    )


def _object_reference(value: object) -> tuple[str, str]:
    if isinstance(value, dict):
        name, uid = value.get("name"), value.get("uid")
        if isinstance(name, str) and isinstance(uid, str) and name and uid:
            return name, uid
    raise Unauthorized("service account token claims could not be validated")


def _numeric_claim(claims: Mapping[str, Any], claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthorized("service account token claims could not be validated")
    return float(value)


def _key_id(der: bytes) -> str:
    return _base64url_encode(hashlib.sha256(der).digest())


def _jwk(key: PublicKey) -> dict[str, Any]:
    x, y = map(_base64url_encode, key.coordinates())
    kid = _key_id(key.public_der())
    return {"use": "sig", "kty": "EC", "kid": kid, "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def _base64url_encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _base64url_decode(part: str) -> bytes:
    """Strict: one string for one value, so that a token has only one spelling."""
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise Unauthorized("invalid bearer token") from None
    if _base64url_encode(data) != part:
        raise Unauthorized("invalid bearer token")
    return data


def _decode_json_part(part: str) -> dict[str, Any]:
    try:
        value = orjson.loads(_base64url_decode(part))
    except orjson.JSONDecodeError:
        raise Unauthorized("invalid bearer token") from None
    if not isinstance(value, dict):
        raise Unauthorized("invalid bearer token")
    return value
