"""Authenticates a request: client certificate, static token, service-account token, token of a hub user, or anonymous.

A credential belongs to one logical cluster. It is not valid in another cluster, nor in a later cluster of the same
name. Only members of system:masters of `root` and the server's controllers may enter every cluster. Permissions are
decided by `authz`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from shoal.apiserver.authn import hub_user_token
from shoal.apiserver.authn.hub_user_token import ClusterUID, VerifiedHubUser
from shoal.apiserver.authn.serviceaccount_token import TokenSigner, UIDLookup, VerifiedToken
from shoal.apiserver.request.info import ROOT, WILDCARD
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import ShoalError, Unauthorized
from shoal.objects.wire import ClientCertificate, Request

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
CLUSTER_URI = "shoal://"

MAX_CACHED = 8_192
MAX_CACHED_TOKEN = 4_096

_K = TypeVar("_K")
_V = TypeVar("_V")

_NO_EXTRA: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_EXTRA, hash=False)
    cluster: str = ROOT
    """The logical cluster this user belongs to."""
    embedded: bool = field(default=False, compare=False)
    """A controller of the server, in its own process or outside. It has the rights of its account in every cluster, and
    never waits.
    """
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
        object.__setattr__(self, "crosses_clusters", self.embedded or (privileged and self.cluster == ROOT))
        object.__setattr__(self, "subject", (self.cluster, self.name, self.groups))

    def may_enter(self, cluster: str) -> bool:
        return self.cluster == cluster or self.crosses_clusters

    def is_privileged_in(self, cluster: str) -> bool:
        return self.privileged and self.may_enter(cluster)


class ServiceAccountTokenAuthenticator:
    """Verifies a token's signature once. Later requests only recheck expiry and that the bound objects still exist."""

    def __init__(self, signer: TokenSigner, lookup: UIDLookup, now: Callable[[], float]) -> None:
        self._signer, self._lookup, self._now = signer, lookup, now
        self._cache: dict[str, tuple[User, VerifiedToken]] = {}
        self._cached_clusters: set[str] = set()
        """The clusters of cached tokens, and perhaps others."""
        self._signed_by: dict[tuple[str, str], bool] = {}

    def is_signed_by(self, token: str, cluster: str) -> bool:
        """Reports whether a key that the cluster has, or had before, has signed the token for it."""
        known = self._signed_by.get((token, cluster))
        if known is None:
            try:
                self._signer.signed_claims(token, cluster)
                known = True
            except Unauthorized:
                known = False
            if _is_cacheable(token):
                _put_bounded(self._signed_by, (token, cluster), known)
        return known

    def authenticate(self, token: str, cluster: str) -> User:
        cached = self._cache.get(token)
        if cached is not None:
            cached[1].recheck(cluster, self._now(), self._lookup)
            return cached[0]
        verified = self._signer.verify(token, cluster, self._now(), self._lookup)
        user = service_account_user(verified)
        _put_bounded(self._cache, token, (user, verified))
        self._cached_clusters.add(cluster)
        return user

    def forget(self, cluster: str) -> None:
        """Verifies tokens of the cluster anew: its keys have changed."""
        if cluster in self._cached_clusters:
            self._cached_clusters.discard(cluster)
            self._cache = {token: each for token, each in self._cache.items() if each[1].cluster != cluster}

    def review(self, token: str, cluster: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        verified = self._signer.verify(token, cluster, self._now(), self._lookup, audiences)
        return service_account_user(verified), verified.audiences

    def audiences(self, cluster: str) -> tuple[str, ...]:
        """The audiences of a token for the cluster's own API."""
        return (self._signer.issuer(cluster),)


class HubUserTokenAuthenticator:
    """Verifies a token's signature once. Later requests only recheck expiry and that the cluster still exists."""

    def __init__(self, signer: TokenSigner, uid_of: ClusterUID, now: Callable[[], float]) -> None:
        self._signer, self._uid_of, self._now = signer, uid_of, now
        self._cache: dict[str, tuple[User, VerifiedHubUser]] = {}

    def authenticate(self, token: str, cluster: str) -> User:
        cached = self._cache.get(token)
        if cached is None:
            verified = hub_user_token.verify(self._signer, token, cluster, self._now(), self._uid_of)
            cached = hosted_hub_user(verified), verified
            _put_bounded(self._cache, token, cached)
        else:
            cached[1].recheck(cluster, self._now(), self._uid_of)
        return cached[0]

    def forget(self, cluster: str) -> None:
        """Verifies tokens of the cluster anew: its keys have changed."""
        self._cache = {token: each for token, each in self._cache.items() if each[1].cluster != cluster}

    def review(self, token: str, cluster: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        verified = hub_user_token.verify(self._signer, token, cluster, self._now(), self._uid_of)
        accepted = tuple(each for each in verified.audiences if not audiences or each in audiences)
        if not accepted:
            raise Unauthorized("token of a hub user is for the API of the cluster only")
        return hosted_hub_user(verified), accepted


class Authenticator:
    def __init__(
        self,
        *,
        tokens: Mapping[str, User] | None = None,
        service_accounts: ServiceAccountTokenAuthenticator | None = None,
        hub_users: HubUserTokenAuthenticator | None = None,
        other_tokens: Callable[[str], User | None] = lambda token: None,
        uid_of: Callable[[str], str | None] = lambda cluster: None,
        accepts_worker: Callable[[str, str], bool] = lambda worker, uid: True,
        anonymous: bool = True,
        accept_certificates_without_uri: bool = False,
        outside_controllers: frozenset[str] = frozenset(),
    ) -> None:
        """`tokens` are static: each belongs to one user as long as the server runs. `other_tokens` returns the user of
        any other token. `uid_of` returns the uid of the logical cluster of a name, or None if there is none.
        `accepts_worker` tells whether a certificate that was issued for the Worker of that name and uid is accepted.
        With `accept_certificates_without_uri`, certificates without a URI authenticate users of root.
        `outside_controllers` are user names of ServiceAccounts of root: the server's controllers in other processes.
        """
        self._accept_certificates_without_uri = accept_certificates_without_uri
        self._outside_controllers = outside_controllers
        self._static_tokens: dict[str, User] = {}
        self._by_header: dict[str, User] = {}
        """The static tokens by the usual form of the Authorization header."""
        self._service_accounts, self._hub_users = service_accounts, hub_users
        self._other_tokens = other_tokens
        self._uid_of, self._accepts_worker = uid_of, accepts_worker
        self._anonymous = anonymous
        self._certificate_users: dict[ClientCertificate, tuple[User, str, str]] = {}
        """By certificate: its user, the uid of the cluster, and the worker that it is of, or nothing."""
        for token, user in (tokens or {}).items():
            self.add_static_token(token, user)

    def add_static_token(self, token: str, user: User) -> None:
        """Maps the token to the user as long as the server runs."""
        self._static_tokens[token] = self._by_header[f"Bearer {token}"] = _with_authenticated_group(user)

    def forget_tokens(self, cluster: str) -> None:
        """Verifies tokens of the cluster anew."""
        for tokens in (self._service_accounts, self._hub_users):
            if tokens is not None:
                tokens.forget(cluster)

    def authenticate(self, request: Request, cluster: str) -> User:
        """Returns the user of a request for the cluster. Raises Unauthorized, whose message never gives the reason."""
        user = self._authenticate(request, cluster)
        if request.at_own_address and user.cluster != cluster:
            raise Unauthorized("Unauthorized")
        return user

    def _authenticate(self, request: Request, cluster: str) -> User:
        error = None
        if request.certificate is not None:
            try:
                return self._authenticate_certificate(request.certificate, cluster)
            except Unauthorized as problem:
                error = problem
        header = request.headers.get("authorization")
        if header is not None:
            user = self._by_header.get(header)
            if user is not None and user.may_enter(cluster):
                return user
            scheme, _, token = header.strip().partition(" ")
            if scheme == "Bearer" or scheme.lower() == "bearer":
                try:
                    return self._authenticate_token(token, cluster)
                except Unauthorized as problem:
                    error = problem
        if error is not None or not self._anonymous:
            raise Unauthorized("Unauthorized") from error
        return User(ANONYMOUS, (UNAUTHENTICATED,), cluster=cluster_of_user(cluster))

    def review(self, token: str, cluster: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Returns the user of a token and the audiences it is valid for. Raises Unauthorized with the reason."""
        accounts = self._service_accounts
        if self._hub_users is not None and hub_user_token.is_hub_user_token(token):
            return self._hub_users.review(token, cluster, audiences)
        if accounts is not None and token not in self._static_tokens:
            return accounts.review(token, cluster, audiences)
        user, ours = (
            self._authenticate_token(token, cluster),
            accounts.audiences(cluster) if accounts is not None else (),
        )
        accepted = tuple(audience for audience in ours if not audiences or audience in audiences)
        if audiences and not accepted:
            raise Unauthorized("invalid bearer token")
        return user, accepted

    def is_root_token(self, request: Request) -> bool:
        """Reports whether a token of a request is one of root, whatever it may do, and even if it has ended."""
        return any(map(self._is_root_header, request.header_list("authorization")))

    def _is_root_header(self, header: str) -> bool:
        if header in self._by_header:
            return True
        token = header.strip().partition(" ")[2].strip()
        if not token or hub_user_token.is_hub_user_token(token):
            return False
        if token in self._static_tokens or self._other_tokens(token) is not None:
            return True
        return self._service_accounts is not None and self._service_accounts.is_signed_by(token, ROOT)

    def _authenticate_token(self, token: str, cluster: str) -> User:
        user = self._static_tokens.get(token)
        if user is None and (other_user := self._other_tokens(token)) is not None:
            user = _with_authenticated_group(other_user)
        if user is None and self._hub_users is not None and hub_user_token.is_hub_user_token(token):
            return self._hub_users.authenticate(token, cluster)
        if user is None and self._service_accounts is not None:
            return self._outside_controller(token) or self._service_accounts.authenticate(token, cluster)
        if user is None or not user.may_enter(cluster):
            raise Unauthorized("invalid bearer token")
        return user

    def _outside_controller(self, token: str) -> User | None:
        """Returns the user if it is a token of root of one of the server's controllers in another process."""
        accounts = self._service_accounts
        if not self._outside_controllers or accounts is None or not accounts.is_signed_by(token, ROOT):
            return None
        user = accounts.authenticate(token, ROOT)
        return replace(user, embedded=True) if user.name in self._outside_controllers else None

    def _authenticate_certificate(self, certificate: ClientCertificate, cluster: str) -> User:
        cached = self._certificate_users.get(certificate)
        if cached is None:
            user, uid = self._user_without_uri(certificate) or certificate_user(certificate)
            worker = worker_join.worker_of(user.name, user.groups) if user.cluster == ROOT else ""
            cached = (user if not worker else _worker_user(user, certificate)), uid, worker
            _put_bounded(self._certificate_users, certificate, cached)
        user, uid, worker = cached
        if not user.may_enter(cluster):
            raise Unauthorized("the client certificate belongs to another cluster")
        if uid != self._uid_of(user.cluster) and (uid or user.cluster != ROOT):
            raise Unauthorized("the client certificate belongs to an earlier cluster of that name")
        if worker and not self._accepts_worker(worker, user.uid):
            raise Unauthorized("the client certificate belongs to a worker that was expelled or deleted")
        return user

    def _user_without_uri(self, certificate: ClientCertificate) -> tuple[User, str] | None:
        if not self._accept_certificates_without_uri or certificate.uris or not certificate.common_name:
            return None
        user = User(certificate.common_name, certificate.organizations, cluster=ROOT)
        return _with_authenticated_group(user), ""


def cluster_of_user(cluster: str) -> str:
    """The cluster of a user created for a request: root for `/clusters/*`."""
    return ROOT if cluster == WILDCARD else cluster


def certificate_user(certificate: ClientCertificate) -> tuple[User, str]:
    """Returns the user (common name and organizations, in the one cluster the certificate's URI names) and that
    cluster's uid.
    """
    cluster_uris = [uri.removeprefix(CLUSTER_URI) for uri in certificate.uris if uri.startswith(CLUSTER_URI)]
    home, _, uid = cluster_uris[0].partition("#") if len(cluster_uris) == 1 else ("", "", "")
    if not certificate.common_name or home in ("", WILDCARD):
        raise Unauthorized("a client certificate needs a common name and one URI shoal://<cluster>#<uid>")
    return _with_authenticated_group(User(certificate.common_name, certificate.organizations, cluster=home)), uid


def _worker_user(user: User, certificate: ClientCertificate) -> User:
    """The user of a worker has the uid of the Worker that the certificate is bound to."""
    return replace(user, uid=worker_join.uid_in_uris(certificate.uris))


def service_account_user(verified: VerifiedToken) -> User:
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={verified.jti}",)}
    for kind in ("pod", "node"):
        if kind in verified.bound_objects:
            name, uid = verified.bound_objects[kind]
            extra[f"authentication.kubernetes.io/{kind}-name"] = (name,)
            extra[f"authentication.kubernetes.io/{kind}-uid"] = (uid,)
    user = User(
        f"{SERVICE_ACCOUNT_PREFIX}{verified.namespace}:{verified.name}",
        service_account_groups(verified.namespace),
        verified.uid,
        extra,
        verified.cluster,
    )
    return _with_authenticated_group(user)


def hosted_hub_user(verified: VerifiedHubUser) -> User:
    """A user of the hub in the one cluster that its token is for."""
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={verified.jti}",)}
    return _with_authenticated_group(User(verified.name, verified.groups, "", extra, verified.cluster))


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def parse_token_file(lines: Iterable[str], cluster: str = ROOT) -> dict[str, User]:
    """Parses static tokens, one per line: `token,user,uid,"group1,group2"`. The groups are optional."""
    tokens: dict[str, User] = {}
    for record in csv.reader(lines):
        if not record:
            continue
        if len(record) < 3 or not record[0] or not record[1]:
            raise ShoalError("every line of a token file must be token,user,uid and optionally groups")
        if record[0] in tokens:
            raise ShoalError(f"the token file has two lines with the token of {record[1]}")
        groups = tuple(group for group in record[3].split(",") if group) if len(record) > 3 else ()
        tokens[record[0]] = User(record[1], groups, record[2], cluster=cluster)
    return tokens


def _with_authenticated_group(user: User) -> User:
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _put_bounded(cache: MutableMapping[_K, _V], key: _K, value: _V) -> None:
    if len(cache) >= MAX_CACHED:
        cache.clear()
    cache[key] = value


def _is_cacheable(token: str) -> bool:
    """Tokens are text that anybody can send. Those that Shoal issues are far shorter."""
    return len(token) <= MAX_CACHED_TOKEN
