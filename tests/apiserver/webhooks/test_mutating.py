"""Mutating webhooks: patches, order and reinvocation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, Reply, add, allow, deny, patch, reviewed, rule
from tests.serving import DEFINITIONS, WIDGETS, config_map, widget, widget_definition

Object = dict[str, Any]


def test_a_patch_changes_what_is_stored(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("add", patch(add("/data/added", "yes"), add("/metadata/labels", {"l": "1"}))))
    answer = hooks.cluster.post(f"{CONFIG_MAPS}?fieldManager=me", config_map("a", {"k": "v"})).ok()
    stored = hooks.cluster.get(f"{CONFIG_MAPS}/a").ok()
    assert answer == stored
    assert stored["data"] == {"k": "v", "added": "yes"}
    assert stored["metadata"]["labels"] == {"l": "1"}
    owned = [entry["fieldsV1"] for entry in stored["metadata"]["managedFields"]]
    assert owned == [{"f:data": {".": {}, "f:k": {}}}]  # what a webhook adds is nobody's, as upstream has it


def test_an_update_and_an_apply_are_patched_too(hooks: Hooks) -> None:
    hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    hooks.register("mutating", hooks.hook("add", patch(add("/data/added", "yes"))))
    assert hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}).ok()["data"] == {"k": "2", "added": "yes"}
    applied = hooks.cluster.patch(f"{CONFIG_MAPS}/b?fieldManager=me", config_map("b", {"k": "3"}), "apply").ok()
    assert applied["data"] == {"k": "3", "added": "yes"}
    again = hooks.cluster.patch(f"{CONFIG_MAPS}/b?fieldManager=me", config_map("b", {"k": "4"}), "apply").ok()
    assert again["data"] == {"k": "4", "added": "yes"}


def test_a_patch_that_changes_nothing_writes_nothing(hooks: Hooks) -> None:
    before = hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    hooks.register("mutating", hooks.hook("back", patch(add("/data/k", "1"))))
    after = hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}).ok()
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_new_object_has_no_uid_yet_nor_a_name_that_is_made_up(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("look", allow))
    hooks.register("validating", hooks.hook("after", allow))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}
    made = hooks.cluster.post(CONFIG_MAPS, body).ok()["metadata"]
    (seen,), (then,) = hooks.asked("look"), hooks.asked("after")
    assert seen["object"]["metadata"].keys().isdisjoint({"name", "uid", "creationTimestamp"})
    assert "name" not in seen
    assert (then["name"], then["object"]["metadata"]["uid"]) == (made["name"], made["uid"])


def test_the_order_is_that_of_the_names(hooks: Hooks) -> None:
    def append(letter: str) -> Reply:
        def reply(review: Object) -> Any:
            data = review["request"]["object"].get("data") or {}
            return patch(add("/data", {"order": data.get("order", "") + letter}))(review)

        return reply

    hooks.register("mutating", hooks.hook("three", append("3")), name="b")
    hooks.register("mutating", hooks.hook("one", append("1")), hooks.hook("two", append("2")), name="a")
    assert hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()["data"] == {"order": "123"}
    assert hooks.order() == ["one", "two", "three"]


def test_one_is_asked_again_when_a_later_one_changed_something(hooks: Hooks) -> None:
    seen: list[Object] = []

    def first(review: Object) -> Object:
        seen.append(review["request"]["object"]["data"])
        return reviewed(review)

    hooks.register(
        "mutating",
        hooks.hook("again", first, reinvocationPolicy="IfNeeded"),
        hooks.hook("never", allow),
        hooks.hook("change", patch(add("/data/changed", "yes"))),
        hooks.hook("last", allow, reinvocationPolicy="IfNeeded"),
    )
    hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "v"})).ok()
    assert hooks.order() == ["again", "never", "change", "last", "again"]
    assert seen == [{"k": "v"}, {"k": "v", "changed": "yes"}]


def test_two_that_always_change_something_do_not_go_on_forever(hooks: Hooks) -> None:
    def count(name: str) -> Reply:
        def reply(review: Object) -> Any:
            number = int(review["request"]["object"]["data"].get(name, "0"))
            return patch(add(f"/data/{name}", str(number + 1)))(review)

        return reply

    both = [hooks.hook(name, count(name), reinvocationPolicy="IfNeeded") for name in ("a", "b")]
    hooks.register("mutating", *both)
    assert hooks.cluster.post(CONFIG_MAPS, config_map("x", {"k": "v"})).ok()["data"] == {"k": "v", "a": "2", "b": "2"}
    assert hooks.order() == ["a", "b", "a", "b"]


def test_validating_ones_see_what_mutating_ones_made(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("add", patch(add("/data/added", "yes"))))
    hooks.register("validating", hooks.hook("look", deny(message="no")))
    assert hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "v"})).status == 400
    assert hooks.asked("look")[0]["object"]["data"] == {"k": "v", "added": "yes"}


@pytest.mark.parametrize(
    ("operations", "code", "said"),
    [
        (
            [add("/data/k", 5)],
            500,
            "Internal error occurred: json: cannot unmarshal number",
        ),
        ([{"op": "remove", "path": "/nowhere"}], 500, "Internal error occurred: error in remove for path: '/nowhere'"),
        (
            [{"op": "test", "path": "/data/k", "value": "x"}],
            500,
            "Internal error occurred: testing value /data/k failed",
        ),
        ([{"op": "replace", "path": "", "value": []}], 500, "did not produce an object"),
        ([add("/kind", "Pod")], 500, "changed the type of the object"),
        ([add("/metadata/namespace", "elsewhere")], 400, "does not match the namespace sent on the request"),
        ([add("/metadata/labels", {"k": "not a label!"})], 422, "metadata.labels: Invalid value"),
        ([add("/data/no slash~1here", "v")], 422, "data[no slash/here]: Invalid value"),
    ],
)
def test_a_patch_that_leaves_nothing_valid_stores_nothing(
    hooks: Hooks, operations: list[Object], code: int, said: str
) -> None:
    hooks.register("mutating", hooks.hook("bad", patch(*operations)))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "v"}))
    assert answer.status == code
    assert said in answer["message"]
    assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 404


def test_what_is_unknown_is_pruned_and_what_is_missing_defaulted(hooks: Hooks) -> None:
    hooks.cluster.post(DEFINITIONS, widget_definition()).ok()
    more = [add("/spec/nonsense", 1), {"op": "remove", "path": "/spec/replicas"}, add("/metadata/ownedBy", "x")]
    hooks.register("mutating", hooks.hook("more", patch(*more), "widgets"))
    made = hooks.cluster.post(WIDGETS, widget("w", 3)).ok()
    assert made["spec"] == {"size": 3, "replicas": 1}
    assert "ownedBy" not in made["metadata"]


def test_generation_counts_what_was_stored(hooks: Hooks) -> None:
    hooks.cluster.post(DEFINITIONS, widget_definition()).ok()
    hooks.register("mutating", hooks.hook("fix", patch(add("/spec/size", 7)), "widgets"))
    made = hooks.cluster.post(WIDGETS, widget("w", 3)).ok()
    assert (made["spec"]["size"], made["metadata"]["generation"]) == (7, 1)
    same = hooks.cluster.patch(f"{WIDGETS}/w", {"spec": {"size": 9}}).ok()
    assert (same["spec"]["size"], same["metadata"]["generation"]) == (7, 1)
    other = hooks.cluster.patch(f"{WIDGETS}/w", {"spec": {"color": "red"}}).ok()
    assert other["metadata"]["generation"] == 2


def test_a_deletion_cannot_be_changed_only_refused(hooks: Hooks) -> None:
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    hooks.register("mutating", hooks.hook("change", patch(add("/data", {}))))
    answer = hooks.cluster.delete(f"{CONFIG_MAPS}/a")
    assert answer.status == 500
    said = "attempted to modify the object, which is not supported for this operation"
    assert answer["message"] == f'Internal error occurred: admission webhook "change.example.com" {said}'
    assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 200


def test_a_dry_run_is_said_to_be_one_and_stores_nothing(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("add", patch(add("/data/added", "yes")), sideEffects="NoneOnDryRun"))
    hooks.register("validating", hooks.hook("look", allow))
    made = hooks.cluster.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a", {"k": "v"})).ok()
    assert made["data"] == {"k": "v", "added": "yes"}
    for name in ("add", "look"):
        (asked,) = hooks.asked(name)
        assert (asked["dryRun"], asked["options"]["dryRun"]) == (True, ["All"])
    assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 404


def test_somebody_else_is_faster_while_it_is_asked(hooks: Hooks) -> None:
    """The change is made anew on what there is then, and asked about again."""
    hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    other = type(hooks.cluster)(hooks.cluster.server, hooks.cluster.name)

    def race(review: Object) -> Any:
        if "raced" not in review["request"]["oldObject"]["data"] and not review["request"]["object"]["data"].get(
            "raced"
        ):
            other.patch(f"{CONFIG_MAPS}/a", {"data": {"raced": "yes"}}).ok()
        return patch(add("/data/added", "yes"))(review)

    hooks.register("mutating", hooks.hook("race", race, rules=[rule("configmaps", operations=("UPDATE",))]))
    changed = hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}).ok()
    assert changed["data"] == {"k": "2", "raced": "yes", "added": "yes"}
    other.close()


def test_limits_and_quotas_judge_what_webhooks_leave(hooks: Hooks) -> None:
    hooks.cluster.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}}
    hooks.cluster.post("/api/v1/namespaces/default/resourcequotas", quota).ok()
    asks = patch(add("/spec/containers/0/resources", {"requests": {"cpu": "2"}}))
    hooks.register("mutating", hooks.hook("greedy", asks, "pods"))
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    answer = hooks.cluster.post("/api/v1/namespaces/default/pods", pod)
    assert answer.status == 403
    assert "exceeded quota: q, requested: requests.cpu=2" in answer["message"]
