"""Metrics in Prometheus text format under upstream's names, and which user sees which."""

from __future__ import annotations

import re

import pytest

from shoal.apiserver.metrics.requests import (
    MAX_SERIES,
    OVERFLOW_LABELS,
    APIServerMetrics,
    RequestLabels,
    request_labels_of,
)
from shoal.apiserver.request.info import parse_path
from shoal.objects.wire import Request
from tests.serving import Cluster, Server, fresh_cluster

LABELS: RequestLabels = ("GET", "", "v1", "pods", "", "resource")


def test_a_request_is_counted_and_timed() -> None:
    metrics = APIServerMetrics()
    metrics.observe(LABELS, 200, 0.02)
    metrics.observe(LABELS, 200, 0.3)
    text = metrics.render().decode()
    named = 'verb="GET",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver"'
    assert f'apiserver_request_total{{{named},code="200"}} 2\n' in text
    assert f'apiserver_request_duration_seconds_bucket{{{named},le="0.025"}} 1\n' in text
    assert f'apiserver_request_duration_seconds_bucket{{{named},le="+Inf"}} 2\n' in text
    assert f"apiserver_request_duration_seconds_sum{{{named}}} 0.32\n" in text


def test_a_watch_is_counted_and_not_timed() -> None:
    metrics = APIServerMetrics()
    metrics.observe(("WATCH", *LABELS[1:]), 200, 0.0)
    text = metrics.render().decode()
    assert 'apiserver_request_total{verb="WATCH"' in text
    assert "apiserver_request_duration_seconds_count" not in text


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "scope"),
    [
        ("GET", "/api/v1/namespaces/a/pods/b", "", "GET", "resource"),
        ("GET", "/api/v1/namespaces/a/pods", "limit=500", "LIST", "namespace"),
        ("GET", "/api/v1/pods", "watch=true&resourceVersion=1", "WATCH", "cluster"),
        ("GET", "/api/v1/watch/namespaces/default/pods", "", "WATCH", "namespace"),
        ("GET", "/api/v1/pods", "watch=0", "LIST", "cluster"),
        ("POST", "/api/v1/namespaces/a/pods", "", "POST", "namespace"),
        ("PATCH", "/api/v1/namespaces/a/pods/b", "", "APPLY", "resource"),
        ("DELETE", "/api/v1/namespaces/a/pods", "", "DELETECOLLECTION", "namespace"),
        ("DELETE", "/api/v1/namespaces/a/pods/b", "", "DELETE", "resource"),
    ],
)
def test_verbs_are_called_as_upstream_calls_them(method: str, path: str, query: str, verb: str, scope: str) -> None:
    request = Request(method, path, query, {"content-type": "application/apply-patch+yaml"})
    assert request_labels_of(request, parse_path(path)) == (verb, "", "v1", "pods", "", scope)


def test_invented_paths_do_not_grow_without_bound() -> None:
    metrics = APIServerMetrics()
    for number in range(MAX_SERIES + 500):
        metrics.observe(("GET", "", "v1", f"made-up-{number}", "", "resource"), 404, 0.0)
        metrics.store_histogram("create", f"g/made-up-{number}").observe(0.0)
    text = metrics.render().decode()
    assert text.count("apiserver_request_duration_seconds_count{") == MAX_SERIES + 1
    assert text.count("etcd_request_duration_seconds_count{") == MAX_SERIES + 1
    assert f'verb="{OVERFLOW_LABELS[0]}"' in text


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    metrics = APIServerMetrics()
    metrics.observe(("GET", "", "v1", 'a"b\\c\nd', "", "resource"), 404, 0.0)
    assert 'resource="a\\"b\\\\c\\nd"' in metrics.render().decode()


def test_metrics_are_served(server: Server) -> None:
    root = Cluster(server, "root")
    root.post("/api/v1/namespaces", {"metadata": {"generateName": "measured-"}}).ok()
    answer = root.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.body.decode()
    for line in (
        r'apiserver_request_total\{verb="POST",group="",version="v1",resource="namespaces",.*code="201"\} \d+',
        r'etcd_request_duration_seconds_count\{operation="create",group="",resource="namespaces"\} \d+',
        r'apiserver_storage_objects\{resource="namespaces"\} \d+',
        r'apiserver_resource_objects\{group="core.shoal.dev",resource="logicalclusters"\} \d+',
        r'apiserver_longrunning_requests\{verb="WATCH",group="",resource="namespaces",component="apiserver"\} \d+',
        r'apiserver_watch_events_total\{group="",resource="namespaces"\} \d+',
        r'apiserver_current_inflight_requests\{request_kind="mutating"\} \d+',
        r'workqueue_adds_total\{name="namespaces"\} \d+',
        r'workqueue_depth\{name="namespaces"\} \d+',
        r'workqueue_queue_duration_seconds_count\{name="serviceaccounts"\} \d+',
        r'apiserver_storage_size_bytes\{storage_cluster_id="sqlite"\} [1-9]\d*',
        r"process_cpu_seconds_total [\d.]+",
        r"shoal_store_revision \d+",
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE), line
    root.close()


def test_each_metric_has_one_type_and_no_series_twice(server: Server) -> None:
    root = Cluster(server, "root")
    lines = root.get("/metrics").body.decode().splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    for name in {re.sub(r"[{].*", "", one) for one in series}:
        assert name in types or name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") in types, name
    root.close()


def test_a_hosted_cluster_is_told_of_itself_alone(server: Server) -> None:
    """What others ask for, how their kinds are called and how busy the process is are no business of a tenant."""
    mine, other = fresh_cluster(server), fresh_cluster(server)
    for number in range(3):
        mine.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"mine-{number}"}}).ok()
    other.get("/apis/secret-project.example.com/v1/plans")
    text = mine.get("/metrics").body.decode()
    assert 'apiserver_storage_objects{resource="configmaps"} 3\n' in text
    for word in (
        "secret-project",
        "apiserver_request_total",
        "workqueue",
        "process_",
        "rest_client",
        "shoal_store",
        "shoal_watchers",
    ):
        assert word not in text
    assert f'shoal_logical_cluster_objects{{cluster="{mine.name}"}} 3\n' in text
    assert f'cluster="{other.name}"' not in text
    assert "shoal_" not in re.sub("shoal_logical_cluster_", "", text)
    assert 'resource="configmaps"' not in other.get("/metrics").body.decode()
    mine.close()
    other.close()
