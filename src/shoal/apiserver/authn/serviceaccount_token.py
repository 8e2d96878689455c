"""Service-account tokens: JWTs signed by ES256, with keys and an issuer of each logical cluster.

Issues and verifies tokens; knows neither requests nor users. Every verification asks `lookup` whether the service
account and the bound object still exist. `es256`, which imports `cryptography`, is imported on first use, so a start
that signs nothing does not wait for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from shoal.objects.errors import BadRequest, Unauthorized

if TYPE_CHECKING:
    from shoal.apiserver.authn.es256 import PrivateKey, PublicKey

UIDLookup = Callable[[str, str, str, str], str | None]
"""(cluster, resource, namespace, name) -> uid, or None if it does not exist or is being deleted. Used for
`serviceaccounts`, `pods`, `secrets` and `nodes` (namespace empty).
"""

SigningKeySource = Callable[[str], Sequence[bytes]]
"""Cluster -> its private keys (secret numbers on P-256). The first signs, all of them verify."""
FormerKeySource = Callable[[str], Sequence[str]]
"""Cluster -> public keys (DER, base64) that signed tokens of the cluster before it had keys of its own."""

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
        self,
        signing_keys: SigningKeySource,
        issuer: Callable[[str], str],
        former_keys: FormerKeySource = lambda cluster: (),
    ) -> None:
        """`issuer` returns the URL at which clients reach a cluster."""
        self._signing_keys = signing_keys
        self.issuer = issuer
        self._former_keys = former_keys

    def issue(
        self,
        cluster: str,
        service_account: Mapping[str, Any],
        audiences: Sequence[str],
        seconds: int,
        bound: Mapping[str, tuple[str, str]],
        now: float,
    ) -> tuple[str, float]:
        """Returns a token and its expiry. Without audiences it is for the API of the cluster, which must have a key."""
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
        token = self.sign(cluster, claims)
        if len(token) > MAX_TOKEN:
            raise BadRequest(f"the token would be longer than {MAX_TOKEN} bytes: too many audiences")
        return token, float(start + seconds)

    def verify(
        self, token: str, cluster: str, now: float, lookup: UIDLookup, audiences: Sequence[str] = ()
    ) -> VerifiedToken:
        """Returns the verified token or raises Unauthorized with the reason. Without audiences it must be for the
        cluster's API.
        """
        claims = self.signed_claims(token, cluster)
        verified = _verified_token(claims, cluster, self._accepted_audiences(claims, cluster, audiences))
        if not verified.audiences:
            raise Unauthorized(
                f"token audiences {orjson.dumps(claims.get('aud')).decode()} is invalid for the target audiences "
                f"{orjson.dumps(list(audiences or (self.issuer(cluster),))).decode()}"
            )
        check_not_before(claims, now, "service account token")
        verified.recheck(cluster, now, lookup)
        return verified

    def sign(self, cluster: str, claims: Mapping[str, Any], token_type: str = "") -> str:
        """Returns the claims as a JWT. The cluster must have a key. `token_type` is its explicit type (RFC 8725)."""
        key = self._private_keys(cluster)[0]
        header = {**({"typ": token_type} if token_type else {}), "alg": "ES256", "kid": _key_id(key.public_der())}
        signed = f"{_base64url_encode(orjson.dumps(header))}.{_base64url_encode(orjson.dumps(claims))}"
        return f"{signed}.{_base64url_encode(key.sign(signed.encode()))}"

    def signed_claims(self, token: str, cluster: str, token_type: str = "") -> dict[str, Any]:
        """Returns the claims of a token of that type, after verifying signature and issuer."""
        claims = self._verified_claims(token, cluster, token_type)
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or (issuer != self.issuer(cluster) and not _was_issuer_of(issuer, cluster)):
            raise Unauthorized("token issuer is invalid")
        return claims

    def _accepted_audiences(self, claims: Mapping[str, Any], cluster: str, audiences: Sequence[str]) -> Sequence[str]:
        """A token for its own issuer is for the API, which may have had another address then."""
        return audiences or tuple(dict.fromkeys((self.issuer(cluster), str(claims["iss"]))))

    def jwks(self, cluster: str) -> dict[str, Any]:
        """The document of /openid/v1/jwks."""
        return {"keys": [_jwk(key) for key in self._verification_keys(cluster).values()]}

    def openid_configuration(self, cluster: str, jwks_uri: str = "") -> dict[str, Any]:
        """The document of /.well-known/openid-configuration."""
        return {
            "issuer": self.issuer(cluster),
            "jwks_uri": jwks_uri or f"{self.issuer(cluster)}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _private_keys(self, cluster: str) -> list[PrivateKey]:
        from shoal.apiserver.authn.es256 import load_private_key  # noqa: PLC0415

        return [load_private_key(secret) for secret in self._signing_keys(cluster)]

    def _verification_keys(self, cluster: str) -> dict[str, PublicKey]:
        """By key ID."""
        own = {_key_id(key.public_der()): key for key in self._private_keys(cluster)}
        return {**own, **self._former_public_keys(cluster)}

    def _former_public_keys(self, cluster: str) -> dict[str, PublicKey]:
        from shoal.apiserver.authn.es256 import load_public_key  # noqa: PLC0415

        keys = {}
        for each in self._former_keys(cluster):
            with suppress(ValueError):  # an invalid key is ignored
                der = base64.b64decode(each, validate=True)
                keys[_key_id(der)] = load_public_key(der)
        return keys

    def _verified_claims(self, token: str, cluster: str, token_type: str) -> dict[str, Any]:
        """Returns the claims after verifying the signature by a key of the cluster."""
        parts = token.split(".", 3)
        if len(token) > MAX_TOKEN or len(parts) != 3 or not token.isascii():
            raise Unauthorized("invalid bearer token")
        header = _decode_json_part(parts[0])
        if header.get("alg") != "ES256" or "crit" in header:
            raise Unauthorized("invalid signature, no keys found")
        if header.get("typ") not in ((token_type,) if token_type else (None, "JWT")):
            raise Unauthorized("invalid token type")
        key = self._verification_keys(cluster).get(str(header.get("kid")))
        if key is None:
            raise Unauthorized("invalid signature, no keys found")
        if not key.verify(f"{parts[0]}.{parts[1]}".encode(), _base64url_decode(parts[2])):
            raise Unauthorized("invalid signature")
        return _decode_json_part(parts[1])


def check_not_before(claims: Mapping[str, Any], now: float, token_name: str) -> None:
    for claim, problem in (("nbf", "not valid yet"), ("iat", "issued in the future")):
        if numeric_claim(claims, claim) > now + LEEWAY:
            raise Unauthorized(f"{token_name} is {problem}")


def _was_issuer_of(issuer: str, cluster: str) -> bool:
    """True if the issuer has the form of an address of the cluster: its own host and port, or a path of a server. The
    signature is by a key of the cluster, so its tokens stay valid when its address changes.
    """
    parts = urlsplit(issuer)
    paths = {"", f"/clusters/{cluster}", f"/managedclusters/{cluster.replace('.', '/', 1)}"}
    return parts.scheme == "https" and bool(parts.netloc) and parts.path in paths and not parts.query


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
        expiry=numeric_claim(claims, "exp"),
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


def numeric_claim(claims: Mapping[str, Any], claim: str) -> float:
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
