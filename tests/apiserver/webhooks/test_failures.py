"""Webhooks that do not respond, or respond wrongly: the write fails with a clear message, or fails open if allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, Reply, allow, patch, reviewed
from tests.serving import config_map, fresh_cluster

Object = dict[str, Any]


def _uid(review: Object) -> Object:
    return reviewed(review, uid="another")


def _kind(review: Object) -> Object:
    return {**reviewed(review), "kind": "Pod"}


LIES: dict[str, tuple[Reply, str]] = {
    "uid": (_uid, 'received invalid webhook response: expected response.uid="'),
    "kind": (
        _kind,
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=Pod",
    ),
    "text": (lambda review: b"hello", "failed to call webhook: couldn't get version/kind; json parse error: "),
    "list": (lambda review: b"[]", "failed to call webhook: couldn't get version/kind; json parse error: "),
    "nothing": (lambda review: b"", "failed to call webhook: 0-length response with status code: 200"),
    "absent": (
        lambda review: {"kind": "AdmissionReview"},
        "received invalid webhook response: webhook response was abs",
    ),
    "patch": (patch(), "received invalid webhook response: validating webhook may not return response.patch"),
    "huge": (lambda review: b" " * (9 << 20), "the response is longer than "),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_no_answer(hooks: Hooks, lie: str) -> None:
    reply, said = LIES[lie]
    hooks.register("validating", hooks.hook("liar", reply))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert (answer.status, answer["reason"]) == (500, "InternalError")
    assert answer["message"].startswith('Internal error occurred: failed calling webhook "liar.example.com": ')
    assert said in answer["message"]
    assert answer["details"]["causes"] == [{"message": answer["message"].removeprefix("Internal error occurred: ")}]
    assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 404


@pytest.mark.parametrize("lie", LIES)
def test_where_failures_are_ignored_the_write_goes_on(hooks: Hooks, lie: str) -> None:
    hooks.register("validating", hooks.hook("liar", LIES[lie][0], failurePolicy="Ignore"))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert len(hooks.asked("liar")) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, 'an error on the server ("oh no") has prevented the request from succeeding'),
        (404, "the server could not find the requested resource"),
        (302, "the server responded with the status code 302 but did not return more information"),
    ],
)
def test_a_status_that_is_no_success(hooks: Hooks, status: int, said: str) -> None:
    hook = hooks.hook("sick", lambda review: b"oh no")
    hooks.receiver.statuses[f"/{hooks.cluster.name}/sick"] = status
    hooks.register("validating", hook)
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer.status == 500
    assert f'failed calling webhook "sick.example.com": failed to call webhook: {said}' in answer["message"]


def test_one_that_hangs_is_given_up_and_holds_nobody_else(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("slow", hooks.receiver.hang, timeoutSeconds=1))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer.status == 500
    assert answer["message"].endswith('/slow?timeout=1s": context deadline exceeded')
    assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 404
    hooks.cluster.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}).ok()


def test_others_write_while_one_hangs(hooks: Hooks) -> None:
    other = fresh_cluster(hooks.cluster.server, "cluster")

    def wait(review: Object) -> Object:
        """Answers once another cluster, and another kind of this one, have been written to."""
        other.post(CONFIG_MAPS, config_map("b")).ok()
        return allow(review)

    hooks.register("validating", hooks.hook("slow", wait))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert other.get(f"{CONFIG_MAPS}/b").status == 200
    other.close()


def test_the_time_of_the_request_is_the_longest(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("slow", hooks.receiver.hang, timeoutSeconds=30))
    answer = hooks.cluster.post(f"{CONFIG_MAPS}?timeout=1s", config_map("a"))
    assert answer.status in (500, 504)
    assert "deadline exceeded" in answer["message"]


def test_one_nobody_can_reach(hooks: Hooks) -> None:
    hook = hooks.hook("gone", allow)
    hook["clientConfig"]["url"] = "https://127.0.0.1:1/x"
    hooks.register("validating", hook)
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    said = 'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    assert answer["message"].endswith(f"failed to call webhook: {said}")


def test_a_connection_that_has_been_closed_meanwhile_is_not_a_failure(hooks: Hooks) -> None:
    hooks.receiver.dropping.add(f"/{hooks.cluster.name}/drops")
    hooks.register("validating", hooks.hook("drops", allow))
    for number in range(3):
        hooks.cluster.post(CONFIG_MAPS, config_map(f"a{number}")).ok()
    assert len(hooks.asked("drops")) == 3


def test_one_of_an_authority_that_is_not_named(hooks: Hooks) -> None:
    hook = hooks.hook("strange", allow)
    del hook["clientConfig"]["caBundle"]
    hooks.register("validating", hook)
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer.status == 500
    assert "x509: certificate signed by unknown authority" in answer["message"]
    assert hooks.asked("strange") == []


def test_one_that_writes_what_it_is_asked_about(hooks: Hooks) -> None:
    """A loop: each of its writes asks it again. It ends by its time limit, and the server goes on."""
    made: list[Object] = []

    def loop(review: Object) -> Object:
        if len(made) > 50:
            return allow(review)
        made.append(review)
        other = fresh_client(hooks)
        other.post(f"{CONFIG_MAPS}?timeout=2s", config_map(f"a{len(made)}"))
        other.close()
        return allow(review)

    hooks.register("validating", hooks.hook("loop", loop, timeoutSeconds=1))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer.status in (201, 500)
    hooks.cluster.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}).ok()
    hooks.cluster.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks").ok()
    hooks.cluster.post(CONFIG_MAPS, config_map("z")).ok()


def fresh_client(hooks: Hooks) -> Any:
    return type(hooks.cluster)(hooks.cluster.server, hooks.cluster.name)


def test_one_may_write_in_a_namespace_with_a_quota(hooks: Hooks) -> None:
    """Writes there take turns: a webhook that waits for its own must not wait for the one it is asked about."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "20"}}}
    hooks.cluster.post("/api/v1/namespaces/default/resourcequotas", quota).ok()

    def note(review: Object) -> Object:
        if review["request"]["name"] == "outer":
            other = fresh_client(hooks)
            other.post(CONFIG_MAPS, config_map("inner")).ok()
            other.close()
        return allow(review)

    hooks.register("validating", hooks.hook("note", note, timeoutSeconds=30))
    hooks.cluster.post(CONFIG_MAPS, config_map("outer")).ok()
    names = [item["metadata"]["name"] for item in hooks.cluster.get(CONFIG_MAPS).ok()["items"]]
    assert {"inner", "outer"} <= set(names)


