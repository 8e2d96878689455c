"""Authenticates a request: client certificate, static token, service-account token, or anonymous.

A credential belongs to one logical cluster. It is not valid in another cluster, nor in a later cluster of the same
name. Only members of system:masters of `root` may enter every cluster. Permissions are decided by `authz`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from shoal.apiserver.paths import ROOT, WILDCARD
from shoal.apiserver.tokens import Lookup, TokenSigner, Verified
from shoal.objects.errors import ShoalError, Unauthorized
from shoal.objects.wire import ClientCertificate, Request

MASTERS = "system:masters"
LOOPS = "system:shoal:loops"
"""The user of the controllers in the server's own process."""
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
CLUSTER_URI = "shoal://"

MAX_REMEMBERED = 8_192

_K = TypeVar("_K")
_V = TypeVar("_V")

_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING, hash=False)
    cluster: str = ROOT
    """The logical cluster this user belongs to."""
    privileged: bool = field(init=False, compare=False, repr=False)
    """Member of system:masters of its cluster."""
    crosses_clusters: bool = field(init=False, compare=False, repr=False)
    """May enter every cluster and use `/clusters/*`."""
    subject: tuple[str, str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """Everything authorization depends on, as a cache key."""

    def __post_init__(self) -> None:
        if self.cluster == WILDCARD:
            raise ValueError("a user belongs to one cluster")
        privileged = MASTERS in self.groups
        object.__setattr__(self, "privileged", privileged)
        object.__setattr__(self, "crosses_clusters", privileged and self.cluster == ROOT)
        object.__setattr__(self, "subject", (self.cluster, self.name, self.groups))

    def may_enter(self, cluster: str) -> bool:
        return self.cluster == cluster or self.crosses_clusters

    def privileged_in(self, cluster: str) -> bool:
        return self.privileged and self.may_enter(cluster)


class ServiceAccountTokens:
    """Verifies a token's signature once. Later requests only recheck expiry and that the bound objects still exist."""

    def __init__(self, signer: TokenSigner, lookup: Lookup, now: Callable[[], float]) -> None:
        self._signer, self._lookup, self._now = signer, lookup, now
        self._known: dict[str, tuple[User, Verified]] = {}

    def user(self, token: str, cluster: str) -> User:
        known = self._known.get(token)
        if known is not None:
            known[1].recheck(cluster, self._now(), self._lookup)
            return known[0]
        verified = self._signer.verify(token, cluster, self._now(), self._lookup)
        user = service_account_user(verified)
        _remember(self._known, token, (user, verified))
        return user

    def review(self, token: str, cluster: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        verified = self._signer.verify(token, cluster, self._now(), self._lookup, audiences)
        return service_account_user(verified), verified.audiences

    def audiences(self, cluster: str) -> tuple[str, ...]:
        """The audiences of a token for the cluster's own API."""
        return (self._signer.issuer(cluster),)


class Authenticator:
    def __init__(
        self,
        *,
        tokens: Mapping[str, User] | None = None,
        service_accounts: ServiceAccountTokens | None = None,
        others: Callable[[str], User | None] = lambda token: None,
        uid_of: Callable[[str], str | None] = lambda cluster: None,
        anonymous: bool = True,
        bare_certificates: bool = False,
    ) -> None:
        """`tokens` are static: each belongs to one user as long as the server runs. `other_tokens` returns the user of
        any other token. `uid_of` returns the uid of the logical cluster of a name, or None if there is none. With
        `accept_certificates_without_uri`, certificates without a URI authenticate users of root.
        """
        self._bare_certificates = bare_certificates
        self._static: dict[str, User] = {}
        self._by_header: dict[str, User] = {}
        """The static tokens by the usual form of the Authorization header."""
        self._service_accounts = service_accounts
        self._others = others
        self._uid_of = uid_of
        self._anonymous = anonymous
        self._certified: dict[ClientCertificate, tuple[User, str]] = {}
        for token, user in (tokens or {}).items():
            self.accept(token, user)

    def accept(self, token: str, user: User) -> None:
        """Maps the token to the user as long as the server runs."""
        self._static[token] = self._by_header[f"Bearer {token}"] = _authenticated(user)

    def authenticate(self, request: Request, cluster: str) -> User:
        """Returns the user of a request for the cluster. Raises Unauthorized, whose message never gives the reason."""
        refused = None
        if request.certificate is not None:
            try:
                return self._by_certificate(request.certificate, cluster)
            except Unauthorized as problem:
                refused = problem
        header = request.headers.get("authorization")
        if header is not None:
            user = self._by_header.get(header)
            if user is not None and user.may_enter(cluster):
                return user
            scheme, _, token = header.strip().partition(" ")
            if scheme == "Bearer" or scheme.lower() == "bearer":
                try:
                    return self._by_token(token, cluster)
                except Unauthorized as problem:
                    refused = problem
        if refused is not None or not self._anonymous:
            raise Unauthorized("Unauthorized") from refused
        return User(ANONYMOUS, (UNAUTHENTICATED,), cluster=home_of(cluster))

    def review(self, token: str, cluster: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Returns the user of a token and the audiences it is valid for. Raises Unauthorized with the reason."""
        accounts = self._service_accounts
        if accounts is not None and token not in self._static:
            return accounts.review(token, cluster, audiences)
        user, ours = self._by_token(token, cluster), accounts.audiences(cluster) if accounts is not None else ()
        agreed = tuple(audience for audience in ours if not audiences or audience in audiences)
        if audiences and not agreed:
            raise Unauthorized("invalid bearer token")
        return user, agreed

    def _by_token(self, token: str, cluster: str) -> User:
        user = self._static.get(token)
        if user is None and (known := self._others(token)) is not None:
            user = _authenticated(known)
        if user is None and self._service_accounts is not None:
            return self._service_accounts.user(token, cluster)
        if user is None or not user.may_enter(cluster):
            raise Unauthorized("invalid bearer token")
        return user

    def _by_certificate(self, certificate: ClientCertificate, cluster: str) -> User:
        known = self._certified.get(certificate)
        if known is None:
            known = self._bare_user(certificate) or certificate_user(certificate)
            _remember(self._certified, certificate, known)
        user, uid = known
        if not user.may_enter(cluster):
            raise Unauthorized("the client certificate is of another cluster")
        if uid != self._uid_of(user.cluster) and (uid or user.cluster != ROOT):
            raise Unauthorized("the client certificate is of an earlier cluster of that name")
        return user

    def _bare_user(self, certificate: ClientCertificate) -> tuple[User, str] | None:
        if not self._bare_certificates or certificate.uris or not certificate.common_name:
            return None
        user = User(certificate.common_name, certificate.organizations, cluster=ROOT)
        return _authenticated(user), ""


def home_of(cluster: str) -> str:
    """The cluster of a user created for a request: root for `/clusters/*`."""
    return ROOT if cluster == WILDCARD else cluster


def certificate_user(certificate: ClientCertificate) -> tuple[User, str]:
    """Returns the user (common name and organizations, in the one cluster the certificate's URI names) and that
    cluster's uid.
    """
    homes = [uri.removeprefix(CLUSTER_URI) for uri in certificate.uris if uri.startswith(CLUSTER_URI)]
    home, _, uid = homes[0].partition("#") if len(homes) == 1 else ("", "", "")
    if not certificate.common_name or home in ("", WILDCARD):
        raise Unauthorized("a client certificate needs a common name and one URI shoal://<cluster>#<uid>")
    return _authenticated(User(certificate.common_name, certificate.organizations, cluster=home)), uid


def service_account_user(verified: Verified) -> User:
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={verified.jti}",)}
    for kind in ("pod", "node"):
        if kind in verified.bound:
            name, uid = verified.bound[kind]
            extra[f"authentication.kubernetes.io/{kind}-name"] = (name,)
            extra[f"authentication.kubernetes.io/{kind}-uid"] = (uid,)
    user = User(
        f"{SERVICE_ACCOUNT_PREFIX}{verified.namespace}:{verified.name}",
        service_account_groups(verified.namespace),
        verified.uid,
        extra,
        verified.cluster,
    )
    return _authenticated(user)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def parse_token_file(lines: Iterable[str], cluster: str = ROOT) -> dict[str, User]:
    """Parses static tokens, one per line: `token,user,uid,"group1,group2"`. The groups are optional."""
    tokens: dict[str, User] = {}
    for record in csv.reader(lines):
        if not record:
            continue
        if len(record) < 3 or not record[0] or not record[1]:
            raise ShoalError("every line of a token file is token,user,uid and optionally its groups")
        if record[0] in tokens:
            raise ShoalError(f"the token file has two lines with the token of {record[1]}")
        groups = tuple(group for group in record[3].split(",") if group) if len(record) > 3 else ()
        tokens[record[0]] = User(record[1], groups, record[2], cluster=cluster)
    return tokens


def _authenticated(user: User) -> User:
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _remember(cache: MutableMapping[_K, _V], key: _K, value: _V) -> None:
    if len(cache) >= MAX_REMEMBERED:
        cache.clear()
    cache[key] = value
