"""The Grafana dashboard and the alerts query only served metrics, and every alert is documented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import shoal.apiserver.webhooks.metrics
import shoal.client.metrics
import shoal.controlplane.scheduler.metrics
import shoal.fleet.metrics
import shoal.provision.metrics
import shoal.runtime.metrics
import shoal.sync.metrics
from shoal.telemetry.metrics import Metric
from tests.serving import Cluster, Server

ROOT = Path(__file__).parent.parent.parent
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "shoal.json").read_text())
ALERTS = [rule for group in yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())["groups"]
          for rule in group["rules"]]  # fmt: skip
FUNCTIONS = {"sum", "avg", "max", "rate", "topk", "histogram_quantile", "by", "label_values"}
PARTS = [
    *shoal.apiserver.webhooks.metrics._ALL,
    *shoal.client.metrics._ALL,
    *shoal.controlplane.scheduler.metrics._ALL,
    *shoal.fleet.metrics._METRICS,
    *shoal.provision.metrics._ALL,
    *shoal.runtime.metrics._ALL,
    shoal.sync.metrics.CLUSTER_STATES,
]
"""Those of `assemble.telemetry`, some of which show nothing before something happens."""


def queried_metrics(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Returns each metric of an expression, with the labels it selects or groups by."""
    grouped = {label for found in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", found)}
    bare = re.sub(r"by \([^)]*\)|\[[^]]*\]", " ", expression)
    for name, matchers in re.findall(r"([a-z_]\w*)(\{[^}]*\})?", re.sub(r'"[^"]*"', '""', bare)):
        if name not in FUNCTIONS:
            yield name, grouped | set(re.findall(r"(\w+)\s*[=!]", matchers))


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]


def served_metrics(text: str) -> dict[str, set[str]]:
    """Returns label names by series name, of metrics a server has and those it could have."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z]\w*)(\{.*\})? \S+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    for meter in PARTS:
        assert isinstance(meter, Metric)
        for suffix in ("_bucket", "_sum", "_count") if meter.kind == "histogram" else ("",):
            found.setdefault(meter.name + suffix, set()).update({*meter.labels, "cluster", "le"})
    return found


@pytest.fixture(scope="module")
def shown(server: Server) -> dict[str, set[str]]:
    root = Cluster(server, "root")
    root.post("/api/v1/namespaces", {"metadata": {"generateName": "seen-"}}).ok()
    text = root.get("/metrics").body.decode()
    root.close()
    return served_metrics(text)


@pytest.mark.parametrize(("title", "expression"), [*expressions()], ids=lambda value: str(value)[:40])
def test_what_is_asked_for_is_served(title: str, expression: str, shown: dict[str, set[str]]) -> None:
    found = list(queried_metrics(expression))
    assert found, expression
    for name, labels in found:
        assert name in shown, f"{title}: {name} is not served"
        assert labels - {"instance"} <= shown[name], f"{title}: {name} has the labels {sorted(shown[name])}"
    assert expression.count("(") == expression.count(")")


def test_a_metric_that_is_not_served_would_be_found(shown: dict[str, set[str]]) -> None:
    [(name, labels)] = queried_metrics('sum by (le) (rate(apiserver_made_up_total{code=~"5.."}[5m]))')
    assert (name, labels) == ("apiserver_made_up_total", {"le", "code"})
    assert name not in shown


def test_the_dashboard_is_one_grafana_takes() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    page, _, heading = rule["annotations"]["runbook"].partition("#")
    headings = {line.lstrip("# ").strip().lower() for line in (ROOT / page).read_text().splitlines() if line[:1] == "#"}
    assert heading == rule["alert"].lower()
    assert heading in headings
