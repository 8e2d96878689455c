"""The dashboard in Chromium, on a hub with a thousand clusters whose loops rest: what is written stays as it is.

`web/browser/check.mjs` does what a person would do and reports it; here it is judged. Frame times are printed and never
judged. `SHOAL_SCREENSHOTS` names a folder for the pictures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from scripts.web import WEB, NotRun, ensure_packages
from tests.serving import HANG, Cluster, Server

Object = dict[str, Any]

pytestmark = pytest.mark.browser

CLUSTERS = 1000
GROUP = "infrastructure.cluster.x-k8s.io/v1alpha1"
MANAGED = f"/apis/{GROUP}/namespaces/default/managedclusters"
WORKERS = f"/apis/{GROUP}/namespaces/shoal-system/workers"
REGISTERED = "/apis/workload.kcp.dev/v1alpha1/clusters"
SINCE = "2026-01-01T00:00:00Z"


def chromium() -> str:
    named = os.environ.get("SHOAL_CHROMIUM", "")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
    if not found:
        pytest.skip("browser (no Chromium)")
    return found


def node() -> str:
    try:
        return ensure_packages()
    except NotRun as missing:
        pytest.skip(f"browser ({missing})")


def told(root: Cluster, path: str, obj: Object, status: Object) -> None:
    """An object and what loops would say of it."""
    made = root.post(path, obj).ok()
    root.put(f"{path}/{made['metadata']['name']}/status", {**made, "status": status}).ok()


def ready(*types: str) -> list[Object]:
    given = {"status": "True", "reason": "Fine", "message": "", "lastTransitionTime": SINCE}
    return [{"type": type_, **given} for type_ in types]


def phase_of(number: int) -> str:
    return {3: "Provisioning", 57: "Failed", 91: "Unknown"}.get(number % 100, "Running")


def fill(root: Cluster) -> None:
    root.post("/api/v1/namespaces", {"metadata": {"name": "shoal-system"}})
    for number in range(1, 9):
        obj = {
            "apiVersion": GROUP,
            "kind": "Worker",
            "metadata": {"name": f"worker-{number}"},
            "spec": {"capacity": 200},
        }
        told(root, WORKERS, obj, {"phase": "Running", "availableCapacity": 75, "conditions": ready("Ready")})
    for number in range(CLUSTERS):
        name, phase = f"cluster-{number:04}", phase_of(number)
        obj = {"apiVersion": GROUP, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": {"nodes": 3}}
        status: Object = {"phase": phase, "assignedWorker": f"worker-{number % 8 + 1}", "nodes": number % 7}
        told(root, MANAGED, obj, {**status, "version": "v1.36.4", "conditions": ready("Scheduled", "Ready")})
        if number % 10 == 0 and phase == "Running":
            cluster = {
                "apiVersion": "workload.kcp.dev/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": name, "labels": {"shoal.dev/managedcluster": f"default.{name}"}},
                "spec": {},
            }
            room = {"cpu": str(number % 24), "memory": f"{number % 90}Gi"}
            full = {"allocatable": {"cpu": "24", "memory": "96Gi"}, "available": room}
            kinds = ("Ready", "HeartbeatHealthy", "APIImporterReady", "SyncerReady")
            told(root, REGISTERED, cluster, {**full, "conditions": ready(*kinds)})


def poor_token(root: Cluster) -> str:
    """Of somebody who may log in and no more."""
    root.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "stranger"}}).ok()
    token: str = root.post("/api/v1/namespaces/default/serviceaccounts/stranger/token", {"spec": {}}).ok()["status"][
        "token"
    ]
    return token


@pytest.fixture(scope="module")
def reports(still_server: Server) -> list[Object]:
    program, runs = chromium(), node()
    root = Cluster(still_server, "root")
    fill(root)
    environment = {
        **os.environ,
        "SHOAL_URL": f"https://127.0.0.1:{still_server.port}",
        "SHOAL_TOKEN": still_server.token,
        "SHOAL_POOR_TOKEN": poor_token(root),
        "SHOAL_CHROMIUM": program,
        "SHOAL_SCREENSHOTS": os.path.abspath(kept) if (kept := os.environ.get("SHOAL_SCREENSHOTS", "")) else "",
    }
    root.close()
    run = subprocess.run(
        [runs, str(WEB / "browser" / "check.mjs")], env=environment, capture_output=True, text=True, timeout=5 * HANG
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def of(reports: list[Object], what: str) -> list[Object]:
    return [report for report in reports if report["what"] == what]


def test_nobody_comes_in_without_rights(reports: list[Object]) -> None:
    (refused,) = of(reports, "refused")
    assert "401 Unauthorized" in refused["said"]
    assert refused["kept"] == 0
    strangers = of(reports, "stranger")
    assert len(strangers) == 6
    assert [report for report in strangers if report["notes"] == 0 or report["rows"] != 0] == []
    assert of(reports, "left")[0]["kept"] == 0


def test_the_map_is_there_and_follows_the_api(reports: list[Object]) -> None:
    (follows,) = of(reports, "follows")
    assert (follows["created"], follows["before"], follows["after"]) == (201, CLUSTERS, CLUSTERS + 1)
    assert of(reports, "painted")[0]["share"] > 0.05


def test_it_is_used_with_the_keyboard(reports: list[Object]) -> None:
    (keyboard,) = of(reports, "keyboard")
    assert "on worker-" in keyboard["said"]
    assert keyboard["opened"].startswith("ManagedCluster ")
    assert keyboard["focused"] == "main"
    assert of(reports, "skip")[0]["first"] == "skip"


def test_no_page_shuts_anybody_out(reports: list[Object]) -> None:
    looked_at = {report["page"]: report["violations"] for report in of(reports, "accessible")}
    assert set(looked_at) == {"login", "fleet", "clusters", "placements", "nodes", "sync", "events", "o"}
    assert {page: found for page, found in looked_at.items() if found} == {}
    (dark,) = of(reports, "dark")
    assert (dark["theme"], dark["violations"]) == ("dark", [])


def test_a_thousand_clusters_are_a_few_rows(reports: list[Object]) -> None:
    (rows,) = of(reports, "rows")
    assert rows["counted"] == str(CLUSTERS + 2)
    assert 10 < rows["shown"] < 100
    for report in of(reports, "frames"):
        print(f"\n{report['of']}: {report['frames']} frames, p50 {report['p50']} ms, p95 {report['p95']} ms", end="")
        print(f", worst {report['worst']} ms")


def test_the_browser_had_nothing_to_complain_about(reports: list[Object]) -> None:
    assert of(reports, "problems")[0]["problems"] == []
