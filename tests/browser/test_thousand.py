"""The dashboard in Chromium on a hub with a thousand clusters: rights, following, keys, screen readers, frames.

`web/browser/large.mjs` does what a person would do and reports it; here it is judged. Frame times are printed and never
judged.
"""

from __future__ import annotations

import pytest

from tests.browser.driving import Reports, browser, drive
from tests.browser.thousand import CLUSTERS, FLEET, MANAGED, fill, managed, name_of
from tests.real.hubs import KubectlAt
from tests.real.programs import kubectls
from tests.serving import Cluster, Server

pytestmark = pytest.mark.browser

PAGES = {"fleet", "clusters", "placements", "nodes", "sync", "events"}
NEWCOMER = "newcomer"


def poor_token(root: Cluster) -> str:
    """Of somebody who may log in and no more."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    root.post(accounts, {"metadata": {"name": "stranger"}}).ok()
    token: str = root.post(f"{accounts}/stranger/token", {"spec": {}}).ok()["status"]["token"]
    return token


@pytest.fixture(scope="module")
def reports(still_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    browser()
    root, home = Cluster(still_server, "root"), tmp_path_factory.mktemp("browser")

    def apply() -> str:
        if not kubectls():
            root.post(MANAGED, managed(NEWCOMER)).ok()
            return "the API"
        manifest = f"apiVersion: {FLEET}\nkind: ManagedCluster\nmetadata: {{name: {NEWCOMER}, namespace: default}}\n"
        (home / "newcomer.yaml").write_text(manifest)
        kubectl = KubectlAt(still_server.shoal.directory.path / "kubeconfig", home / "kubectl")
        return kubectl("apply", "-f", str(home / "newcomer.yaml")).strip()

    def fail() -> None:
        """One of the first in the table, where none has failed: it is in sight."""
        path = f"{MANAGED}/{name_of(970)}"
        made = root.get(path).ok()
        root.put(f"{path}/status", {**made, "status": {**made["status"], "phase": "Failed"}}).ok()

    def delete() -> None:
        """Nobody is there to take its finalizer off."""
        root.patch(f"{MANAGED}/{NEWCOMER}", {"metadata": {"finalizers": None}}).ok()
        root.delete(f"{MANAGED}/{NEWCOMER}").ok()

    environment = {
        "SHOAL_URL": f"https://127.0.0.1:{still_server.port}",
        "SHOAL_TOKEN": still_server.token,
        "SHOAL_POOR_TOKEN": poor_token(root),
        "SHOAL_CLUSTER": name_of(1),
    }
    deeds = {"apply": apply, "fail": fail, "delete": delete}
    try:
        fill(root)
        return drive("large.mjs", environment, deeds)
    finally:
        root.close()


def test_nobody_comes_in_without_rights(reports: Reports) -> None:
    refused = reports.one("refused")
    assert "401 Unauthorized" in refused["said"]
    assert (refused["empty"], refused["bare"], refused["kept"], refused["shown"]) == (True, 401, 0, 0)
    assert reports.one("left")["kept"] == 0


def test_who_may_see_nothing_is_told_which_right_is_missing(reports: Reports) -> None:
    strangers = {report["page"]: report for report in reports.all("stranger")}
    assert set(strangers) == PAGES
    for page, report in strangers.items():
        assert (page, report["rows"], report["told"], report["leaked"]) == (page, 0, True, False)
    group = FLEET.partition("/")[0]
    assert strangers["clusters"]["rights"] == [f"list, watch managedclusters.{group}"]
    assert f"list, watch workers.{group}" in strangers["fleet"]["rights"]
    assert "get /metrics" in strangers["nodes"]["rights"]
    assert "list, watch events" in strangers["events"]["rights"]


def test_the_map_is_there_and_follows_the_api(reports: Reports) -> None:
    follows = reports.one("follows")
    assert (follows["before"], follows["after"], follows["left"]) == (
        str(CLUSTERS), str(CLUSTERS + 1), str(CLUSTERS),
    )  # fmt: skip
    assert follows["by"] in ("the API", f"managedcluster.infrastructure.cluster.x-k8s.io/{NEWCOMER} created")
    assert reports.one("painted")["share"] > 0.05


def test_everything_is_reached_with_the_tab_key_in_its_order(reports: Reports) -> None:
    tab = reports.one("tab")
    assert (tab["skip"], tab["main"]) == ("Skip to the content", "main")
    assert tab["order"] == [
        *("Skip to the content", "Shoal", "Fleet", "Clusters", "Placement", "Nodes", "Sync", "Events"),
        *("Colours: auto. Change", "Log out", "Map", "Table", "Fleet map", "Zoom in"),
    ]


def test_the_map_is_walked_with_arrows(reports: Reports) -> None:
    keys = reports.one("map keys")
    assert " on " in keys["said"]
    assert keys["escaped"] is True
    assert keys["opened"].startswith("ManagedCluster ")
    assert keys["focused"] == "main"


def test_lists_are_walked_with_arrows(reports: Reports) -> None:
    keys = reports.one("list keys")
    assert (keys["back"], keys["search"]) == ("ManagedClusters", "Name, worker or label")
    first, second, again, page, last, home = keys["walked"]
    assert (first, second, again, last, home) == (0, 1, 0, CLUSTERS - 1, 0)
    assert 5 < page < 50
    assert (keys["stops"], keys["out"]) == (1, "ManagedClusters")
    assert keys["opened"].startswith("ManagedCluster ")


def test_no_page_shuts_anybody_out(reports: Reports) -> None:
    looked_at = {(r["page"], r["theme"], r.get("width", 1360)): r["violations"] for r in reports.all("accessible")}
    every = {*PAGES, "detail", "login"}
    assert set(looked_at) == {
        ("refused", "light", 1360), ("stranger", "light", 1360),
        *((page, theme, width) for page in every for theme, width in (("light", 1360), ("dark", 1360), ("light", 400))),
    }  # fmt: skip
    assert {page: found for page, found in looked_at.items() if found} == {}
    assert all(report["theme"] == report["wanted"] for report in reports.all("theme"))


def test_no_page_is_wider_than_its_window(reports: Reports) -> None:
    assert [report for report in reports.all("fits") if report["wide"] > report["width"]] == []


def test_a_thousand_clusters_are_a_few_rows(reports: Reports) -> None:
    rows = reports.one("rows")
    assert rows["counted"] == str(CLUSTERS + 1)
    assert 10 < rows["shown"] < 100
    for report in reports.all("frames"):
        times = f"p50 {report['p50']} ms, p95 {report['p95']} ms, longest {report['longest']} ms"
        print(f"\n{report['of']}: {report['frames']} frames, {times}", end="")


def test_nothing_is_asked_of_anybody_else_and_the_token_stays(reports: Reports) -> None:
    traces = reports.one("traces")
    assert (traces["elsewhere"], traces["inUrls"], traces["inStorage"], traces["mostStreams"]) == ([], 0, False, 1)
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in reports.one("policy")["of"]


def test_the_browser_had_nothing_to_complain_about(reports: Reports) -> None:
    assert reports.one("problems")["problems"] == []
