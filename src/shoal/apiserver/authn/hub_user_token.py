"""Tokens of the hub's users for one hosted cluster: JWTs signed with the keys of that cluster.

Their header has an explicit type (RFC 8725), and their claims are none of a ServiceAccount: neither kind of token is
ever accepted as the other. They are for the API of the cluster only, and end with it. The roles of a user are not in
the token: they are ClusterRoleBindings of the cluster.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.apiserver.authn.serviceaccount_token import LEEWAY, MAX_TOKEN, TokenSigner, check_not_before, numeric_claim
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet.access import HUB_PREFIX, HubUser
from shoal.objects.errors import BadRequest, Unauthorized

TOKEN_TYPE = "hub-user+jwt"
CLAIM = "shoal.dev/hub-user"
_HEADER_START = f'{{"typ":"{TOKEN_TYPE}'.encode()
_TOKEN_START = base64.urlsafe_b64encode(_HEADER_START[: len(_HEADER_START) // 3 * 3]).decode()

ClusterUID = Callable[[str], str | None]
"""Logical cluster -> its uid; None if there is none."""


@dataclass(frozen=True, slots=True)
class VerifiedHubUser:
    """The claims of a valid token. `recheck` repeats the checks that time and deletion can invalidate."""

    cluster: str
    uid: str
    """The uid of the logical cluster."""
    name: str
    """With the prefix hub:, as the names of the groups."""
    groups: tuple[str, ...]
    audiences: tuple[str, ...]
    expiry: float
    jti: str

    def recheck(self, cluster: str, now: float, uid_of: ClusterUID) -> None:
        if cluster != self.cluster:
            raise Unauthorized("token issuer is invalid")
        if now > self.expiry + LEEWAY:
            raise Unauthorized("token of a hub user has expired")
        if uid_of(cluster) != self.uid:
            raise Unauthorized("token of a hub user belongs to an earlier cluster of that name")


def is_hub_user_token(token: str) -> bool:
    """Reports whether the header begins as that of such a token. Says nothing about its signature."""
    return token.startswith(_TOKEN_START)


def issue(signer: TokenSigner, cluster: str, uid: str, user: HubUser, *, seconds: int, now: float) -> tuple[str, float]:
    """Returns a token and its expiry. The cluster must have a key."""
    start, issuer = int(now), signer.issuer(cluster)
    claims = {
        "aud": [issuer],
        "exp": start + seconds,
        "iat": start,
        "iss": issuer,
        "jti": str(uuid.uuid4()),
        "nbf": start,
        CLAIM: {"cluster": uid, "groups": list(user.hosted_groups)},
        "sub": user.hosted_name,
    }
    token = signer.sign(cluster, claims, TOKEN_TYPE)
    if len(token) > MAX_TOKEN:
        raise BadRequest(f"the token would be longer than {MAX_TOKEN} bytes: the user has too many groups")
    return token, float(start + seconds)


def verify(signer: TokenSigner, token: str, cluster: str, now: float, uid_of: ClusterUID) -> VerifiedHubUser:
    """Returns the verified token or raises Unauthorized with the reason."""
    if cluster == ROOT:
        raise Unauthorized("tokens of hub users are for hosted clusters only")
    claims = signer.signed_claims(token, cluster, TOKEN_TYPE)
    verified = _verified_user(claims, cluster)
    if not verified.audiences:
        raise Unauthorized("token of a hub user is not for the API of the cluster")
    check_not_before(claims, now, "token of a hub user")
    verified.recheck(cluster, now, uid_of)
    return verified


def _verified_user(claims: Mapping[str, Any], cluster: str) -> VerifiedHubUser:
    own_claim, name, audiences = claims.get(CLAIM), claims.get("sub"), claims.get("aud")
    if not isinstance(own_claim, dict) or "kubernetes.io" in claims or not isinstance(audiences, list):
        raise Unauthorized("claims of a hub user could not be validated")
    groups, uid = own_claim.get("groups"), own_claim.get("cluster")
    if not isinstance(uid, str) or not uid or not isinstance(groups, list):
        raise Unauthorized("claims of a hub user could not be validated")
    for each in (name, *groups):
        if not isinstance(each, str) or not each.startswith(HUB_PREFIX) or each == HUB_PREFIX:
            raise Unauthorized("claims of a hub user could not be validated")
    return VerifiedHubUser(
        cluster=cluster,
        uid=uid,
        name=str(name),
        groups=tuple(groups),
        audiences=tuple(each for each in audiences if each == claims.get("iss")),
        expiry=numeric_claim(claims, "exp"),
        jti=str(claims.get("jti", "")),
    )