def test_a_quota_counts_what_webhooks_let_through_at_once(hooks: Hooks) -> None:
    have = len(hooks.cluster.get(CONFIG_MAPS).ok()["items"])
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": str(have + 1)}}}
    hooks.cluster.post("/api/v1/namespaces/default/resourcequotas", quota).ok()
    answers = []

    def second(review: Object) -> Object:
        """While the first waits for its answer, another takes the room it has seen."""
        if review["request"]["name"] == "one":
            other = fresh_client(hooks)
            answers.append(other.post(CONFIG_MAPS, config_map("two")).status)
            other.close()
        return allow(review)

    hooks.register("validating", hooks.hook("second", second, timeoutSeconds=30))
    refused = hooks.cluster.post(CONFIG_MAPS, config_map("one"))
    assert answers == [201]
    assert refused.status == 403
    assert "exceeded quota" in refused["message"]


def test_v1beta1_is_spoken_with_those_who_know_nothing_else(hooks: Hooks) -> None:
    def old(review: Object) -> bytes:
        assert review["apiVersion"] == "admission.k8s.io/v1beta1"
        return json.dumps({"response": {"allowed": True, "uid": "whatever"}}).encode()

    hooks.register("validating", hooks.hook("old", old, admissionReviewVersions=["v2", "v1beta1", "v1"]))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert len(hooks.asked("old")) == 1
