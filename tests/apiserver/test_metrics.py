"""Counters in Prometheus' text form."""

from __future__ import annotations

from shoal.apiserver.metrics import MOST_SERIES, OTHERS, Metrics
from tests.serving import Cluster

LABELS = ("GET", "", "v1", "pods", "")


def test_a_request_is_counted_and_timed() -> None:
    metrics = Metrics()
    metrics.observe(LABELS, 200, 0.02)
    metrics.observe(LABELS, 200, 0.3)
    text = metrics.render().decode()
    named = 'verb="GET",group="",version="v1",resource="pods",subresource=""'
    assert f'apiserver_request_total{{{named},code="200"}} 2\n' in text
    assert f'apiserver_request_duration_seconds_bucket{{{named},le="0.025"}} 1\n' in text
    assert f'apiserver_request_duration_seconds_bucket{{{named},le="+Inf"}} 2\n' in text
    assert f"apiserver_request_duration_seconds_sum{{{named}}} 0.320000\n" in text


def test_invented_paths_do_not_grow_without_bound() -> None:
    metrics = Metrics()
    for number in range(MOST_SERIES + 500):
        metrics.observe(("GET", "", "v1", f"made-up-{number}", ""), 404, 0.0)
    text = metrics.render().decode()
    assert text.count("_count{") == MOST_SERIES + 1
    assert f'verb="{OTHERS[0]}"' in text


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    metrics = Metrics()
    metrics.observe(("GET", "", "v1", 'a"b\\c\nd', ""), 404, 0.0)
    assert 'resource="a\\"b\\\\c\\nd"' in metrics.render().decode()


def test_metrics_are_served(cluster: Cluster) -> None:
    cluster.get("/api/v1/namespaces").ok()
    answer = cluster.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert b'apiserver_request_total{verb="GET",group="",version="v1",resource="namespaces"' in answer.body
    assert b"shoal_store_revision " in answer.body
