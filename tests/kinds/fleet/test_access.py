"""`spec.access` of a ManagedCluster: whom it admits, and the bindings that follow from it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.fleet import access
from shoal.kinds.fleet.access import HubUser

Object = dict[str, Any]

ACCESS: list[Object] = [
    {"role": "view", "users": ["alice"], "groups": ["developers"]},
    {"role": "edit", "users": ["alice", "system:serviceaccount:ci:deployer"]},
    {"role": "cluster-admin", "groups": ["operators", "system:masters"]},
]


def managed(*entries: Object) -> Object:
    return {"metadata": {"name": "east", "namespace": "default"}, "spec": {"access": list(entries)} if entries else {}}


@pytest.mark.parametrize(
    ("user", "groups", "admitted"),
    [
        ("alice", ["staff"], HubUser("alice")),
        ("alice", ["staff", "developers"], HubUser("alice", ("developers",))),
        ("bob", ["operators", "developers", "system:authenticated"], HubUser("bob", ("operators", "developers"))),
        ("root", ["system:masters", "system:authenticated"], HubUser("root", ("system:masters",))),
        ("bob", ["staff", "system:authenticated"], None),
        ("developers", ["alice"], None),
        ("hub:alice", [], None),
        ("", [], None),
    ],
)
def test_who_is_admitted(user: str, groups: list[str], admitted: HubUser | None) -> None:
    assert access.admitted_user(managed(*ACCESS), user, groups) == admitted


def test_without_entries_only_administrators_are_admitted() -> None:
    assert access.admitted_user(managed(), "alice", ["system:authenticated"]) is None
    assert access.admitted_user(managed(), "root", ["system:masters"]) == HubUser("root", ("system:masters",))


def test_names_in_the_hosted_cluster() -> None:
    user = HubUser("alice", ("developers",))
    assert (user.hosted_name, user.hosted_groups) == ("hub:alice", ("hub:developers",))


def subjects(binding: Object) -> list[str]:
    assert {each["apiGroup"] for each in binding["subjects"]} == {"rbac.authorization.k8s.io"}
    return [f"{each['kind']} {each['name']}" for each in binding["subjects"]]


def test_one_binding_for_each_role() -> None:
    bindings = access.access_bindings(managed(*ACCESS))
    assert {each["metadata"]["name"]: subjects(each) for each in bindings} == {
        "shoal:access:cluster-admin": ["Group hub:system:masters", "Group hub:operators"],
        "shoal:access:view": ["User hub:alice", "Group hub:developers"],
        "shoal:access:edit": ["User hub:alice", "User hub:system:serviceaccount:ci:deployer"],
    }
    assert [each["roleRef"]["name"] for each in bindings] == ["cluster-admin", "view", "edit"]
    assert all(map(access.is_access_binding, bindings))


def test_the_administrators_always_have_a_binding() -> None:
    (binding,) = access.access_bindings(managed())
    assert (binding["metadata"]["name"], subjects(binding)) == (
        "shoal:access:cluster-admin",
        ["Group hub:system:masters"],
    )


def test_which_bindings_mention_a_user() -> None:
    bindings = access.access_bindings(managed(*ACCESS))

    def roles(user: HubUser) -> list[str]:
        return [each["roleRef"]["name"] for each in bindings if access.mentions(each, user)]

    assert roles(HubUser("alice")) == ["view", "edit"]
    assert roles(HubUser("bob", ("developers",))) == ["view"]
    assert roles(HubUser("developers", ("alice",))) == []


def test_a_binding_without_the_label_is_of_somebody_else() -> None:
    (binding,) = access.access_bindings(managed())
    assert not access.is_access_binding({**binding, "metadata": {**binding["metadata"], "labels": {}}})
    assert not access.is_access_binding({**binding, "metadata": {**binding["metadata"], "name": "mine"}})
