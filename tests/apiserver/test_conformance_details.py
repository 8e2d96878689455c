"""Details of upstream's server that its conformance specs check."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import DEFINITIONS, Cluster, Server, config_map, fresh_cluster, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture
def full(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def test_a_builtin_has_a_status_from_the_start(full: Cluster) -> None:
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    made = full.post(INGRESSES, {"metadata": {"name": "i"}, "spec": spec}).ok()
    assert "status" in made
    patch = [{"op": "add", "path": "/status/loadBalancer", "value": {"ingress": [{"ip": "169.1.1.1"}]}}]
    patched = full.patch(f"{INGRESSES}/i/status", patch, kind="json").ok()
    assert patched["status"]["loadBalancer"]["ingress"] == [{"ip": "169.1.1.1"}]


def test_a_status_of_a_builtin_may_bring_annotations_but_no_spec(full: Cluster) -> None:
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    full.post(INGRESSES, {"metadata": {"name": "i"}, "spec": spec}).ok()
    patch = {"metadata": {"annotations": {"a": "b"}}, "spec": {"ingressClassName": "other"}}
    patched = full.patch(f"{INGRESSES}/i/status", patch).ok()
    assert patched["metadata"]["annotations"] == {"a": "b"}
    assert "ingressClassName" not in patched["spec"]


def test_where_an_object_was_seen_is_not_written(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", annotations={"shoal.dev/cluster": "elsewhere", "x": "y"})).ok()
    assert cluster.get(f"{MAPS}/a").ok()["metadata"]["annotations"] == {"x": "y"}
    cluster.put(f"{MAPS}/a", config_map("a", annotations={"shoal.dev/cluster": "elsewhere"})).ok()
    assert "annotations" not in cluster.get(f"{MAPS}/a").ok()["metadata"]


def test_an_event_without_a_source_has_its_reporter(cluster: Cluster) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2024-01-02T03:04:05.000000Z",
        "regarding": {"namespace": "default"},
        "reportingController": "builder",
        "reportingInstance": "builder-1",
        "action": "Do",
        "reason": "Test",
        "type": "Normal",
    }
    cluster.post(path, event).ok()
    core = "/api/v1/namespaces/default/events?fieldSelector=source"
    assert len(cluster.get(f"{core}=builder").ok()["items"]) == 1
    assert cluster.get(f"{core}=other").ok()["items"] == []
    assert len(cluster.get(f"{path}?fieldSelector=reportingController=builder").ok()["items"]) == 1


def test_complaints_about_a_builtin_come_in_the_order_of_its_text(cluster: Cluster) -> None:
    body = b'{"metadata":{"name":"a"},"more":1,"data":{"k":"1","k":"2"},"last":{}}'
    answer = cluster.post(f"{MAPS}?fieldValidation=Strict", body)
    assert answer["message"].endswith(
        'strict decoding error: unknown field "more", duplicate field "data.k", unknown field "last"'
    )


def test_swagger_names_nothing_of_a_kind_that_takes_everything(cluster: Cluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    cluster.post(DEFINITIONS, widget_definition(schema=schema, additionalPrinterColumns=[], subresources={})).ok()
    found = cluster.get("/openapi/v2").ok()["definitions"]["com.example.v1.Widget"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert found == {"type": "object", "x-kubernetes-group-version-kind": [kind]}


def test_servers_behind_this_one_are_refused(full: Cluster) -> None:
    spec = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    assert full.post(SERVICES, {"metadata": {"name": "v1.g.example.com"}, "spec": spec}).status == 201
    spec["service"] = {"name": "s", "namespace": "default"}
    answer = full.post(SERVICES, {"metadata": {"name": "v1.h.example.com"}, "spec": spec})
    assert answer.status == 422
    assert "spec.service: Forbidden: aggregated API servers are not supported" in answer["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("invalid", 'time: invalid duration "invalid"'),
        ("60", 'time: missing unit in duration "60"'),
        ("1h5x", 'time: unknown unit "x" in duration "1h5x"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
    ],
)
def test_a_timeout_that_is_no_duration(cluster: Cluster, text: str, said: str) -> None:
    for path in ("/version", MAPS):
        answer = cluster.get(f"{path}?timeout={text}")
        assert (answer.status, answer["reason"]) == (400, "BadRequest")
        assert answer["message"] == f"invalid timeout specified in the request URL - {said}"


def test_a_timeout_is_kept_where_it_is_shorter_than_the_servers_own(cluster: Cluster) -> None:
    for text in ("0", "0s", "-5s", "3m", "1h2m3.5s", "500ms"):
        cluster.get(f"{MAPS}?timeout={text}").ok()
    cluster.post(f"{MAPS}?timeout=30s", config_map("in-time")).ok()
    answer = cluster.post(f"{MAPS}?timeout=1ns", config_map("late"))
    assert (answer.status, answer["reason"]) == (504, "Timeout")
    said = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    assert answer["message"] == said
