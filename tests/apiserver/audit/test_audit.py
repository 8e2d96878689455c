"""The audit log: one line for every request its policy selects, without secrets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from shoal.apiserver.audit import AuditConfig, AuditConfigError, open_auditor
from shoal.apiserver.audit.event import response_object
from shoal.apiserver.audit.log_backend import MEGABYTE, AuditLogBackend
from shoal.apiserver.audit.policy import AuditAttributes, AuditPolicyError, parse_policy
from shoal.apiserver.authn import hub_user_token
from shoal.assemble.server.hub import ShoalServerSettings
from shoal.cli.up import command
from shoal.clock import FakeClock
from shoal.kinds.fleet.access import HubUser
from shoal.objects.wire import Response
from tests.serving import Cluster, Server, config_map, running_server

Object = dict[str, Any]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
CONTROLLERS_GROUP = "system:serviceaccounts:kube-system"
QUIET = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "userGroups": [CONTROLLERS_GROUP]},
        {"level": "None", "nonResourceURLs": ["/livez*"]},
        {"level": "RequestResponse", "resources": [{"resources": ["events"]}]},
        {"level": "Metadata"},
    ],
}


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, **wanted: object) -> list[Object]:
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [event for event in found if all(event.get(key) == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(tmp_path_factory.mktemp("audit") / "audit.log")


@pytest.fixture(scope="module")
def audited(log: Log) -> Iterator[Server]:
    policy = log.path.with_name("policy.yaml")
    policy.write_text(yaml.safe_dump(QUIET))
    settings = AuditConfig(str(log.path), policy_path=policy)
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.serving.ShoalServerSettings", partial(ShoalServerSettings, audit=settings))
            server = stack.enter_context(running_server())
        yield server


@pytest.fixture
def cluster(audited: Server) -> Iterator[Cluster]:
    cluster = Cluster(audited, "root")
    yield cluster
    cluster.close()


def one(cluster: Cluster, log: Log, **wanted: object) -> Object:
    """The event of a request, which is written right after its answer."""
    return cluster.eventually(lambda: log.events(**wanted))[0]


def test_who_did_what(cluster: Cluster, log: Log) -> None:
    answer = cluster.post(f"{CONFIG_MAPS}?pretty=false", config_map("a"), User_Agent="kubectl/v1")
    event = one(cluster, log, auditID=answer.headers["audit-id"])
    for field in ("requestReceivedTimestamp", "stageTimestamp"):
        assert event.pop(field).endswith("Z")
    assert event.pop("sourceIPs") == ["127.0.0.1"]
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": answer.headers["audit-id"],
        "stage": "ResponseComplete",
        "requestURI": "/clusters/root/api/v1/namespaces/default/configmaps?pretty=false",
        "verb": "create",
        "user": {"username": "shoal-admin", "groups": ["system:masters", "system:authenticated"]},
        "userAgent": "kubectl/v1",
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {
            "shoal.dev/cluster": "root",
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": event["annotations"]["authorization.k8s.io/reason"],
        },
    }


def test_what_was_sent_and_answered_where_the_policy_wants_it(cluster: Cluster, log: Log) -> None:
    events = "/api/v1/namespaces/default/events"
    sent = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"},
    }
    answer = cluster.post(events, sent)
    event = one(cluster, log, auditID=answer.headers["audit-id"])
    assert (event["level"], event["requestObject"]) == ("RequestResponse", sent)
    assert event["responseObject"] == answer.ok()
    patch = {"metadata": {"labels": {"a": "b"}}}
    answer = cluster.patch(f"{events}/e", patch)
    assert one(cluster, log, auditID=answer.headers["audit-id"])["requestObject"] == patch
    answer = cluster.get(f"{events}/e", Accept="application/yaml")
    event = one(cluster, log, auditID=answer.headers["audit-id"])
    assert "requestObject" not in event
    assert event["responseObject"]["metadata"]["labels"] == {"a": "b"}
    answer = cluster.get(f"{events}/e", Accept="application/vnd.kubernetes.protobuf")
    assert one(cluster, log, auditID=answer.headers["audit-id"])["responseObject"]["metadata"]["name"] == "e"
    large = b"[" + b"[]," * 8_000 + b"]"  # not parsed, and recorded all the same
    answer = cluster.post(events, large, Content_Type="application/yaml")
    assert one(cluster, log, auditID=answer.headers["audit-id"])["requestObject"] == large.decode()
    answer = cluster.post(events, {**sent, "metadata": {"name": "e%", "namespace": "default"}})
    event = one(cluster, log, auditID=answer.headers["audit-id"])
    assert event["responseObject"]["reason"] == event["responseStatus"]["reason"] == "Invalid"
    assert "metadata.name" in event["responseStatus"]["message"]


def test_the_id_of_the_client_is_kept(cluster: Cluster, log: Log) -> None:
    assert cluster.get("/api/v1/namespaces", Audit_ID="mine-1").headers["audit-id"] == "mine-1"
    assert one(cluster, log, auditID="mine-1")["verb"] == "list"
    assert cluster.get("/api/v1/namespaces", Audit_ID="x" * 65).headers["audit-id"] != "x" * 65


def test_impersonation_and_refusal(cluster: Cluster, log: Log) -> None:
    answer = cluster.get(f"{SECRETS}/s", Impersonate_User="eve", Audit_ID="as-eve")
    assert answer.status == 403
    event = one(cluster, log, auditID="as-eve")
    assert event["user"]["username"] == "shoal-admin"
    assert event["impersonatedUser"] == {"username": "eve", "groups": ["system:authenticated"]}
    assert event["objectRef"] == {"resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1"}
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    status = event["responseStatus"]
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "Forbidden", 403)
    assert status["message"].startswith('secrets "s" is forbidden: User "eve" cannot get resource')


def test_a_user_of_the_hub_has_a_name(cluster: Cluster, log: Log) -> None:
    server = cluster.server
    body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "hosted"}}
    uid = cluster.post("/apis/core.shoal.dev/v1alpha1/logicalclusters", body).ok()["metadata"]["uid"]
    core = server.shoal.server.core
    server.call(core.keys.ensure_signing_key("hosted"))
    alice = HubUser("alice", ("developers",))
    token = hub_user_token.issue(core.tokens, "hosted", uid, alice, seconds=600, now=core.clock.now())[0]
    hosted = Cluster(server, "hosted")
    assert hosted.request("GET", CONFIG_MAPS, token=token, Audit_ID="of-alice").status == 403
    event = one(cluster, log, auditID="of-alice")
    assert event["user"]["username"] == "hub:alice"
    assert event["user"]["groups"] == ["hub:developers", "system:authenticated"]
    assert event["annotations"]["shoal.dev/cluster"] == "hosted"
    assert token not in log.path.read_text()
    hosted.close()


def test_nobody_in_particular(cluster: Cluster, log: Log) -> None:
    cluster.request("GET", SECRETS, token="wrong", Audit_ID="stranger")
    event = one(cluster, log, auditID="stranger")
    assert (event["user"], event["responseStatus"]["code"]) == ({}, 401)
    assert "authorization.k8s.io/decision" not in event["annotations"]


def test_a_watch_is_written_down_when_it_ends(cluster: Cluster, log: Log) -> None:
    with cluster.watch(f"{CONFIG_MAPS}?timeoutSeconds=600", Audit_ID="watching") as watch:
        assert watch.answer.status == 200
        assert log.events(auditID="watching") == []
    event = one(cluster, log, auditID="watching")
    assert (event["verb"], event["responseStatus"]["code"]) == ("watch", 200)


def test_nothing_secret_is_written(cluster: Cluster, log: Log) -> None:
    hidden = base64.b64encode(b"the treasure").decode()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"x": hidden}}
    cluster.post(SECRETS, body).ok()
    assert cluster.put(f"{SECRETS}/s", b'{"kind": tresor', Audit_ID="broken").status == 400
    assert "tresor" in cluster.put(f"{SECRETS}/s", b'{"kind": tresor')["message"]
    cluster.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}, Audit_ID="last")
    assert "message" not in one(cluster, log, auditID="broken")["responseStatus"]
    one(cluster, log, auditID="last")
    text = log.path.read_text()
    for word in (hidden, "tresor", "treasure", cluster.server.token, "Bearer"):
        assert word not in text


def test_the_policy_decides(cluster: Cluster, log: Log) -> None:
    cluster.get("/livez", Audit_ID="alive")
    cluster.get("/version", Audit_ID="version")
    event = one(cluster, log, auditID="version")
    assert (event["verb"], "objectRef" in event) == ("get", False)
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert log.events(auditID="alive") == []
    assert not [event for event in log.events() if CONTROLLERS_GROUP in event["user"].get("groups", ())]


def test_the_file_is_private(cluster: Cluster, log: Log) -> None:
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_without_a_log_every_answer_has_an_id_too(server: Server) -> None:
    with closing(Cluster(server, "root")) as plain:
        assert plain.get("/version", Audit_ID="mine").headers["audit-id"] == "mine"
        ids = [plain.get("/version").headers["audit-id"] for _ in range(2)]
        ids.append(plain.get("/version", Audit_ID="x" * 65).headers["audit-id"])
        assert [len(each) for each in ids] == [36, 36, 36]
        assert len(set(ids)) == 3


# --- the policy ---


def policy(*rules: Object, **more: object) -> bytes:
    return yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}).encode()


def asked(**given: Any) -> AuditAttributes:
    usual = {"user": "eve", "groups": ("staff",), "verb": "get", "path": "/api/v1/pods", "is_resource": True}
    return AuditAttributes(**{**usual, "resource": "pods", **given})


PODS = {"group": "", "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rule", "request_", "recorded"),
    [
        ({}, asked(), True),
        ({"users": ["bob"]}, asked(), False),
        ({"userGroups": ["staff", "other"]}, asked(), True),
        ({"verbs": ["list"]}, asked(), False),
        ({"resources": [PODS]}, asked(), True),
        ({"resources": [PODS]}, asked(subresource="log"), False),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, asked(subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, asked(subresource="log"), True),
        ({"resources": [{"group": "apps"}]}, asked(), False),
        ({"resources": [{"group": ""}]}, asked(), True),
        ({"resources": [{**PODS, "resourceNames": ["a"]}]}, asked(name="b"), False),
        ({"resources": [{**PODS, "resourceNames": ["a"]}]}, asked(name="a"), True),
        ({"namespaces": ["x"]}, asked(namespace="x"), True),
        ({"namespaces": ["x"]}, asked(namespace="y"), False),
        ({"nonResourceURLs": ["/api*"]}, asked(), False),
        ({"nonResourceURLs": ["/api*"]}, asked(is_resource=False, path="/apis"), True),
        ({"nonResourceURLs": ["/api"]}, asked(is_resource=False, path="/apis"), False),
        ({"omitStages": ["ResponseComplete"]}, asked(), False),
        ({"omitStages": ["RequestReceived"]}, asked(), True),
    ],
)
def test_rules(rule: Object, request_: AuditAttributes, recorded: bool) -> None:
    found = parse_policy(policy({"level": "Metadata", **rule})).matching_rule(request_)
    assert found.level == ("Metadata" if recorded else "None")


def test_the_first_rule_that_matches_decides() -> None:
    found = parse_policy(policy({"level": "None", "users": ["eve"]}, {"level": "Metadata", "verbs": ["get"]}))
    assert found.matching_rule(asked()).level == "None"
    assert found.matching_rule(asked(user="bob")).level == "Metadata"
    assert found.matching_rule(asked(user="bob", verb="list")).level == "None"


def test_owners_of_fields_are_left_out_where_a_policy_says_so() -> None:
    found = parse_policy(policy({"level": "Request"}, {"level": "Request", "omitManagedFields": False}))
    assert [rule.omit_managed_fields for rule in found.rules] == [False, False]
    found = parse_policy(
        policy({"level": "Request"}, {"level": "Request", "omitManagedFields": False}, omitManagedFields=True)
    )
    assert [rule.omit_managed_fields for rule in found.rules] == [True, False]
    body = b'{"items":[{"metadata":{"name":"a","managedFields":[{}]}}]}'
    assert response_object(Response(200, body), True) == {"items": [{"metadata": {"name": "a"}}]}
    assert response_object(Response(200, body), False)["items"][0]["metadata"]["managedFields"] == [{}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (policy({"level": "metadata"}), r"rules\[0\] has no valid level"),
        (policy(), "has no rules"),
        (b"kind: Policy", r"not a Policy of audit\.k8s\.io/v1"),
        (b"{", "cannot be read"),
        (policy({"level": "None", "verbs": "get"}), r"rules\[0\]\.verbs is not a list of strings"),
        (policy({"level": "None", "resources": [{"group": ""}], "nonResourceURLs": ["/x"]}), "both resources and"),
        (policy({"level": "None", "nonResourceURLs": ["/*/x"]}), r"with a \* before its end"),
        (policy({"level": "None"}, omitStages=["Later"]), 'unknown stage "Later"'),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(AuditPolicyError, match=why):
        parse_policy(text)


# --- the file ---


def names(directory: Path) -> list[str]:
    return sorted(found.name for found in directory.iterdir())


@pytest.mark.anyio
async def test_a_full_file_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditLogBackend(str(path), max_size_mb=1, max_backups=2)
    line = b"x" * (MEGABYTE // 2)
    for _ in range(6):
        file.write(line)
        await asyncio.sleep(0)
    file.close()
    older = [name for name in names(tmp_path) if name != path.name]
    assert len(older) == 2
    assert all(name.startswith("audit-2") and name.endswith(".log") for name in older)
    assert path.read_bytes() == line + b"\n"


@pytest.mark.anyio
async def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("before\n")
    file = AuditLogBackend(str(path))
    file.write(b"after")
    file.close()
    assert path.read_text() == "before\nafter\n"


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(AuditConfigError, match="the audit log cannot be written"):
        open_auditor(AuditConfig(str(tmp_path / "none" / "audit.log")), FakeClock())
    with pytest.raises(AuditConfigError, match="the audit policy cannot be read"):
        open_auditor(AuditConfig(str(tmp_path / "audit.log"), policy_path=tmp_path / "none"), FakeClock())
    assert open_auditor(AuditConfig(), FakeClock()) is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--audit-policy-file", "p"], "--audit-policy-file requires --audit-log-path"),
        (["--audit-log-path", "-", "--audit-log-maxsize", "0"], "--audit-log-maxsize must be at least 1"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], why: str) -> None:
    found = CliRunner().invoke(command, arguments)
    assert found.exit_code == 2
    assert why in found.output
