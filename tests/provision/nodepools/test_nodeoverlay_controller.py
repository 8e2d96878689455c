"""NodeOverlays in a hosted cluster: their conditions, and their effect on launches."""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import condition_is, get_condition
from tests.provision.hosted import CLAIMS, NODES, PODS, Hosted, pod

Object = dict[str, Any]

OVERLAYS = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
TYPE = "node.kubernetes.io/instance-type"


def overlay(name: str, *types: str, **spec: Any) -> Object:
    wanted = [{"key": TYPE, "operator": "In", "values": list(types)}]
    body = {"requirements": wanted, **spec}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": body}


def reason(hosted: Hosted, name: str) -> str:
    return str(
        (get_condition(hosted.cluster.get(f"{OVERLAYS}/{name}").ok(), "ValidationSucceeded") or {}).get("reason")
    )


def ready(hosted: Hosted, name: str) -> bool:
    return condition_is(hosted.cluster.get(f"{OVERLAYS}/{name}").ok(), "Ready")


def test_the_cheapest_is_what_overlays_make_the_cheapest(hosted: Hosted) -> None:
    hosted.pool(disruption={"consolidateAfter": "Never"})
    hosted.cluster.post(OVERLAYS, overlay("b", "medium", price="0.01", weight=2)).ok()
    hosted.cluster.post(OVERLAYS, overlay("a", "medium", "large", price="0.001", weight=2)).ok()
    hosted.eventually(lambda: ready(hosted, "b") and reason(hosted, "a") == "Conflict")
    hosted.cluster.post(PODS, pod("one")).ok()
    hosted.running(1)
    (claim,) = hosted.bought()
    assert claim["metadata"]["labels"][TYPE] == "medium"
    hosted.cluster.delete(f"{OVERLAYS}/b").ok()
    hosted.eventually(lambda: ready(hosted, "a"))


def test_a_resource_that_only_an_overlay_knows(hosted: Hosted) -> None:
    fuse = "example.com/fuse"
    hosted.pool(disruption={"consolidateAfter": "Never"})
    wanted = pod("one")
    wanted["spec"]["containers"][0]["resources"] = {"requests": {fuse: "1"}, "limits": {fuse: "1"}}
    hosted.cluster.post(PODS, wanted).ok()
    hosted.eventually(lambda: hosted.events("FailedScheduling"))
    assert hosted.items(CLAIMS) == []
    hosted.cluster.post(OVERLAYS, overlay("fused", "large", capacity={fuse: 1})).ok()
    hosted.running(1)
    (claim,) = hosted.bought()
    assert claim["metadata"]["labels"][TYPE] == "large"
    assert claim["status"]["allocatable"][fuse] == "1"
    (node,) = hosted.items(NODES)
    assert (node["status"]["capacity"][fuse], node["status"]["allocatable"][fuse]) == ("1", "1")
