"""Metrics: format, that each is updated, and a scrape of a running server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shoal.provision
from shoal.provision import metrics
from shoal.telemetry.metrics import Counter, Gauge, Histogram, MetricFunc, render_text
from tests.provision.hosted import DEPLOYMENTS, Hosted, deployment
from tests.serving import Cluster


def test_the_form_of_counters_gauges_and_histograms() -> None:
    made = Counter("made_total", "Things made.", ("kind",))
    made.inc("", kind="a")
    made.inc("team.east", by=2, kind='b"\n')
    left = Gauge("left", "Things left.")
    left.set("", 2.5)
    took = Histogram("took_seconds", "Time.", ("kind",), (0.1, 1))
    for seconds in (0.1, 0.5, 7.0):
        took.observe("", seconds, kind="a")
    seen = MetricFunc("seen", "Looked up.")
    with seen.registration(lambda: [("team.east", {}, 1.0)]), seen.registration(lambda: [("team.west", {}, 2.0)]):
        lines = render_text([seen, took, made, left, Gauge("never", "Set.")])
    assert list(seen.render()) == []
    assert lines == [
        "# HELP left Things left.",
        "# TYPE left gauge",
        "left 2.5",
        "# HELP made_total Things made.",
        "# TYPE made_total counter",
        'made_total{kind="a"} 1',
        'made_total{cluster="team.east",kind="b\\"\\n"} 2',
        "# HELP seen Looked up.",
        "# TYPE seen gauge",
        'seen{cluster="team.east"} 1',
        'seen{cluster="team.west"} 2',
        "# HELP took_seconds Time.",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{kind="a",le="0.1"} 1',
        'took_seconds_bucket{kind="a",le="1"} 2',
        'took_seconds_bucket{kind="a",le="+Inf"} 3',
        'took_seconds_sum{kind="a"} 7.6',
        'took_seconds_count{kind="a"} 3',
    ]
    assert (made.value("", kind="a"), took.count("", kind="a")) == (1.0, 3)


def test_labels_are_given_all_and_no_others() -> None:
    made = Counter("made_total", "Things made.", ("kind", "zone"))
    with pytest.raises(TypeError, match="made_total has the labels"):
        made.inc("", kind="a")
    with pytest.raises(KeyError):
        made.inc("", kind="a", size="b")


def test_what_is_gone_is_forgotten() -> None:
    left = Gauge("left", "Things left.", ("nodepool", "reason"))
    for pool in ("a", "b"):
        left.set("x", 1, nodepool=pool, reason="Empty")
    left.set("y", 1, nodepool="a", reason="Empty")
    left.delete_partial_match("x", {"nodepool": "a"})
    left.delete_partial_match("x", {"zone": "a"})
    assert list(left.render()) == [
        'left{cluster="x",nodepool="b",reason="Empty"} 1',
        'left{cluster="y",nodepool="a",reason="Empty"} 1',
    ]


def test_each_metric_is_fed() -> None:
    names = [
        name for name, meter in vars(metrics).items() if isinstance(meter, Counter | Gauge | Histogram | MetricFunc)
    ]
    folder = Path(shoal.provision.__file__).parent
    sources = [path.read_text() for path in folder.rglob("*.py") if path != Path(metrics.__file__)]
    unfed = [name for name in names if not any(re.search(rf"\b{name}\b", text) for text in sources)]
    assert unfed == []


def _shown(cluster: Cluster, *wanted: str) -> bool:
    text = cluster.get("/metrics").body.decode()
    return all(each in text for each in wanted)


def test_a_scrape_tells_of_nodes_and_pools(hosted: Hosted, cluster: Cluster) -> None:
    hosted.pool(limits={"cpu": "100"}, disruption={"consolidateAfter": "Never"})
    wanted = deployment("web", 2)
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "600m"}
    hosted.cluster.post(DEPLOYMENTS, wanted).ok()
    hosted.running(2)
    name = hosted.cluster.name
    hosted.eventually(
        lambda: _shown(
            hosted.root,
            f'karpenter_nodes_created_total{{cluster="{name}",nodepool="default",zone="embedded-a"}} 1',
            f'karpenter_nodepools_usage{{cluster="{name}",nodepool="default",resource_type="cpu"}} 2',
            f'karpenter_nodepools_limit{{cluster="{name}",nodepool="default",resource_type="cpu"}} 100',
            f'karpenter_nodepools_cost_total{{cluster="{name}",nodepool="default"}} 0.04',
            f'shoal_provision_node_cost{{cluster="{name}",node_name="',
            '",nodepool="default"} 0.04',
            f'karpenter_cluster_state_node_count{{cluster="{name}"}} 1',
            f'karpenter_cluster_utilization_percent{{cluster="{name}",resource_type="cpu"}} 50',
            f'karpenter_pods_startup_duration_seconds_count{{cluster="{name}"}} 2',
            "karpenter_cluster_state_synced 1",
            "karpenter_cluster_state_unsynced_time_seconds 0",
            f'karpenter_nodes_total_pod_limits{{cluster="{name}",node_name="',
            f'karpenter_nodepools_nodes_consuming_budgets{{cluster="{name}",nodepool="default",reason="Empty"}} 0',
            'method="Create",provider="clusterapi"} ',
        )
    )
    own = hosted.cluster.get("/metrics").body.decode()
    assert f'karpenter_cluster_state_node_count{{cluster="{name}"}} 1' in own
    assert len(set(re.findall('cluster="([^"]*)"', own))) == 1, "a cluster is told of itself alone"
    assert name not in cluster.get("/metrics").body.decode()
