"""What controllers create counts, and they are calm when it is refused."""

from __future__ import annotations

import time

from tests.apiserver.limits.conftest import LimitedCluster
from tests.apiserver.limits.limited import recount, usage_of
from tests.serving import Server

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
OBSERVED_SECONDS = 6.0


def test_a_deployment_of_a_million_replicas(server: Server, limited: LimitedCluster) -> None:
    cluster = limited(server, "cluster", objects=500)
    labels = {"app": "many"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "many"},
        "spec": {
            "replicas": 1_000_000,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example.com/none"}]},
            },
        },
    }
    cluster.post(DEPLOYMENTS, deployment).ok()

    def failed_create() -> bool:
        conditions = cluster.get(f"{DEPLOYMENTS}/many").ok().get("status", {}).get("conditions", ())
        return any(each["reason"] == "FailedCreate" and "exceeded limits" in each["message"] for each in conditions)

    cluster.eventually(failed_create)
    cluster.eventually(lambda: usage_of(cluster)[0] >= 500)
    cluster.eventually(lambda: len(cluster.get("/api/v1/namespaces/default/events").ok()["items"]) == 125)

    # Whatever the controllers do from now on costs little: their retries back off.
    async def cpu_seconds() -> float:
        return time.thread_time()

    began = server.call(cpu_seconds())
    time.sleep(OBSERVED_SECONDS)
    spent = server.call(cpu_seconds()) - began
    assert spent < OBSERVED_SECONDS / 2
    used = usage_of(cluster)
    assert used == recount(cluster)
    assert 500 <= used[0] <= 600
    assert used[2] == 125
    cluster.delete(f"{DEPLOYMENTS}/many", {"propagationPolicy": "Foreground"}).ok()
    cluster.eventually(lambda: not cluster.get("/api/v1/namespaces/default/pods").ok()["items"])
