"""The dashboard in Chromium on a `shoal up` that lives through the story of the README: replicas, bought nodes and what
they cost, events, a login that is withdrawn, and a hub that is killed and started again.

`web/browser/living.mjs` does what a person would do and reports it; here it is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.browser.driving import Reports, browser, drive
from tests.story.api import eventually
from tests.story.fleets import HUB, Fleet
from tests.story.story import DEPLOYMENTS, EXAMPLES, MANAGED, Story

Object = dict[str, Any]

pytestmark = pytest.mark.browser

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PLACEMENTS = "/apis/placement.shoal.dev/v1alpha1/namespaces/default/placements"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
PATHS = {
    "ServiceAccount": ACCOUNTS,
    "ClusterRole": f"{ROLES}/clusterroles",
    "ClusterRoleBinding": f"{ROLES}/clusterrolebindings",
}


def placement() -> Object:
    """Three times as many in the east."""
    selects = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"}]
    weights = [{"clusters": {"names": ["east"]}, "weight": 3}]
    return {
        "apiVersion": "placement.shoal.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": "mostly-east"},
        "spec": {"priority": 10, "selects": selects, "replicas": {"by": "Weight", "weights": weights}},
    }


def deployment(name: str, replicas: int) -> Object:
    labels = {"app": name}
    container = {"name": name, "image": f"registry.example/{name}:1", "resources": {"requests": {"cpu": "250m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def viewer(story: Story) -> str:
    """A token by the example of the page."""
    for obj in yaml.safe_load_all((EXAMPLES / "dashboard-viewer.yaml").read_text()):
        story.hub.apply(f"{PATHS[obj['kind']]}/{obj['metadata']['name']}", obj)
    token: str = story.hub.request("POST", f"{ACCOUNTS}/viewer/token", {"spec": {}})["status"]["token"]
    return token


def live(story: Story) -> None:
    for step in ("clusters", "node_pools", "deployment", "scale"):
        story.live(step)
    story.hub.request("POST", PLACEMENTS, placement())
    story.hub.request("POST", DEPLOYMENTS, deployment("checkout", 8))

    def placed() -> bool:
        return [story.ready(name) for name in ("checkout", "checkout--east", "checkout--west")] == [8, 6, 2]

    eventually(placed, story.picture)
    story.hub.apply(f"{MANAGED}/moon", {**CLUSTER, "metadata": {"name": "moon"}, "spec": {"location": "moon"}})


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    browser()
    directory = tmp_path_factory.mktemp("living")
    fleet = Fleet(directory, apart=False)
    try:
        story = Story(fleet)
        live(story)
        yield drive("living.mjs", environment(story), deeds(story))
        story.close()
    finally:
        fleet.close()


def environment(story: Story) -> dict[str, str]:
    up = story.fleet.processes[HUB]
    return {
        "SHOAL_URL": f"https://127.0.0.1:{up.port}",
        "SHOAL_TOKEN": up.token,
        "SHOAL_VIEWER_TOKEN": viewer(story),
        "SHOAL_KUBECONFIG": str(story.fleet.data(HUB) / "kubeconfig"),
    }


def deeds(story: Story) -> dict[str, Any]:
    fleet, hub = story.fleet, story.hub
    return {
        "withdraw": lambda: hub.delete(f"{ACCOUNTS}/viewer"),
        "kill": lambda: fleet.processes[HUB].kill(),
        "start": lambda: fleet.start(HUB),
        "more": lambda: hub.apply(f"{MANAGED}/north", {**CLUSTER, "metadata": {"name": "north"}, "spec": {}}),
    }


def test_replicas_are_shown_by_cluster_and_placement(reports: Reports) -> None:
    shown = reports.one("placement")
    checkout, web = (" ".join(card.split()) for card in shown["cards"])
    assert "default/checkout Deployment" in checkout
    assert "by mostly-east" in checkout
    assert "8 of 8 ready" in checkout
    assert "east 6/6" in checkout
    assert "west 2/2" in checkout
    assert "60 of 60 ready" in web
    assert "evenly, without a Placement" in web
    assert "east 30/30" in web
    assert ["default/mostly-east" in rule and "Valid" in rule for rule in shown["rules"]] == [True]


def test_nodes_have_their_use_and_cost_beside_the_bound(reports: Reports) -> None:
    shown = reports.one("nodes")
    count, bought, plans, above = shown["tiles"]
    assert count.strip() == "2"
    assert float(bought.split()[0]) > 0
    assert "lower bound" in plans
    assert float(above.rstrip(" %")) >= 0
    assert [row.split()[0] for row in shown["clusters"]] == ["east", "west"]
    assert all("lower bound" in row for row in shown["clusters"])
    assert len(shown["nodes"]) > 2
    assert sum("not bought" in row for row in shown["nodes"]) == 2, "the two of the beginning"
    assert not any("unknown" in row for row in shown["nodes"])
    assert shown["bars"] == 2 * len(shown["nodes"])


def test_sync_and_events_tell_of_the_story(reports: Reports) -> None:
    rows = reports.one("sync")["rows"]
    assert [row.split()[:5] for row in rows] == [[name, *["Yes"] * 4] for name in ("east", "west")]
    events = reports.one("events")
    assert events["bars"] > 0
    assert events["rows"] > 10


def test_an_object_is_shown_as_yaml(reports: Reports) -> None:
    shown = reports.one("yaml")
    assert shown["text"].startswith("apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: ManagedCluster\n")
    assert "managedFields" not in shown["text"]
    assert "Ready" in shown["conditions"]


def test_a_withdrawn_login_ends_at_the_login_page(reports: Reports) -> None:
    withdrawn = reports.one("withdrawn")
    assert withdrawn["said"] == "The hub no longer accepts the token. Log in again."
    assert (withdrawn["kept"], withdrawn["shown"]) == (0, False)


def test_a_hub_that_comes_back_is_followed_again(reports: Reports) -> None:
    restarted = reports.one("restarted")
    assert (restarted["meanwhile"], restarted["rows"], restarted["stays"]) == (3, 4, True)


def test_the_token_stays_and_nobody_is_shut_out(reports: Reports) -> None:
    traces = reports.one("traces")
    assert (traces["elsewhere"], traces["inUrls"], traces["inStorage"], traces["mostStreams"]) == ([], 0, False, 1)
    assert {report["page"]: report["violations"] for report in reports.all("accessible") if report["violations"]} == {}
    assert reports.one("problems")["problems"] == []
