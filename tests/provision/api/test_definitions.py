"""The four CRDs as served: upstream's manifests are accepted, and objects that its schema rejects are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.provision.hosted import CLASSES, POOLS, node_class, node_pool
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

OVERLAYS = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
UPSTREAM = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: Never
    budgets:
      - nodes: 100%
  limits:
    cpu: 1000
    memory: 1000Gi
  template:
    spec:
      requirements:
        - key: "kubernetes.io/arch"
          operator: In
          values: ["amd64"]
        - key: "node.cluster.x-k8s.io"
          operator: In
          values: ["workload-target"]
        - key: "karpenter.sh/capacity-type"
          operator: In
          values: ["on-demand"]
      nodeClassRef:
        group: karpenter.cluster.x-k8s.io
        kind: ClusterAPINodeClass
        name: default
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
 name: kwok
spec:
 disruption:
   consolidationPolicy: WhenEmptyOrUnderutilized
   consolidateAfter: Never
   budgets:
     - nodes: 100%
 limits:
   cpu: 10000
   memory: 8000Gi
 template:
   spec:
     expireAfter: Never
     requirements:
       - key: kubernetes.io/os
         operator: In
         values: ["linux"]
       - key: karpenter.sh/capacity-type
         operator: In
         values: ["on-demand"]
     nodeClassRef:
      group: karpenter.kwok.sh
      kind: KWOKNodeClass
      name: default
---
apiVersion: karpenter.cluster.x-k8s.io/v1alpha1
kind: ClusterAPINodeClass
metadata:
  name: default
spec: {}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
  name: price-adjustment
spec:
  requirements:
    - key: karpenter.sh/capacity-type
      operator: In
      values: ["on-demand"]
  priceAdjustment: "-10%"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
 name: extended-resource
spec:
  requirements:
  - key: node.kubernetes.io/instance-type
    operator: In
    values: ["m5.large", "m5.2xlarge", "m5.4xlarge", "m5.8xlarge", "m5.12xlarge"]
  capacity:
    smarter-devices/fuse: 1
"""


@pytest.fixture(scope="module")
def inside(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, "cluster")
    cluster.eventually(lambda: cluster.get(POOLS).status == 200)
    yield cluster
    cluster.close()


def test_upstreams_manifests(inside: Cluster) -> None:
    for obj in yaml.safe_load_all(UPSTREAM):
        kinds = {"ClusterAPINodeClass": CLASSES, "NodePool": POOLS, "NodeOverlay": OVERLAYS}
        made = inside.post(kinds[obj["kind"]], obj).ok()
        assert made["metadata"]["generation"] == 1
    pool = inside.get(f"{POOLS}/default").ok()
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "720h"


def test_what_is_filled_in(inside: Cluster) -> None:
    made = inside.post(POOLS, node_pool("filled")).ok()
    assert made["spec"]["disruption"] == {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }


@pytest.mark.parametrize(
    "spec",
    [
        *({"template": {"expireAfter": value}} for value in ("30s", "1h30m5s", "Never")),
        *({"disruption": {"consolidateAfter": value}} for value in ("30s", "1h30m5s", "Never")),
        *(
            {"disruption": {"consolidateAfter": "0s", "consolidationPolicy": value}}
            for value in ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
        ),
        *({"template": {"terminationGracePeriod": value}} for value in ("30s", "1h30m5s")),
        {
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "10", "schedule": "@annually", "duration": "2h20m"}],
            }
        },
        {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "10", "reasons": ["Drifted", "Empty"]}]}},
        {"weight": 100, "limits": {"nodes": 5}},
        {"replicas": 3},
    ],
)
def test_pools_that_are_stored(inside: Cluster, spec: Object) -> None:
    assert inside.post(f"{POOLS}?dryRun=All", node_pool("tried", **spec)).status == 201


def budget(**said: Any) -> Object:
    return {"disruption": {"consolidateAfter": "0s", "budgets": [said]}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        *(({"template": {"expireAfter": value}}, "expireAfter") for value in ("-1s", "1hr", "FooNever")),
        *(({"disruption": {"consolidateAfter": value}}, "consolidateAfter") for value in ("-1s", "1hr", "FooNever")),
        ({"disruption": {"consolidationPolicy": "WhenEmpty"}}, "consolidateAfter"),
        *(
            ({"disruption": {"consolidateAfter": "0s", "consolidationPolicy": value}}, "consolidationPolicy")
            for value in ("balanced", "", "WhenUnderutilized", "1")
        ),
        *(
            ({"template": {"terminationGracePeriod": value}}, "terminationGracePeriod")
            for value in ("-1s", "1hr", "Never")
        ),
        (budget(nodes="10", schedule="*", duration="20m"), "schedule"),
        (budget(nodes="10", schedule="* * * * ", duration="20m"), "schedule"),
        *((budget(nodes="10", schedule="* * * * *", duration=value), "duration") for value in ("-20m", "30s")),
        *((budget(nodes=value), "nodes") for value in ("-10", "-10%", "1000%")),
        *((budget(nodes="10", reasons=[value]), "reasons") for value in ("invalid", "expired", "")),
        (budget(nodes="10", reasons=["Empty", "Empty"]), "reasons"),
        *(({"weight": value}, "weight") for value in (0, 101)),
        ({"replicas": -1}, "replicas"),
        ({"template": {"taints": [{"effect": "NoSchedule"}]}}, "taints"),
        ({"template": {"taints": [{"key": "a", "effect": "???"}]}}, "effect"),
        ({"template": {"nodeClassRef": {"group": "", "kind": "x", "name": "x"}}}, "group"),
        ({"labels": {"a": "/ is not allowed"}}, "labels"),
        *(
            (
                {"template": {"requirements": [{"key": "a", "operator": "In", "values": ["a"], "minValues": value}]}},
                "minValues",
            )
            for value in (-1, 0, 51)
        ),
        ({"template": {"requirements": [{"key": "a", "operator": "unknown"}]}}, "operator"),
        ({"template": {"requirements": [{"key": "test/test/test", "operator": "Exists"}]}}, "key"),
        ({"template": {"requirements": [{"key": "a", "operator": "Exists"}] * 101}}, "requirements"),
    ],
)
def test_pools_that_are_refused(inside: Cluster, spec: Object, field: str) -> None:
    answer = inside.post(f"{POOLS}?dryRun=All", node_pool("tried", **spec))
    assert answer.status == 422, answer.json
    assert any(field in cause["field"] for cause in answer.json["details"]["causes"]), answer.json["message"]


