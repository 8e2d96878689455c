"""ResourceQuota usage of objects, scopes, and exceeded limits."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.core.quota_usage import (
    ObjectUsage,
    changes_usage,
    exceeded_quota_error,
    matching_resource_names,
    measure,
    missing_requests_error,
    parse_quota,
    total_usage,
    tracked_resources,
    usage_increase,
)
from shoal.objects.quantity import Quantity

Object = dict[str, Any]
NOW = 1_700_000_000.0


def container(name: str = "c", requests: Object | None = None, limits: Object | None = None, **more: object) -> Object:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: Object, init: list[Object] | None = None, status: Object | None = None, **spec: object) -> Object:
    body = {"containers": list(containers), "initContainers": init or [], **spec}
    return {"metadata": {"name": "p"}, "spec": body, "status": status or {}}


def measured_usage(group: str, plural: str, obj: Object) -> dict[str, str]:
    return {name: str(amount) for name, amount in measure(group, plural, obj).amounts.items()}


def quota(hard: Object, **spec: object) -> Object:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


def test_a_pod_takes_what_its_containers_ask_for() -> None:
    found = measured_usage(
        "", "pods", pod(container(requests={"cpu": "1", "memory": "1Gi"}), container(limits={"cpu": "500m"}))
    )
    assert found == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "limits.cpu": "500m",
    }


def test_init_containers_run_one_after_another_and_sidecars_beside() -> None:
    init = [
        container("first", {"cpu": "3"}),
        container("sidecar", {"cpu": "1"}, restartPolicy="Always"),
        container("second", {"cpu": "4"}),
    ]
    assert measured_usage("", "pods", pod(container(requests={"cpu": "2"}), init=init))["cpu"] == "5"
    assert measured_usage("", "pods", pod(container(requests={"cpu": "9"}), init=init))["cpu"] == "10"


def test_overhead_and_pod_level_requests() -> None:
    whole = pod(container(requests={"cpu": "1"}), overhead={"cpu": "250m", "memory": "1Mi"})
    found = measured_usage("", "pods", whole)
    assert (found["requests.cpu"], found["requests.memory"], "limits.memory" in found) == ("1250m", "1Mi", False)
    asked = pod(container(requests={"cpu": "1"}), resources={"requests": {"cpu": "3"}})
    assert measured_usage("", "pods", asked)["cpu"] == "3"


def test_huge_pages_and_devices() -> None:
    found = measured_usage(
        "", "pods", pod(container(requests={"hugepages-2Mi": "4Mi", "example.com/gpu": "2", "odd": "1"}))
    )
    assert (found["hugepages-2Mi"], found["requests.hugepages-2Mi"]) == ("4Mi", "4Mi")
    assert found["requests.example.com/gpu"] == "2"
    assert "odd" not in found
    names = ["requests.example.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.storage", "secrets"]
    assert matching_resource_names("", "pods", names) == names[:3]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_is_only_counted(phase: str) -> None:
    assert measured_usage("", "pods", pod(container(requests={"cpu": "1"}), status={"phase": phase})) == {
        "count/pods": "1"
    }


def test_a_pod_overdue_to_go_is_only_counted() -> None:
    going = pod(container(requests={"cpu": "1"}))
    going["metadata"] |= {"deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 30}
    found = measure("", "pods", going)
    assert found.compute_until == NOW + 30
    assert "cpu" in found.usage_at(NOW + 30)
    assert set(found.usage_at(NOW + 31)) == {"count/pods"}


def test_services() -> None:
    ports = [{"port": 1}, {"port": 2, "nodePort": 30000}]
    shown = [
        [
            measured_usage("", "services", {"metadata": {}, "spec": spec})[name]
            for name in ("services.nodeports", "services.loadbalancers")
        ]
        for spec in (
            {"type": "ClusterIP", "ports": ports},
            {"type": "NodePort", "ports": ports},
            {"type": "LoadBalancer", "ports": ports},
            {"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": False},
        )
    ]
    assert shown == [["0", "0"], ["2", "0"], ["2", "1"], ["1", "1"]]


def test_claims() -> None:
    claim = {"metadata": {}, "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}}}
    assert measured_usage("", "persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "2",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2",
    }


def test_everything_else_is_counted() -> None:
    assert measured_usage("", "secrets", {}) == {"count/secrets": "1", "secrets": "1"}
    assert measured_usage("example.com", "widgets", {}) == {"count/widgets.example.com": "1"}
    assert matching_resource_names("apps", "deployments", ["count/deployments.apps", "pods", "secrets"]) == [
        "count/deployments.apps"
    ]


def test_the_kinds_a_quota_is_about() -> None:
    names = ["pods", "limits.cpu", "services.nodeports", "x.storageclass.storage.k8s.io/requests.storage", "secrets"]
    names += ["count/widgets.example.com", "count/jobs.batch", "requests.example.com/gpu", "unknown"]
    assert tracked_resources(names) == {
        ("", "pods"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("", "secrets"),
        ("example.com", "widgets"),
        ("batch", "jobs"),
    }


def quota_with_scopes(*scopes: str) -> Object:
    return quota({"pods": "1"}, scopes=list(scopes))


def quota_with_selector(operator: str, *values: str) -> Object:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return quota({"pods": "1"}, scopeSelector={"matchExpressions": [expression]})


EFFORT = pod(container())
ASKING = pod(container(limits={"memory": "1Mi"}), activeDeadlineSeconds=5, priorityClassName="high")


@pytest.mark.parametrize(
    ("obj", "covered"),
    [
        (quota_with_scopes(), [EFFORT, ASKING]),
        (quota_with_scopes("BestEffort"), [EFFORT]),
        (quota_with_scopes("NotBestEffort"), [ASKING]),
        (quota_with_scopes("Terminating"), [ASKING]),
        (quota_with_scopes("NotTerminating"), [EFFORT]),
        (quota_with_scopes("NotTerminating", "NotBestEffort"), []),
        (quota_with_scopes("PriorityClass"), [ASKING]),
        (quota_with_selector("In", "high"), [ASKING]),
        (quota_with_selector("In", "low"), []),
        (quota_with_selector("NotIn", "high"), [EFFORT]),
        (quota_with_selector("Exists"), [ASKING]),
        (quota_with_selector("DoesNotExist"), [EFFORT]),
        (quota_with_scopes("CrossNamespacePodAffinity"), []),
    ],
)
def test_scopes(obj: Object, covered: list[Object]) -> None:
    found = parse_quota(obj)
    assert [one for one in (EFFORT, ASKING) if found.matches(measure("", "pods", one))] == covered


@pytest.mark.parametrize(
    ("operator", "values", "covered"),
    [
        ("In", ["gold"], ["gold", "moving"]),
        ("NotIn", ["gold"], ["plain", "moving"]),
        ("Exists", [], ["gold", "moving"]),
        ("DoesNotExist", [], ["plain"]),
    ],
)
def test_classes_of_volume_attributes(operator: str, values: list[str], covered: list[str]) -> None:
    expression = {"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}
    found = parse_quota(quota({"persistentvolumeclaims": "1"}, scopeSelector={"matchExpressions": [expression]}))
    claims: dict[str, Object] = {
        "plain": {"metadata": {}, "spec": {}},
        "gold": {"metadata": {}, "spec": {"volumeAttributesClassName": "gold"}},
        "moving": {
            "metadata": {},
            "spec": {"volumeAttributesClassName": "silver"},
            "status": {"currentVolumeAttributesClassName": "gold"},
        },
    }
    charges = {name: measure("", "persistentvolumeclaims", claim) for name, claim in claims.items()}
    assert [name for name, one in charges.items() if found.matches(one)] == covered
    assert not found.matches(measure("", "pods", ASKING))


def test_scopes_of_pods_are_about_pods_only() -> None:
    assert not parse_quota(quota_with_scopes("NotTerminating")).matches(measure("", "secrets", {}))
    assert not parse_quota(quota_with_selector("NotIn", "high")).matches(measure("", "secrets", {}))


def test_affinity_to_other_namespaces() -> None:
    term = {"topologyKey": "x", "namespaces": ["other"]}
    near = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    assert "CrossNamespacePodAffinity" in measure("", "pods", pod(container(), affinity=near)).scopes


def test_sums_keep_the_suffixes() -> None:
    charges = [ObjectUsage({"memory": Quantity.parse("1Gi"), "cpu": Quantity.parse("1500m")})] * 2
    assert {k: str(v) for k, v in total_usage(charges, ["memory", "cpu", "pods"], NOW).items()} == {
        "memory": "2Gi",
        "cpu": "3",
        "pods": "0",
    }


def test_what_exceeds_is_said() -> None:
    limits = parse_quota(quota({"pods": "5", "requests.cpu": "2", "requests.memory": "1Gi"}))
    requested = {
        "pods": Quantity.from_int(1),
        "requests.cpu": Quantity.parse("100m"),
        "requests.memory": Quantity.parse("1Gi"),
    }
    used = {
        "pods": Quantity.from_int(5),
        "requests.cpu": Quantity.parse("1900m"),
        "requests.memory": Quantity.parse("1Mi"),
    }
    assert exceeded_quota_error(limits, requested, used) == (
        "exceeded quota: q, requested: pods=1,requests.memory=1Gi, used: pods=5,requests.memory=1Mi, "
        "limited: pods=5,requests.memory=1Gi"
    )
    assert exceeded_quota_error(limits, {"requests.cpu": Quantity.parse("100m")}, used) == ""


def test_a_change_takes_only_what_it_adds() -> None:
    new, old = (
        {"a": Quantity.from_int(3), "b": Quantity.from_int(1)},
        {"a": Quantity.from_int(1), "b": Quantity.from_int(2)},
    )
    assert usage_increase(new, old, ["a", "b", "c"]) == {"a": Quantity.from_int(2)}
    assert usage_increase(new, None, ["a"]) == {"a": Quantity.from_int(3)}


def test_pods_must_say_what_they_want_of_cpu_and_memory() -> None:
    names = ["limits.cpu", "requests.memory", "pods", "limits.ephemeral-storage"]
    obj = pod(container("b", {"memory": "1Mi"}), container("a"))
    assert missing_requests_error(obj, names) == "must specify limits.cpu for: a,b; requests.memory for: a"
    assert missing_requests_error(pod(container("a"), resources={"limits": {"cpu": "1"}}), names) == ""
    assert missing_requests_error(pod(container(requests={"memory": "1"}, limits={"cpu": "1"})), names) == ""


def test_which_writes_matter() -> None:
    assert changes_usage("", "secrets", "", {}, None)
    assert not changes_usage("", "secrets", "", {}, {})
    assert not changes_usage("", "events", "", {}, None)
    assert changes_usage("", "services", "", {}, {})
    assert not changes_usage("", "services", "status", {}, {})
    assert not changes_usage("", "pods", "", EFFORT, EFFORT)
    assert changes_usage("", "pods", "", ASKING, EFFORT)
    assert changes_usage("", "pods", "resize", EFFORT, EFFORT)


def test_what_no_client_should_send_is_survived() -> None:
    odd = pod(None, container(requests={"cpu": "nonsense"}), init=[None])  # type: ignore[arg-type, list-item]
    assert "cpu" not in measured_usage("", "pods", odd)
