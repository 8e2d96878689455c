"""Which ClusterRoleBindings of a hosted cluster are created, changed and deleted for `spec.access`."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.worker.access.decide import AccessChanges, plan_bindings, with_access_condition
from shoal.fleet.worker.reporter.decide import access_condition
from shoal.kinds.fleet import access
from shoal.objects.conditions import get_condition

Object = dict[str, Any]
NOW, LATER = "2026-11-18T12:00:00Z", "2026-11-18T13:00:00Z"
VIEW: Object = {"role": "view", "users": ["alice"]}
EDIT: Object = {"role": "edit", "groups": ["developers"]}


def copy(*entries: Object, generation: int = 3) -> Object:
    metadata = {"name": "east", "namespace": "default", "generation": generation}
    return {"metadata": metadata, "spec": {"access": list(entries)}}


def observed(*entries: Object) -> dict[str, Object]:
    bindings = access.access_bindings(copy(*entries))
    return {
        each["metadata"]["name"]: {**each, "metadata": {**each["metadata"], "uid": f"uid-{each['roleRef']['name']}"}}
        for each in bindings
    }


def changed(changes: AccessChanges) -> tuple[list[str], list[str], list[str]]:
    created, updated = ([each["metadata"]["name"] for each in part] for part in (changes.create, changes.update))
    return created, updated, [name for name, _ in changes.delete]


@pytest.mark.parametrize(
    ("entries", "before", "created", "updated", "deleted"),
    [
        ([], {}, ["cluster-admin"], [], []),
        ([], observed(), [], [], []),
        ([VIEW], observed(), ["view"], [], []),
        ([VIEW, EDIT], observed(VIEW, EDIT), [], [], []),
        ([{**VIEW, "users": ["bob"]}], observed(VIEW), [], ["view"], []),
        ([{**VIEW, "groups": ["developers"]}], observed(VIEW), [], ["view"], []),
        ([EDIT], observed(VIEW), ["edit"], [], ["view"]),
        ([], observed(VIEW, EDIT), [], [], ["view", "edit"]),
        ([{"role": "cluster-admin", "users": ["alice"]}], observed(), [], ["cluster-admin"], []),
    ],
)
def test_changes(
    entries: list[Object], before: dict[str, Object], created: list[str], updated: list[str], deleted: list[str]
) -> None:
    names = tuple([f"shoal:access:{role}" for role in part] for part in (created, updated, deleted))
    assert changed(plan_bindings(copy(*entries), before)) == names


def test_a_binding_of_another_role_is_replaced() -> None:
    before = observed(VIEW)
    before["shoal:access:view"]["roleRef"] = {**before["shoal:access:view"]["roleRef"], "name": "cluster-admin"}
    changes = plan_bindings(copy(VIEW), before)
    assert changed(changes) == (["shoal:access:view"], [], ["shoal:access:view"])
    assert changes.delete == [("shoal:access:view", "uid-view")]


def test_bindings_of_others_are_left_alone() -> None:
    before = observed(VIEW)
    before["mine"] = {**before["shoal:access:view"], "metadata": {"name": "mine", "labels": {access.ACCESS_LABEL: ""}}}
    before["shoal:access:x"] = {**before["mine"], "metadata": {"name": "shoal:access:x", "labels": {}, "uid": "x"}}
    assert changed(plan_bindings(copy(VIEW), before)) == ([], [], [])


def test_the_condition() -> None:
    assert with_access_condition(nobody := copy(), [], NOW) is nobody
    granted = with_access_condition(copy(VIEW), [], NOW)
    assert access_condition(granted) == ("True", "BindingsInPlace", "")
    assert with_access_condition(granted, [], LATER) is granted
    taken = with_access_condition(granted, ["shoal:access:view"], LATER)
    assert access_condition(taken) == (
        "False",
        "BindingNameTaken",
        "ClusterRoleBindings shoal:access:view exist and are not Shoal's",
    )
    assert get_condition(taken, "AccessGranted")["lastTransitionTime"] == LATER  # type: ignore[index]
    freed = with_access_condition({**taken, "spec": {}}, [], LATER)
    assert access_condition(freed) == ("True", "BindingsInPlace", "")


def test_a_condition_of_an_earlier_spec_is_not_reported() -> None:
    granted = with_access_condition(copy(VIEW), [], NOW)
    assert access_condition({**granted, "metadata": {**granted["metadata"], "generation": 4}}) is None
