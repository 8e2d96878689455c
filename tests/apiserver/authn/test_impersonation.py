"""Impersonation: the resulting user, required permissions, rejections."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes, Authorizer
from shoal.apiserver.impersonation import impersonated_user, parse_headers
from shoal.objects.errors import BadRequest, Forbidden
from shoal.objects.wire import Request
from tests.apiserver.authz.role_table import RoleTable, grant, person, rule

AUTHENTICATED = "system:authenticated"


def asking(*lines: tuple[str, str]) -> Request:
    """A request with these header lines, as a transport makes it."""
    headers: dict[str, str] = {}
    for key, value in lines:
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Request("GET", "/", headers=headers, raw_headers=lines if len(headers) < len(lines) else ())


def result(*lines: tuple[str, str], cluster: str = "root") -> User:
    found = parse_headers(asking(*lines), cluster)
    assert found is not None
    return found.user


USER = ("impersonate-user", "bob")


@pytest.mark.parametrize(
    ("lines", "name", "groups"),
    [
        ([USER], "bob", (AUTHENTICATED,)),
        ([USER, ("impersonate-group", "a")], "bob", ("a", AUTHENTICATED)),
        ([USER, ("impersonate-group", "a"), ("impersonate-group", "b, c")], "bob", ("a", "b, c", AUTHENTICATED)),
        ([USER, ("impersonate-group", AUTHENTICATED)], "bob", (AUTHENTICATED,)),
        ([USER, ("impersonate-group", "system:unauthenticated")], "bob", ("system:unauthenticated",)),
        ([("impersonate-user", "system:anonymous")], "system:anonymous", ("system:unauthenticated",)),
        (
            [("impersonate-user", "system:serviceaccount:ns:bot")],
            "system:serviceaccount:ns:bot",
            ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED),
        ),
        (
            [("impersonate-user", "system:serviceaccount:ns:bot"), ("impersonate-group", "a")],
            "system:serviceaccount:ns:bot",
            ("a", AUTHENTICATED),
        ),
        ([("impersonate-user", "bob"), ("impersonate-user", "eve")], "bob", (AUTHENTICATED,)),
    ],
)
def test_who_results(lines: list[tuple[str, str]], name: str, groups: tuple[str, ...]) -> None:
    user = result(*lines)
    assert (user.name, user.groups, user.uid, user.extra) == (name, groups, "", {})


def test_uid_and_extra() -> None:
    user = result(
        USER,
        ("impersonate-uid", "7"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-scopes", "edit"),
        ("impersonate-extra-acme.com%2fproject", "x"),
        ("impersonate-extra-half%2", "y"),
    )
    assert user.uid == "7"
    assert user.extra == {"scopes": ("view", "edit"), "acme.com/project": ("x",), "half%2": ("y",)}


def test_the_result_belongs_to_the_cluster_of_the_request() -> None:
    admin = person("admin", "system:masters")
    authorizer = Authorizer(RoleTable())
    in_blue = impersonated_user(asking(USER, ("impersonate-group", "system:masters")), admin, "blue", authorizer)
    assert (in_blue.cluster, in_blue.crosses_clusters) == ("blue", False)
    across = impersonated_user(asking(USER), admin, "*", authorizer)
    assert (across.cluster, across.crosses_clusters) == ("root", False)


@pytest.mark.parametrize(
    ("lines", "checks"),
    [
        ([USER], [Attributes("root", "impersonate", "", "v1", "users", name="bob")]),
        (
            [("impersonate-user", "system:serviceaccount:ns:bot")],
            [Attributes("root", "impersonate", "", "v1", "serviceaccounts", namespace="ns", name="bot")],
        ),
        (
            [("impersonate-user", "system:serviceaccount:NS:bot")],
            [Attributes("root", "impersonate", "", "v1", "users", name="system:serviceaccount:NS:bot")],
        ),
        (
            [("impersonate-user", "system:serviceaccount:a:b:c")],
            [Attributes("root", "impersonate", "", "v1", "users", name="system:serviceaccount:a:b:c")],
        ),
        (
            [USER, ("impersonate-extra-k", "v"), ("impersonate-group", "g"), ("impersonate-uid", "7")],
            [
                Attributes("root", "impersonate", "", "v1", "users", name="bob"),
                Attributes("root", "impersonate", "authentication.k8s.io", "v1", "uids", name="7"),
                Attributes("root", "impersonate", "", "v1", "groups", name="g"),
                Attributes("root", "impersonate", "authentication.k8s.io", "v1", "userextras", "k", name="v"),
            ],
        ),
    ],
)
def test_what_must_be_allowed(lines: list[tuple[str, str]], checks: list[Attributes]) -> None:
    found = parse_headers(asking(*lines), "root")
    assert found is not None
    assert list(found.checks) == checks


RULES: list[tuple[dict[str, Any], tuple[str, str], str]] = [
    (rule("", "users", "impersonate", "bob"), USER, ""),
    (
        rule("", "groups", "impersonate", "devs"),
        ("impersonate-group", "devs"),
        (
            'groups "devs" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope"
        ),
    ),
    (
        rule("authentication.k8s.io", "uids", "impersonate"),
        ("impersonate-uid", "7"),
        (
            'uids.authentication.k8s.io "7" is forbidden: User "alice" cannot impersonate resource "uids" '
            'in API group "authentication.k8s.io" at the cluster scope'
        ),
    ),
    (
        rule("authentication.k8s.io", "userextras/scopes", "impersonate", "view"),
        ("impersonate-extra-scopes", "view"),
        (
            'userextras.authentication.k8s.io "view" is forbidden: User "alice" cannot impersonate resource '
            '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope'
        ),
    ),
]


def test_each_header_needs_its_rule() -> None:
    table = RoleTable()
    authorizer = Authorizer(table)
    with pytest.raises(Forbidden) as caught:
        impersonated_user(asking(USER), person(), "root", authorizer)
    assert caught.value.message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    for held in range(1, len(RULES)):
        grant(table, [needed for needed, _, _ in RULES[:held]])
        _, header, said = RULES[held]
        with pytest.raises(Forbidden) as caught:
            impersonated_user(asking(USER, header), person(), "root", authorizer)
        assert caught.value.message == said
    grant(table, [needed for needed, _, _ in RULES])
    everything = asking(*[header for _, header, _ in RULES])
    assert impersonated_user(everything, person(), "root", authorizer).groups == ("devs", AUTHENTICATED)


def test_a_service_account_by_its_namespace() -> None:
    table = RoleTable()
    grant(table, [rule("", "serviceaccounts", "impersonate")], "ns")
    authorizer = Authorizer(table)
    bot = asking(("impersonate-user", "system:serviceaccount:ns:bot"))
    assert impersonated_user(bot, person(), "root", authorizer).name == "system:serviceaccount:ns:bot"
    with pytest.raises(Forbidden) as caught:
        impersonated_user(
            asking(("impersonate-user", "system:serviceaccount:kube-system:x")), person(), "root", authorizer
        )
    assert caught.value.message == (
        'serviceaccounts "x" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
        'in API group "" in the namespace "kube-system"'
    )


@pytest.mark.parametrize(
    "line",
    [
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-k", "v"),
    ],
)
def test_only_with_a_user(line: tuple[str, str]) -> None:
    authorizer = Authorizer(RoleTable())
    for lines in ([line], [("impersonate-user", ""), line]):
        with pytest.raises(BadRequest, match="without impersonating a user name"):
            impersonated_user(asking(*lines), person("admin", "system:masters"), "root", authorizer)


def test_without_headers_nothing_happens() -> None:
    user = person()
    authorizer = Authorizer(RoleTable())
    for lines in ([], [("accept", "x")], [("impersonate-user", "")], [("impersonate-other", "x")]):
        assert impersonated_user(asking(*lines), user, "root", authorizer) is user
