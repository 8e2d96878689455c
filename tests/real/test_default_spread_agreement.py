"""Default topology spread: the node of every pod is the one that the real kube-scheduler chooses.

The nodes differ in size, so that in every step one of them is the best.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.real.scheduling import HOST, REAL, ZONE
from tests.real.test_scheduler_agreement import Ours, real_scheduler
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
STEPS = 6


@pytest.mark.parametrize("zones", [("x", "x", "y"), ("x", "y", "z"), ("", "", ""), ("x", "y", "")])
@pytest.mark.parametrize(("has_service", "is_owned"), [(True, False), (False, True), (True, True)])
def test_the_real_scheduler_chooses_the_same_nodes(
    server: Server, tmp_path: Path, zones: tuple[str, ...], has_service: bool, is_owned: bool
) -> None:
    cluster, ours = fresh_cluster(server, profile="cluster"), Ours()
    for index, zone in enumerate(zones):
        made = cluster.post("/api/v1/nodes", _node(f"n{index}", zone, 64 >> index)).ok()
        ours.home.on_node(made["metadata"]["name"], made)
    if has_service:
        body: Object = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
        made = cluster.post("/api/v1/namespaces/default/services", body).ok()
        ours.home.on_service(("default", "web"), made)
    if is_owned:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": _spec()}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        made = cluster.post(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec}).ok()
        ours.home.on_owner("replicasets", ("default", "web"), made)
    real_nodes, our_nodes = [], []
    seen: set[str] = set()
    with real_scheduler(cluster, tmp_path):
        for step in range(STEPS):
            if is_owned:
                cluster.patch(f"{REPLICA_SETS}/web", {"spec": {"replicas": step + 1}}).ok()
            else:
                cluster.post(PODS, {"metadata": {"name": f"w{step}", "labels": {"app": "web"}}, "spec": _spec()}).ok()
            real = cluster.eventually(partial(_bound, cluster, seen))
            assert real is not None
            seen.add(real["metadata"]["name"])
            real_nodes.append(real["spec"]["nodeName"])
            unbound = {key: value for key, value in real["spec"].items() if key != "nodeName"}
            our_nodes.append(ours.verdict({**real, "spec": unbound}).chosen)
            ours.home.on_pod(("default", real["metadata"]["name"]), real)
    cluster.close()
    assert our_nodes == real_nodes
    assert len(set(our_nodes)) == 3


def _bound(cluster: Cluster, seen: set[str]) -> Object | None:
    """The pod that was not there before, once it has a node."""
    for pod in cluster.get(PODS).ok()["items"]:
        if pod["metadata"]["name"] not in seen and pod["spec"].get("nodeName"):
            found: Object = pod
            return found
    return None


def _spec() -> Object:
    requests = {"cpu": "400m", "memory": "1600Mi"}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, "schedulerName": REAL}


def _node(name: str, zone: str, cpu: int) -> Object:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    room = {"cpu": str(cpu), "memory": f"{4000 * cpu}Mi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "conditions": ready}}
