"""Impersonation: parses the Impersonate-* headers, authorizes them and returns the resulting user.

The resulting user belongs to the cluster of the request. Reads only headers; uses the authorizer it is given.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from shoal.apiserver.authn.authenticator import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    User,
    cluster_of_user,
    service_account_groups,
)
from shoal.apiserver.authz import Attributes, Authorizer, forbidden
from shoal.apiserver.authz.rules import quote, quote_list
from shoal.objects.errors import BadRequest
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain
from shoal.objects.wire import Request

HEADER_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


class Impersonation(NamedTuple):
    user: User
    """The user of the request, once every check has passed."""
    checks: tuple[Attributes, ...]


def impersonated_user(request: Request, user: User, cluster: str, authorizer: Authorizer) -> User:
    """Returns the user the request acts as, usually the authenticated one. Raises BadRequest or Forbidden."""
    impersonation = parse_headers(request, cluster)
    if impersonation is None:
        return user
    for check in impersonation.checks:
        decision = authorizer.authorize(user, check)
        if not decision.allowed:
            raise forbidden(user, check, decision.reason)
    return impersonation.user


def parse_headers(request: Request, cluster: str) -> Impersonation | None:
    """Returns the requested impersonation, or None if the headers name no user."""
    name, uid = _first_header(request, "impersonate-user"), _first_header(request, "impersonate-uid")
    groups = tuple(request.header_list("impersonate-group"))
    extra: dict[str, tuple[str, ...]] = {}
    for header in request.headers:
        if header.startswith(_EXTRA):
            key = _unescape(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), *request.header_list(header))
    if not name:
        if uid or groups or extra:
            requested = f"uid {quote(uid)}, groups {quote_list(groups)}, extra {quote_list(extra)}"
            raise BadRequest(f"requested {requested} without impersonating a user name")
        return None
    checks = [_name_check(cluster, name)]
    if uid:
        checks.append(Attributes(cluster, "impersonate", _AUTHENTICATION, "v1", "uids", name=uid))
    checks += [Attributes(cluster, "impersonate", "", "v1", "groups", name=group) for group in groups]
    checks += [
        Attributes(cluster, "impersonate", _AUTHENTICATION, "v1", "userextras", key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    return Impersonation(User(name, _groups_of(name, groups), uid, extra, cluster_of_user(cluster)), tuple(checks))


def split_service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name from a service account's user name, or None for any other user."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not colon or is_dns1123_label(namespace) or is_dns1123_subdomain(account):
        return None
    return namespace, account


def _name_check(cluster: str, name: str) -> Attributes:
    account = split_service_account(name)
    if account is None:
        return Attributes(cluster, "impersonate", "", "v1", "users", name=name)
    return Attributes(cluster, "impersonate", "", "v1", "serviceaccounts", namespace=account[0], name=account[1])


def _groups_of(name: str, requested: tuple[str, ...]) -> tuple[str, ...]:
    account = split_service_account(name)
    groups = service_account_groups(account[0]) if account is not None and not requested else requested
    if name == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _first_header(request: Request, header: str) -> str:
    return next(iter(request.header_list(header)), "")


def _unescape(key: str) -> str:
    """Percent-decodes a key. A key that is not properly encoded stays as it is."""
    for piece in key.split("%")[1:]:
        if len(piece) < 2 or not all(digit in "0123456789abcdef" for digit in piece[:2]):
            return key
    return unquote(key)
