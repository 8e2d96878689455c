"""Placement and syncer together: what is placed runs in its clusters, under the expected names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.placement.synced_fleet import PLACEMENTS, PODS, Fleet, synced_fleet
from tests.serving import Cluster, Server, config_map
from tests.sync.hub_cluster_pair import CONFIG_MAPS, DEPLOYMENTS, with_config
from tests.sync.sync_environment import deployment

Object = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
STUCK, CROWDED = "workloads.kcp.dev/unschedulable", "placement.shoal.dev/crowded"


@pytest.fixture(scope="module")
def fleet(server: Server) -> Iterator[Fleet]:
    with synced_fleet(server, "deployments.apps", "configmaps", "jobs.batch") as given:
        yield given


def test_replicas_that_find_no_node_move_elsewhere_and_stay_there(fleet: Fleet) -> None:
    hub = fleet.hub
    hub.eventually(lambda: hub.get(DEPLOYMENTS).status == 200)
    web = deployment("web", replicas=8)
    # One on each node, which the published room does not tell.
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    hub.post(DEPLOYMENTS, web).ok()
    hub.eventually(lambda: fleet.sizes("web") == [4, 4])
    hub.eventually(lambda: fleet.said("web--east", STUCK) == "1" and "since" in fleet.said("web--east", CROWDED))
    assert fleet.sizes("web") == [4, 4], "a pod may find a node a little later"
    fleet.clock.jump += 61
    hub.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"looked": "at"}}}).ok()
    hub.eventually(lambda: fleet.sizes("web") == [3, 5])
    # All of them run, and nothing is without a node.
    hub.eventually(lambda: (hub.get(f"{DEPLOYMENTS}/web")["status"] or {}).get("availableReplicas") == 8)
    hub.eventually(lambda: not fleet.said("web--east", STUCK))
    hub.eventually(lambda: [len(pods) for pods in fleet.pods()] == [3, 5])
    before = fleet.pods()
    for turn in ("1", "2", "3"):
        fleet.clock.jump += 61
        hub.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"looked": turn}}}).ok()
        for name in fleet.members:
            path = f"{DEPLOYMENTS}/web--{name}"
            hub.eventually(lambda path=path, turn=turn: hub.get(path)["metadata"]["labels"]["looked"] == turn)  # type: ignore[misc]
    assert fleet.sizes("web") == [3, 5]
    assert fleet.pods() == before, "not even for a moment was it otherwise"
    hub.delete(f"{DEPLOYMENTS}/web").ok()
    for member in fleet.members.values():
        member.eventually(lambda member=member: not member.get(DEPLOYMENTS).ok()["items"])  # type: ignore[misc]


def test_a_placed_config_map_is_found_under_its_name_and_a_job_runs_in_parts(fleet: Fleet) -> None:
    hub = fleet.hub
    patch = [{"op": "add", "path": "/data/where", "value": "the east"}]
    fleet.place("shop", "ConfigMap", overrides=[{"clusters": {"names": ["east"]}, "patch": patch}])
    hub.post(CONFIG_MAPS, config_map("shop", {"where": "anywhere"})).ok()
    hub.eventually(lambda: hub.get(DEPLOYMENTS).status == 200)
    web = with_config("shop", "", "shop")
    hub.post(DEPLOYMENTS, {**web, "spec": {**web["spec"], "replicas": 2}}).ok()
    for name, wanted in (("east", "the east"), ("west", "anywhere")):
        member = fleet.members[name]
        member.eventually(lambda member=member, wanted=wanted: _data(member) == {"where": wanted})  # type: ignore[misc]
        assert member.get(f"{CONFIG_MAPS}/shop--{name}").status == 404
    hub.eventually(lambda: (hub.get(f"{DEPLOYMENTS}/shop").ok().get("status") or {}).get("availableReplicas") == 2)

    fleet.place("sums", "Job")
    container = {"name": "c", "image": "sums:1", "command": ["true"]}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "sums"}, "spec": {"completions": 6, "parallelism": 2, "template": template}}
    hub.eventually(lambda: hub.post(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}).status == 201)
    for name, member in fleet.members.items():
        path = f"{JOBS}/sums--{name}"
        member.eventually(lambda path=path, member=member: member.get(path).status == 200)  # type: ignore[misc]
        copy = member.get(path).ok()
        assert (copy["spec"]["completions"], copy["spec"]["parallelism"]) == (3, 1)
        assert copy["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] == copy["metadata"]["uid"]
    done = hub.eventually(lambda: _complete(hub))
    assert done["succeeded"] == 6
    hub.delete(f"{PLACEMENTS}/shop").ok()
    for member in fleet.members.values():
        # The Deployment is still split, by no Placement, and its pods need the ConfigMap.
        member.eventually(lambda member=member: _data(member) == {"where": "anywhere"})  # type: ignore[misc]
    for path in (f"{JOBS}/sums", f"{PLACEMENTS}/sums", f"{DEPLOYMENTS}/shop"):
        hub.delete(path, {"propagationPolicy": "Background"}).ok()
    for member in fleet.members.values():
        for path in (JOBS, DEPLOYMENTS, PODS):
            member.eventually(lambda member=member, path=path: not member.get(path).ok()["items"])  # type: ignore[misc]


def _complete(hub: Cluster) -> Object:
    status: Object = hub.get(f"{JOBS}/sums").ok().get("status") or {}
    return status if "completionTime" in status else {}


def _data(member: Cluster) -> Object:
    found: Object = member.get(f"{CONFIG_MAPS}/shop").json.get("data") or {}
    return found
