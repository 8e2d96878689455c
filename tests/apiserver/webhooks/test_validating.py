"""Validating webhooks: the review they get, and the effect of their response."""

from __future__ import annotations

import pytest

from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, allow, deny, reviewed, rule
from tests.serving import config_map, fresh_cluster


def test_one_that_allows_is_shown_the_write(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("look", allow))
    hooks.cluster.post(f"{CONFIG_MAPS}?fieldManager=me", config_map("a", {"k": "1"})).ok()
    made = hooks.cluster.get(f"{CONFIG_MAPS}/a").ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}).ok()
    hooks.cluster.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Background"}).ok()

    created, updated, deleted = hooks.asked("look")
    assert created["kind"] == created["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (created["operation"], created["name"], created["namespace"]) == ("CREATE", "a", "default")
    assert (created["oldObject"], created["dryRun"]) == (None, False)
    assert created["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert created["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert created["userInfo"]["username"] == "shoal-admin"
    assert "system:masters" in created["userInfo"]["groups"]
    assert "subResource" not in created

    assert (updated["operation"], updated["options"]["kind"]) == ("UPDATE", "UpdateOptions")
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"k": "1"}, {"k": "2"})
    assert updated["oldObject"] == made

    assert (deleted["operation"], deleted["object"], deleted["name"]) == ("DELETE", None, "a")
    assert deleted["oldObject"]["data"] == {"k": "2"}
    assert deleted["options"]["propagationPolicy"] == "Background"


def test_one_that_denies_refuses_every_sort_of_write(hooks: Hooks) -> None:
    hooks.cluster.post(CONFIG_MAPS, config_map("there", {"k": "1"})).ok()
    refused = deny(message="not today", code=403, reason="Forbidden")
    hooks.register("validating", hooks.hook("no", refused))
    said = 'admission webhook "no.example.com" denied the request: not today'

    answer = hooks.cluster.post(CONFIG_MAPS, config_map("new"))
    assert (answer.status, answer["message"], answer["reason"], answer["code"]) == (403, said, "Forbidden", 403)
    assert answer["status"] == "Failure"
    for attempt in (
        hooks.cluster.patch(f"{CONFIG_MAPS}/there", {"data": {"k": "2"}}),
        hooks.cluster.put(f"{CONFIG_MAPS}/there", config_map("there", {"k": "2"})),
        hooks.cluster.patch(f"{CONFIG_MAPS}/there?fieldManager=me&force=true", config_map("there"), "apply"),
        hooks.cluster.patch(f"{CONFIG_MAPS}/other?fieldManager=me", config_map("other"), "apply"),
        hooks.cluster.delete(f"{CONFIG_MAPS}/there"),
        hooks.cluster.delete(CONFIG_MAPS),
    ):
        assert (attempt.status, attempt["message"]) == (403, said)
    names = {item["metadata"]["name"]: item["data"] for item in hooks.cluster.get(CONFIG_MAPS).ok()["items"]}
    assert names["there"] == {"k": "1"}
    assert {"new", "other"}.isdisjoint(names)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        ({}, 400, " without explanation"),
        ({"reason": "Teapot", "code": 418}, 418, ": Teapot"),
        ({"message": "m", "code": 200, "status": "Success"}, 400, ": m"),
    ],
)
def test_denials_are_failures_whatever_they_say(hooks: Hooks, status: dict[str, object], code: int, said: str) -> None:
    hooks.register("validating", hooks.hook("no", deny(**status)))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert (answer.status, answer["code"], answer["status"]) == (code, code, "Failure")
    assert answer["message"] == f'admission webhook "no.example.com" denied the request{said}'
    assert answer.json.get("reason") == status.get("reason")


def test_all_are_asked_and_the_first_objection_in_order_is_heard(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("second", deny(message="second")), name="b")
    hooks.register("validating", hooks.hook("fine", allow), hooks.hook("first", deny(message="first")), name="a")
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer["message"] == 'admission webhook "first.example.com" denied the request: first'
    assert sorted(hooks.order()) == ["fine", "first", "second"]


def test_they_are_asked_at_the_same_time(hooks: Hooks) -> None:
    """Each answers only once the other has been asked."""
    met = [0]

    def meet(review: dict[str, object]) -> dict[str, object]:
        met[0] += 1
        hooks.cluster.eventually(lambda: met[0] == 2)
        return allow(review)

    hooks.register("validating", hooks.hook("one", meet), hooks.hook("two", meet))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()


def test_warnings_reach_the_client_of_a_denied_write_too(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("warn", lambda review: reviewed(review, warnings=["mind the gap"])))
    assert "mind the gap" in hooks.cluster.post(CONFIG_MAPS, config_map("a")).headers["warning"]
    no = hooks.hook("no", lambda review: reviewed(review, allowed=False, warnings=["really"]), "secrets")
    hooks.register("validating", no, name="z")
    refused = hooks.cluster.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "b"}})
    assert refused.status == 400
    assert "really" in refused.headers["warning"]


def test_configurations_themselves_are_never_shown(hooks: Hooks) -> None:
    everything = hooks.hook("no", deny(message="no"), rules=[rule("*/*")])
    hooks.register("validating", everything)
    hooks.register("mutating", everything, name="m")
    assert hooks.cluster.post(CONFIG_MAPS, config_map("a")).status == 400
    for sort in ("validating", "mutating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{sort}webhookconfigurations"
        found = hooks.cluster.get(path).ok()["items"][0]["metadata"]["name"]
        hooks.cluster.delete(f"{path}/{found}").ok()
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()


def test_other_clusters_have_nothing_to_do_with_it(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("no", deny(message="no")))
    other = fresh_cluster(hooks.cluster.server, "cluster")
    other.post(CONFIG_MAPS, config_map("a")).ok()
    other.close()
    assert hooks.asked("no") == []


def test_calls_are_timed_and_told_to_their_cluster_alone(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("timed", deny(message="no", code=403, reason="Forbidden")))
    assert hooks.cluster.post(CONFIG_MAPS, config_map("timed", {})).status == 403
    name = "apiserver_admission_webhook_admission_duration_seconds_count"
    mine = hooks.cluster.get("/metrics").body.decode()
    [line] = [each for each in mine.splitlines() if each.startswith(name) and 'operation="CREATE"' in each]
    assert 'type="validating"' in line
    assert 'rejected="true"' in line
    assert line.endswith(" 1")
    other = fresh_cluster(hooks.cluster.server)
    assert name not in other.get("/metrics").body.decode()
    other.close()