def overlay(**spec: Any) -> Object:
    body = {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}], **spec}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "tried"}, "spec": body}


@pytest.mark.parametrize(
    "spec",
    [
        *(
            {"priceAdjustment": value}
            for value in ("+1%", "-1%", "-100%", "+100.102%", "+298%", "+43", "-43", "+34.43")
        ),
        *({"price": value} for value in ("43", "34.43", "0")),
        {"capacity": {"smarter-devices/fuse": 1}, "weight": 10000},
    ],
)
def test_overlays_that_are_stored(inside: Cluster, spec: Object) -> None:
    assert inside.post(f"{OVERLAYS}?dryRun=All", overlay(**spec)).status == 201


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("price", value)
            for value in ("+42", ".5", "42.", "42%", "3,14", "1e10", "0x42", "42 ", " 42", "-", ".", "-.42")
        ),
        *(("priceAdjustment", value) for value in ("1%", "1", "1.3", "-100.0%", "-101.1%", "+", "%", "+ 1")),
        *(("weight", value) for value in (0, 10001)),
        ("requirements", [{"key": "a", "operator": "unknown"}]),
    ],
)
def test_overlays_that_are_refused(inside: Cluster, field: str, value: object) -> None:
    answer = inside.post(f"{OVERLAYS}?dryRun=All", overlay(**{field: value}))
    assert answer.status == 422, answer.json
    # What no field is named for says that rules were not looked at, because of the others.
    causes = [cause for cause in answer.json["details"]["causes"] if cause["field"] != "<nil>"]
    assert all(cause["field"].startswith(f"spec.{field}") for cause in causes)


def template(**said: Any) -> Object:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedMachineTemplate", "name": "big"}
    return {
        **node_class("orphans"),
        "spec": {"machineTemplates": [{"name": "big", "infrastructureRef": reference, **said}]},
    }


def test_templates_of_a_node_class(inside: Cluster) -> None:
    whole = template(
        instanceType="x.large",
        failureDomain="a",
        version="v1.36.0",
        labels={"team": "red"},
        taints=[{"key": "a", "effect": "NoSchedule"}],
        capacity={"cpu": 4, "memory": "16Gi"},
        capacityType="spot",
        price="0.25",
        limit=3,
        bootstrap={
            "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "big"}
        },
    )
    made = inside.post(f"{CLASSES}?dryRun=All", whole).ok()
    assert made["spec"] == whole["spec"]
    for field, value in (
        ("price", "free"),
        ("limit", -1),
        ("capacityType", "reserved"),
        ("name", "No_Label"),
        ("bootstrap", {}),
    ):
        answer = inside.post(f"{CLASSES}?dryRun=All", template(**{field: value}))
        assert answer.status == 422, field
        assert field in answer.json["details"]["causes"][0]["field"]


def test_columns_and_short_names(inside: Cluster) -> None:
    shown = {
        POOLS: (["Name", "NodeClass", "Nodes", "Ready", "Age"], ["Weight", "CPU", "Memory"]),
        OVERLAYS: (["Name", "Ready", "Age"], ["Weight"]),
        CLASSES: (["Name", "Ready", "Age"], []),
        "/apis/karpenter.sh/v1/nodeclaims": (
            ["Name", "Type", "Capacity", "Zone", "Node", "Ready", "Age"],
            ["ImageID", "ID", "NodePool", "NodeClass", "Drifted"],
        ),
    }
    for path, (first, more) in shown.items():
        columns = inside.get(path, Accept=TABLE).ok()["columnDefinitions"]
        assert [each["name"] for each in columns if not each.get("priority")] == first
        assert [each["name"] for each in columns if each.get("priority")] == more
    found = {
        each["name"]: each.get("shortNames")
        for group in ("karpenter.sh/v1alpha1", "karpenter.cluster.x-k8s.io/v1alpha1")
        for each in inside.get(f"/apis/{group}").ok()["resources"]
        if "/" not in each["name"]
    }
    assert found == {"nodeoverlays": ["overlays"], "clusterapinodeclasses": ["capinc", "capincs"]}
