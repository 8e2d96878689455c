"""Heavy writes: one request never holds the event loop, and the processes that take the weight come and go."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import HANG, Refused, Up
from tests.faults.stalls import STALL, stalls
from tests.serving import DEFINITIONS, WIDGETS, Answer, Cluster, Server, config_map, fresh_cluster, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NOTES = "/apis/example.com/v1/namespaces/default/notes"
YAML = "application/yaml"
LIMIT = 3 * 1024 * 1024

Object = dict[str, Any]


def notes_definition(**schema: object) -> Object:
    """A CRD whose objects hold anything, or what the schema says."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or anything}}
    names = {"kind": "Note", "plural": "notes"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def note(name: str, **fields: object) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": name}, **fields}


def yaml_lists(size: int) -> bytes:
    return b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: [" + b"[]," * (size // 3) + b"]"


def wide(name: str, count: int, value: str = "v") -> Object:
    return config_map(name, {f"k{number}": value for number in range(count)})


def containers(count: int) -> Object:
    listed = [{"name": f"c{number}", "image": "i"} for number in range(count)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": listed}}


def send_yaml_lists(cluster: Cluster) -> Answer:
    return cluster.post(MAPS, yaml_lists(LIMIT - 100), Content_Type=YAML)


def send_yaml_review(cluster: Cluster) -> Answer:
    return cluster.post(REVIEWS, b"spec: [" + b"[]," * (LIMIT // 3 - 10) + b"]", Content_Type=YAML)


def send_yaml_delete_options(cluster: Cluster) -> Answer:
    return cluster.delete(f"{MAPS}/none", b"a: [" + b"[]," * (LIMIT // 3 - 10) + b"]", Content_Type=YAML)


def apply_yaml(cluster: Cluster) -> Answer:
    lines = b"".join(b"  k%d: v\n" % number for number in range(200_000))
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata:\n" + lines
    return cluster.patch(f"{MAPS}/made?fieldManager=m", body, "apply")


def create_pod_of_many_containers(cluster: Cluster) -> Answer:
    return cluster.post(PODS, containers(45_000))


def create_pod_of_nameless_volumes(cluster: Cluster) -> Answer:
    return cluster.post(PODS, {**containers(1), "spec": {**containers(1)["spec"], "volumes": [{}] * 340_000}})


def create_definition_of_empty_versions(cluster: Cluster) -> Answer:
    definition = notes_definition()
    return cluster.post(DEFINITIONS, {**definition, "spec": {**definition["spec"], "versions": [{}] * 9_000}})


def create_definition_of_empty_columns(cluster: Cluster) -> Answer:
    definition = notes_definition()
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = [{}] * 340_000
    return cluster.post(DEFINITIONS, definition)


def create_large_definition(cluster: Cluster) -> Answer:
    fields = {f"p{number}": {"type": "string"} for number in range(45_000)}
    return cluster.post(DEFINITIONS, notes_definition(type="object", properties=fields))


def claim_a_volume_by_many_labels(cluster: Cluster) -> Answer:
    selector = {"matchLabels": {f"k{number}": "" for number in range(80_000)}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "selector": selector}
    return cluster.post("/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})


def force_apply(cluster: Cluster) -> Answer:
    cluster.patch(f"{MAPS}/w?fieldManager=m", wide("w", 35_000), "apply").ok()
    return cluster.patch(f"{MAPS}/w?fieldManager=n&force=true", wide("w", 35_000, "w"), "apply")


REQUESTS: dict[str, tuple[Callable[[Cluster], Answer], tuple[int, ...]]] = {
    "yaml-lists": (send_yaml_lists, (400, 504)),
    "yaml-review": (send_yaml_review, (413,)),
    "yaml-delete-options": (send_yaml_delete_options, (413,)),
    "yaml-apply": (apply_yaml, (413, 504)),
    "pod-of-many-containers": (create_pod_of_many_containers, (413, 504)),
    "pod-of-nameless-volumes": (create_pod_of_nameless_volumes, (422,)),
    "definition-of-empty-versions": (create_definition_of_empty_versions, (422,)),
    "definition-of-empty-columns": (create_definition_of_empty_columns, (422,)),
    "large-definition": (create_large_definition, (201,)),
    "claim-by-many-labels": (claim_a_volume_by_many_labels, (422,)),
    "apply-by-another": (force_apply, (200,)),
}


@pytest.fixture
def whole(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, "cluster")
    yield cluster
    cluster.close()


@pytest.mark.parametrize("name", REQUESTS)
def test_a_heavy_write_does_not_hold_the_loop(whole: Cluster, bystander: Cluster, name: str) -> None:
    send, accepted = REQUESTS[name]
    with stalls(whole.server) as found:
        answer = send(whole)
    assert answer.status in accepted, answer.body[:500]
    assert found.longest < STALL
    assert bystander.get("/api/v1/namespaces/default").ok()


def test_a_patch_of_a_large_object_does_not_hold_the_loop(server: Server) -> None:
    cluster = fresh_cluster(server)
    cluster.post(DEFINITIONS, notes_definition()).ok()
    deep: Object = {}
    for _ in range(200):
        deep = {"a": deep}
    cluster.post(NOTES, note("n", deep=[deep] * 1200)).ok()
    with stalls(server) as found:
        for kind, body in (("merge", {"x": 1}), ("json", [{"op": "add", "path": "/y", "value": 1}])):
            cluster.patch(f"{NOTES}/n", body, kind).ok()
        after = cluster.patch(f"{NOTES}/n?fieldManager=m", note("n", z=1), "apply").ok()
    assert found.longest < STALL
    assert (after["x"], after["y"], after["z"], len(after["deep"])) == (1, 1, 1, 1200)
    cluster.close()


def test_aliases_do_not_expand_without_bound(cluster: Cluster) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    body = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: a}", *lines]).encode()
    for padded in (body, body + b"\n#" + b"x" * 50_000):
        with stalls(cluster.server) as found:
            answer = cluster.post(MAPS, padded, Content_Type=YAML)
        assert answer.status == 400
        assert "yaml: document contains excessive aliasing" in answer["message"]
        assert found.longest < STALL


def test_an_object_is_at_most_a_megabyte_and_a_half(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, notes_definition()).ok()
    limit = 1536 * 1024
    too_large = (413, "Request entity too large: limit is 1572864")
    for query in ("", "?dryRun=All"):
        answer = cluster.post(NOTES + query, note("n", text="x" * limit))
        assert (answer.status, answer["message"]) == too_large
    cluster.post(NOTES, note("n", text="x" * (limit - 2000))).ok()
    answer = cluster.patch(f"{NOTES}/n", {"more": "x" * 4000})
    assert (answer.status, answer["message"]) == too_large
    cluster.patch(f"{NOTES}/n", {"metadata": {"finalizers": ["example.com/f"]}}).ok()
    cluster.delete(f"{NOTES}/n").ok()
    cluster.patch(f"{NOTES}/n", {"metadata": {"finalizers": None}}).ok()
    assert cluster.get(f"{NOTES}/n").status == 404


def test_the_answer_to_many_errors_is_bounded(cluster: Cluster) -> None:
    with stalls(cluster.server) as found:
        answer = cluster.post(MAPS, config_map("n", labels={f"-{number}": "-" for number in range(100_000)}))
    assert answer.status == 422
    listed = len(answer["details"]["causes"])
    assert listed <= 1000
    assert answer["message"].endswith(f", and {200_000 - listed} more errors]")
    assert found.longest < STALL


def with_errors(count: int) -> Object:
    return {**containers(1), "spec": {**containers(1)["spec"], "volumes": [{}] * count}}


def with_annotations(count: int) -> Object:
    """More than 256 KiB are one error; more than 1.5 MiB cannot be stored."""
    annotations = {f"example.com/k{number}": "v" for number in range(count)}
    return {**containers(1), "metadata": {"name": "p", "annotations": annotations}}


@pytest.mark.parametrize(
    ("small", "large"),
    [(with_errors(90), with_errors(9_000)), (with_annotations(20_000), with_annotations(80_000))],
    ids=["errors", "bytes"],
)
def test_admission_sees_what_a_webhook_may_mend_and_no_other_refusal(
    whole: Cluster, small: Object, large: Object
) -> None:
    """An object with hundreds of errors, or one that is invalid and too large to be stored, is refused before built-in
    admission, unless a webhook will see it.
    """
    url = {"url": "https://127.0.0.1:1/mend"}
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    hook = {"name": "a.example.com", "clientConfig": url, "rules": rules, "sideEffects": "None"}
    body = {"metadata": {"name": "a"}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}]}
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    whole.post(QUOTAS, quota).ok()
    whole.eventually(lambda: "exceeded quota" in whole.post(PODS, containers(1))["message"])
    assert "exceeded quota" in whole.post(PODS, small)["message"]
    assert whole.post(PODS, large).status == 422
    whole.delete(f"{QUOTAS}/none").ok()
    whole.post(WEBHOOKS.replace("validating", "mutating"), body).ok()

    def is_called() -> bool:
        return "failed calling webhook" in whole.post(PODS, large)["message"]

    deadline = time.monotonic() + HANG
    while not is_called():
        assert time.monotonic() < deadline


def test_a_process_that_is_killed_in_a_task_is_replaced(cluster: Cluster) -> None:
    pool, answers = cluster.server.shoal.server.core.processes, []
    client = Cluster(cluster.server, cluster.name)
    body = wide("w", 40_000)
    thread = threading.Thread(target=lambda: answers.append(client.post(MAPS, body)))
    completed = pool.outcomes["completed"]
    thread.start()
    cluster.eventually(lambda: bool(pool.busy))
    os.kill(next(iter(pool.busy)).pid, signal.SIGKILL)
    thread.join(HANG)
    assert [answer.status for answer in answers] == [201]
    assert pool.outcomes["completed"] == completed + 1
    client.close()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_no_process_is_left_when_the_server_ends(tmp_path: Path, how: str) -> None:
    up = Up(tmp_path / "data", "--workers", "0")
    assert children(up.pid) == []  # an idle server has none
    up.client().request("POST", MAPS, config_map("large", {"k": "v" * 100_000}))
    started = children(up.pid)
    assert len(started) == 1
    # In the middle of a task.
    client, body = up.client(), wide("wide", 150_000)

    def send() -> None:
        with suppress(OSError, HTTPException, Refused):
            client.request("POST", MAPS, body)

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.5)
    getattr(up, how)()
    thread.join(HANG)
    end = time.monotonic() + HANG
    while any(map(is_running, started)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, started))
    up.close()


def test_a_large_schema_is_compiled_elsewhere(cluster: Cluster) -> None:
    rules = [{"rule": f"self != 'a{number}'"} for number in range(10)]
    text = {"type": "string", "maxLength": 9, "pattern": "^[a-z0-9]+$", "x-kubernetes-validations": rules}
    fields = {f"p{number}": text for number in range(2_000)}
    spec = {"type": "object", "properties": fields}
    cluster.post(DEFINITIONS, notes_definition(type="object", properties={"spec": spec})).ok()
    with stalls(cluster.server) as found:
        cluster.post(NOTES, note("n", spec={"p1": "b"})).ok()
        refused = cluster.post(NOTES, note("o", spec={"p1": "a1", "p2": "B"}))
    assert refused.status == 422
    assert found.longest < STALL


def test_a_policy_of_many_expressions_does_not_hold_the_loop(whole: Cluster) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    validations = [{"expression": f"object.spec.nope < {number}"} for number in range(20_000)]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    with stalls(whole.server) as found:
        made = whole.post(path, {"metadata": {"name": "p"}, "spec": spec}).ok()
    assert found.longest < STALL
    warnings = made["status"]["typeChecking"]["expressionWarnings"]
    assert warnings[0]["fieldRef"] == "spec.validations[0].expression"
    assert len(warnings) < 1_000


def test_many_missing_owners_do_not_hold_the_loop(whole: Cluster) -> None:
    """The garbage collector asks for each of them."""
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{i}", "uid": f"u{i}"} for i in range(9_000)]
    with stalls(whole.server) as found:
        made = whole.post(MAPS, config_map("owned", ownerReferences=owners)).ok()
        whole.eventually(lambda: whole.get(f"{MAPS}/owned").status == 404)
    assert made["metadata"]["name"] == "owned"
    assert found.longest < STALL


def test_defaults_of_list_elements_do_not_multiply_without_bound(server: Server) -> None:
    """Nine kilobytes of empty elements, each of which gets five kilobytes."""
    cluster = fresh_cluster(server)
    fields = {f"field{number}": {"type": "string", "default": "x" * 50} for number in range(100)}
    elements = {"type": "array", "items": {"type": "object", "properties": fields}}
    schema = {"type": "object", "properties": {"elements": elements}}
    cluster.post(DEFINITIONS, widget_definition(schema={"openAPIV3Schema": schema})).ok()
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "many"}}
    answer = cluster.post(WIDGETS, {**body, "elements": [{}] * 3000})
    assert answer.status == 413
    assert answer["message"] == "Request entity too large: the defaults of its kind add more than 3145728 bytes"
    made = cluster.post(WIDGETS, {**body, "elements": [{}] * 100}).ok()
    assert len(made["elements"][99]) == 100
    cluster.close()


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": [{}] * 9_000}},
        {
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "a"},
            "webhooks": [{}] * 9_000,
        },
    ],
    ids=lambda body: str(body["kind"]),
)
def test_a_small_body_of_many_elements_is_heavy(whole: Cluster, body: dict[str, Any]) -> None:
    path = "/api/v1/nodes" if body["kind"] == "Node" else WEBHOOKS
    outcomes = whole.server.shoal.server.core.processes.outcomes
    before = outcomes["completed"]
    assert len(json.dumps(body, separators=(",", ":"))) < 32 * 1024
    assert whole.post(path, json.dumps(body, separators=(",", ":")).encode()).status == 422
    assert outcomes["completed"] == before + 1
