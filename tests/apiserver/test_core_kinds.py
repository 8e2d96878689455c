"""Pods, services, nodes and their like through the server: strategies, subresources, deletion, tables."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shoal.kinds.core.columns import COLUMNS
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
PODS, SERVICES = f"{CORE}/pods", f"{CORE}/services"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.fixture
def core(still_server: Server) -> Iterator[Cluster]:
    """A cluster that serves every built-in kind."""
    cluster = fresh_cluster(still_server, profile="cluster")
    yield cluster
    cluster.close()


def pod(name: str, labels: dict[str, str] | None = None, **spec: object) -> Object:
    metadata: Object = {"name": name, "labels": labels} if labels else {"name": name}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def service(name: str, **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def binding(name: str, node: str = "n") -> Object:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


def eviction(name: str, **options: object) -> Object:
    made: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return made | ({"deleteOptions": options} if options else {})


def message(answer: Any, status: int = 422) -> str:
    assert answer.status == status, answer.body
    found: str = answer.json["message"]
    return found


def cells(cluster: Cluster, path: str, name: str) -> list[object]:
    rows: list[list[object]] = [row["cells"] for row in cluster.get(path, Accept=TABLE).ok()["rows"]]
    return next(row for row in rows if row[0] == name)


# --- pods ---


def test_a_new_pod_waits(core: Cluster) -> None:
    made = core.post(PODS, pod("a") | {"status": {"phase": "Running"}}).ok()
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["restartPolicy"] == "Always"
    assert cells(core, PODS, "a")[1:4] == ["0/1", "Pending", "0"]


def test_a_wrong_pod_is_refused_with_everything_that_is_wrong(core: Cluster) -> None:
    wrong = {"metadata": {"name": "b"}, "spec": {"restartPolicy": "No", "containers": [{"name": "c"}]}}
    assert message(core.post(PODS, wrong)) == (
        'Pod "b" is invalid: [spec.containers[0].image: Required value, spec.restartPolicy: '
        'Unsupported value: "No": supported values: "Always", "OnFailure", "Never"]'
    )
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "abc"}}}
    assert message(core.post(PODS, pod("b", containers=[container])), 400).startswith(
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
    )


def test_a_change_of_the_spec_counts(core: Cluster) -> None:
    core.post(PODS, pod("a")).ok()
    image = {"spec": {"containers": [{"name": "c", "image": "y:1"}]}}
    assert core.patch(f"{PODS}/a", image, "strategic-merge").ok()["metadata"]["generation"] == 2
    assert core.patch(f"{PODS}/a", {"spec": {"tolerations": []}}).ok()["metadata"]["generation"] == 2
    assert core.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}).ok()["metadata"]["generation"] == 2
    said = message(core.patch(f"{PODS}/a", {"spec": {"dnsPolicy": "Default"}}))
    assert said.startswith('Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than ')


def test_a_pod_is_bound_once(core: Cluster) -> None:
    core.post(PODS, pod("a")).ok()
    answer = core.post(f"{PODS}/a/binding", binding("a"))
    assert (answer.status, answer.json["status"], answer.json["code"]) == (201, "Success", 201)
    found = core.get(f"{PODS}/a").ok()
    assert found["spec"]["nodeName"] == "n"
    assert found["metadata"]["generation"] == 1
    [condition] = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["lastProbeTime"]) == ("PodScheduled", "True", None)
    for path in (f"{PODS}/a/binding", f"{CORE}/bindings"):
        said = 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"'
        assert message(core.post(path, binding("a", "m")), 409) == said


def test_what_cannot_be_bound(core: Cluster) -> None:
    core.post(PODS, pod("g", schedulingGates=[{"name": "x"}])).ok()
    assert message(core.post(f"{PODS}/g/binding", binding("g")), 409).endswith(
        "pod g has non-empty .spec.schedulingGates"
    )
    assert message(core.post(f"{PODS}/z/binding", binding("z")), 404) == 'pods "z" not found'
    assert message(core.post(f"{PODS}/g/binding", binding("h")), 400) == (
        "name in URL does not match name in Binding object"
    )
    wrong = {"metadata": {"name": "g"}, "target": {"kind": "Foo"}}
    assert "target.name: Required value" in message(core.post(f"{PODS}/g/binding", wrong))
    assert "uid" not in message(core.post(f"{CORE}/bindings", {"metadata": {"name": "g"}}))


def test_the_legacy_binding_binds(core: Cluster) -> None:
    core.post(PODS, pod("a")).ok()
    stale = binding("a")
    stale["metadata"]["uid"] = "other"
    assert message(core.post(f"{CORE}/bindings", stale), 409).startswith(
        'Operation cannot be fulfilled on pods "a": Precondition failed: UID in precondition: other'
    )
    assert core.post(f"{CORE}/bindings?dryRun=All", binding("a")).status == 201
    assert "nodeName" not in core.get(f"{PODS}/a").ok()["spec"]
    assert core.post(f"{CORE}/bindings", binding("a")).status == 201
    assert core.get(f"{PODS}/a").ok()["spec"]["nodeName"] == "n"


def test_a_pod_without_node_goes_at_once(core: Cluster) -> None:
    core.post(PODS, pod("a")).ok()
    last = core.delete(f"{PODS}/a").ok()
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0
    assert core.get(f"{PODS}/a").status == 404


def test_a_pod_on_a_node_gets_time(core: Cluster) -> None:
    core.post(PODS, pod("a", nodeName="n")).ok()

    def grace(path: str) -> tuple[int, int]:
        metadata = core.delete(path).ok()["metadata"]
        return metadata["deletionGracePeriodSeconds"], metadata["generation"]

    assert grace(f"{PODS}/a") == (30, 2)
    assert grace(f"{PODS}/a") == (30, 2)
    assert grace(f"{PODS}/a?gracePeriodSeconds=60") == (30, 2)
    assert grace(f"{PODS}/a?gracePeriodSeconds=5") == (5, 2)
    core.patch(f"{PODS}/a", {"metadata": {"labels": {"still": "here"}}}).ok()
    assert cells(core, PODS, "a")[2] == "Terminating"
    assert message(core.post(f"{PODS}/a/binding", binding("a")), 409).endswith("cannot be assigned to a host")
    assert grace(f"{PODS}/a?gracePeriodSeconds=0") == (0, 2)
    assert core.get(f"{PODS}/a").status == 404


def test_a_finalizer_outlasts_the_grace(core: Cluster) -> None:
    made = pod("a", nodeName="n")
    made["metadata"]["finalizers"] = ["example.com/f"]
    core.post(PODS, made).ok()
    core.delete(f"{PODS}/a").ok()
    assert core.delete(f"{PODS}/a?gracePeriodSeconds=0").ok()["metadata"]["deletionGracePeriodSeconds"] == 0
    assert core.get(f"{PODS}/a").status == 200
    core.patch(f"{PODS}/a", {"metadata": {"finalizers": None}}).ok()
    assert core.get(f"{PODS}/a").status == 404


def test_a_finished_pod_needs_no_time_and_a_long_one_has_an_end(core: Cluster) -> None:
    core.post(PODS, pod("a", nodeName="n")).ok()
    core.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}).ok()
    core.delete(f"{PODS}/a").ok()
    assert core.get(f"{PODS}/a").status == 404
    core.post(PODS, pod("b", nodeName="n", terminationGracePeriodSeconds=2**62)).ok()
    assert core.delete(f"{PODS}/b").ok()["metadata"]["deletionTimestamp"].startswith("2")


def test_pods_are_selected_by_field(core: Cluster) -> None:
    core.post(PODS, pod("a", nodeName="n", hostNetwork=True, serviceAccountName="x")).ok()
    core.post(PODS, pod("b", restartPolicy="Never")).ok()
    addresses = {"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}
    core.patch(f"{PODS}/a/status", {"status": {"phase": "Running", **addresses}}).ok()

    def names(fields: str) -> list[str]:
        return [item["metadata"]["name"] for item in core.get(f"{PODS}?fieldSelector={fields}").ok()["items"]]

    assert names("spec.nodeName=n") == names("status.phase=Running") == names("spec.serviceAccountName=x") == ["a"]
    assert names("spec.nodeName=") == names("spec.restartPolicy=Never") == names("spec.hostNetwork=false") == ["b"]
    assert names("status.podIP=10.1.1.1") == names("spec.hostNetwork=true") == ["a"]
    assert message(core.get(f"{PODS}?fieldSelector=spec.foo=1"), 400).endswith("field label not supported: spec.foo")
    assert cells(core, PODS, "a")[5:] == ["10.1.1.1", "n", "<none>", "<none>"]


def test_ephemeral_containers_and_resources_have_their_own_paths(core: Cluster) -> None:
    container = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "1"}}}
    core.post(PODS, pod("a", containers=[container])).ok()
    added = {"spec": {"ephemeralContainers": [{"name": "d", "image": "y:1"}]}}
    assert core.patch(f"{PODS}/a/ephemeralcontainers", added, "strategic-merge").ok()["metadata"]["generation"] == 2
    bigger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    resized = core.patch(f"{PODS}/a/resize", bigger, "strategic-merge").ok()
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    bigger["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    assert message(core.patch(f"{PODS}/a", bigger, "strategic-merge")).startswith('Pod "a" is invalid: spec: Forbidden')
    assert core.get(f"{PODS}/a/resize").ok()["spec"] == resized["spec"]
    assert "ephemeralContainers: Forbidden: cannot be set on create" in message(
        core.post(PODS, pod("b", ephemeralContainers=[{"name": "d", "image": "y"}]))
    )


def test_what_only_a_node_could_answer_is_refused_by_name(core: Cluster) -> None:
    core.post(PODS, pod("free")).ok()
    core.post(PODS, pod("bound", nodeName="n")).ok()
    core.post("/api/v1/nodes", {"metadata": {"name": "n"}}).ok()
    assert core.get(f"{PODS}/free/log").body == b""
    assert message(core.get(f"{PODS}/free/log?container=z"), 400) == "container z is not valid for pod free"
    assert message(core.get(f"{PODS}/free/exec?command=x"), 400) == "pod free does not have a host assigned"
    for path in ("log", "exec", "attach", "portforward", "proxy", "proxy/some/path"):
        said = "this server does not connect to kubelets: ask node n itself, for example with crictl"
        assert message(core.get(f"{PODS}/bound/{path}"), 501) == said
    core.patch("/api/v1/nodes/n", {"metadata": {"labels": {"shoal.dev/simulated": "true"}}}, "merge").ok()
    said = (
        "node n is simulated and runs no containers: kubectl describe shows the state and the Events of its pods;"
        " containers run in clusters with real nodes, such as a KINDCluster or a joined cluster (docs/kind.md)"
    )
    for path in (f"{PODS}/bound/log", f"{PODS}/bound/exec?command=x", "/api/v1/nodes/n/proxy/metrics"):
        assert message(core.get(path), 501) == said
    assert core.post(f"{PODS}/bound/exec?command=x", {}).status == 501
    assert "does not connect to pods, and so not to Service kubernetes" in message(
        core.get(f"{SERVICES}/kubernetes/proxy/"), 501
    )
    assert core.get(f"{PODS}/nobody/log").status == 404


# --- evictions ---


@pytest.fixture
def guarded(core: Cluster) -> Cluster:
    core.post(PODS, pod("a", {"app": "x"}, nodeName="n")).ok()
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    core.patch(f"{PODS}/a/status", {"status": ready}).ok()
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    core.post(BUDGETS, budget).ok()
    return core


def budget_status(cluster: Cluster, **status: object) -> None:
    cluster.patch(f"{BUDGETS}/b/status", {"status": {"observedGeneration": 1, **status}}).ok()


def test_an_eviction_without_budget_is_a_deletion(core: Cluster) -> None:
    core.post(PODS, pod("a")).ok()
    assert message(core.post(f"{PODS}/a/eviction", eviction("b")), 400) == (
        "name in URL does not match name in Eviction object"
    )
    answer = core.post(f"{PODS}/a/eviction", eviction("a"))
    assert (answer.status, answer.json["status"]) == (201, "Success")
    assert core.get(f"{PODS}/a").status == 404


def test_a_budget_holds_an_eviction_up(guarded: Cluster) -> None:
    budget_status(guarded, desiredHealthy=1, currentHealthy=1)
    answer = guarded.post(f"{PODS}/a/eviction", eviction("a"))
    assert message(answer, 429) == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.json["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]
    assert "deletionTimestamp" not in guarded.get(f"{PODS}/a").ok()["metadata"]


def test_a_budget_is_spent(guarded: Cluster) -> None:
    budget_status(guarded, disruptionsAllowed=1, desiredHealthy=1, currentHealthy=2)
    assert guarded.post(f"{PODS}/a/eviction?dryRun=All", eviction("a")).status == 201
    assert guarded.get(f"{BUDGETS}/b").ok()["status"]["disruptionsAllowed"] == 1
    assert guarded.post(f"{PODS}/a/eviction", eviction("a", gracePeriodSeconds=7)).status == 201
    found = guarded.get(f"{PODS}/a").ok()
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    assert found["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    spent = guarded.get(f"{BUDGETS}/b").ok()["status"]
    assert spent["disruptionsAllowed"] == 0
    assert list(spent["disruptedPods"]) == ["a"]


def test_two_budgets_are_too_many(guarded: Cluster) -> None:
    guarded.post(BUDGETS, {"metadata": {"name": "c"}, "spec": {"selector": {}}}).ok()
    assert message(guarded.post(f"{PODS}/a/eviction", eviction("a")), 500).startswith(
        "This pod has more than one PodDisruptionBudget"
    )


# --- services ---


def test_every_cluster_has_its_api_service(core: Cluster, cluster: Cluster) -> None:
    assert core.get(f"{SERVICES}/kubernetes").ok()["spec"]["clusterIP"] == "10.0.0.1"
    assert cluster.get(f"{SERVICES}/kubernetes").status == 404


def test_a_service_gets_an_address_nobody_owns(core: Cluster) -> None:
    made = core.post(f"{SERVICES}?fieldManager=m", service("a")).ok()
    assert made["spec"]["clusterIP"].startswith("10.0.")
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    assert (made["spec"]["ipFamilies"], made["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    [entry] = made["metadata"]["managedFields"]
    assert "f:clusterIP" not in entry["fieldsV1"]["f:spec"]
    again = core.put(f"{SERVICES}/a", service("a")).ok()
    assert again["spec"]["clusterIP"] == made["spec"]["clusterIP"]


def test_addresses_are_taken_once(core: Cluster) -> None:
    assert message(core.post(SERVICES, service("a", clusterIP="10.0.0.1"))) == (
        'Service "a" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: '
        "provided IP is already allocated"
    )
    assert message(core.post(SERVICES, service("a", clusterIP="10.9.0.1"))).endswith(
        "failed to allocate IP 10.9.0.1: the provided network does not match the current range"
    )
    core.post(SERVICES, service("a", clusterIP="10.0.0.9")).ok()
    assert core.post(SERVICES, service("b", clusterIP="10.0.0.9")).status == 422
    core.delete(f"{SERVICES}/a").ok()
    assert core.post(SERVICES, service("b", clusterIP="10.0.0.9")).ok()["spec"]["clusterIPs"] == ["10.0.0.9"]
    assert "may not change once set" in message(core.patch(f"{SERVICES}/b", {"spec": {"clusterIP": "10.0.0.8"}}))


def test_node_ports_come_and_go_with_the_type(core: Cluster) -> None:
    fixed = [{"port": 80, "nodePort": 30100}]
    core.post(SERVICES, service("a", type="NodePort", ports=fixed)).ok()
    assert message(core.post(SERVICES, service("b", type="NodePort", ports=fixed))) == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30100: provided port is already allocated'
    )
    far = [{"port": 80, "nodePort": 80}]
    assert message(core.post(SERVICES, service("b", type="NodePort", ports=far))).endswith(
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )
    balanced = core.post(SERVICES, service("c", type="LoadBalancer", externalTrafficPolicy="Local")).ok()["spec"]
    assert 30000 <= balanced["ports"][0]["nodePort"] <= 32767
    assert balanced["healthCheckNodePort"] not in (balanced["ports"][0]["nodePort"], 30100)
    plain = core.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}).ok()["spec"]
    assert "nodePort" not in plain["ports"][0]
    assert cells(core, SERVICES, "c")[3] == "<pending>"


def test_headless_and_external_services_have_no_address(core: Cluster) -> None:
    headless = core.post(SERVICES, service("a", clusterIP="None")).ok()["spec"]
    assert (headless["clusterIPs"], headless["ipFamilyPolicy"]) == (["None"], "RequireDualStack")
    outside = core.post(SERVICES, {"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "x.y"}})
    assert "clusterIP" not in outside.ok()["spec"]
    assert cells(core, SERVICES, "b")[1:5] == ["ExternalName", "<none>", "x.y", "<none>"]
    core.patch(f"{SERVICES}/b", {"spec": {"type": "ClusterIP", "ports": [{"port": 1}], "externalName": None}}).ok()
    assert core.get(f"{SERVICES}/b").ok()["spec"]["clusterIP"].startswith("10.0.")


def test_one_node_port_serves_a_port_of_two_protocols(core: Cluster) -> None:
    ports = [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}, {"name": "web", "port": 80}]
    numbers = [
        port["nodePort"]
        for port in core.post(SERVICES, service("dns", type="NodePort", ports=ports)).ok()["spec"]["ports"]
    ]
    assert numbers[0] == numbers[1] != numbers[2]
    ports[1]["nodePort"] = 30777
    given = core.post(SERVICES, service("given", type="NodePort", ports=ports)).ok()["spec"]["ports"]
    assert [port["nodePort"] for port in given[:2]] == [30777, 30777]


def test_the_edges_of_the_network_are_nobodys(core: Cluster) -> None:
    for edge in ("10.0.0.0", "10.0.255.255", "10.1.0.1"):
        said = f"failed to allocate IP {edge}: the provided network does not match the current range"
        assert said in message(core.post(SERVICES, service("a", clusterIP=edge)))


def test_what_a_service_had_is_free_again(core: Cluster) -> None:
    asked = service("a", type="NodePort", clusterIP="10.0.0.77", ports=[{"port": 80, "nodePort": 30077}])
    core.post(SERVICES, asked).ok()
    assert core.post(SERVICES, {**asked, "metadata": {"name": "b"}}).status == 422
    core.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}).ok()
    core.post(SERVICES, service("b", type="NodePort", ports=[{"port": 80, "nodePort": 30077}])).ok()
    core.delete(f"{SERVICES}/a").ok()
    core.post(SERVICES, service("c", clusterIP="10.0.0.77")).ok()


def test_services_made_at_once_share_nothing(core: Cluster) -> None:
    def make(i: int) -> list[object]:
        own = Cluster(core.server, core.name)
        try:
            spec = own.post(SERVICES, service(f"s{i}", type="NodePort")).ok()["spec"]
            return [spec["clusterIP"], spec["ports"][0]["nodePort"]]
        finally:
            own.close()

    def race(i: int) -> int:
        own = Cluster(core.server, core.name)
        try:
            return own.post(SERVICES, service(f"r{i}", clusterIP="10.0.0.50")).status
        finally:
            own.close()

    with ThreadPoolExecutor(8) as threads:
        taken = [value for pair in threads.map(make, range(24)) for value in pair]
        assert len(set(taken)) == 48
        assert sorted(threads.map(race, range(8))) == [201] + [422] * 7


# --- the others ---


def test_a_node_may_come_with_its_status(core: Cluster) -> None:
    labels = {"node-role.kubernetes.io/worker": ""}
    status = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": True}, "status": status}
    assert core.post("/api/v1/nodes", node).ok()["status"]["allocatable"] == {"cpu": "4"}
    assert cells(core, "/api/v1/nodes", "n")[1:3] == ["Ready,SchedulingDisabled", "worker"]
    core.post("/api/v1/nodes", {"metadata": {"name": "m"}}).ok()

    def names(value: str) -> list[str]:
        listed = core.get(f"/api/v1/nodes?fieldSelector=spec.unschedulable={value}").ok()["items"]
        return [item["metadata"]["name"] for item in listed]

    assert (names("true"), names("false")) == (["n"], ["m"])


def test_a_controller_scales(core: Cluster) -> None:
    path = f"{CORE}/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    core.post(path, {"metadata": {"name": "r"}, "spec": {"template": template}}).ok()
    scale = core.get(f"{path}/r/scale").ok()
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "a=b"})
    core.patch(f"{path}/r/scale", {"spec": {"replicas": 3}}).ok()
    found = core.get(f"{path}/r").ok()
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (3, 2)
    row = cells(core, path, "r")
    assert row[1:4] + row[5:] == [3, 0, 0, "c", "x:1", "a=b"]


def test_volumes_and_claims(core: Cluster) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    volume = core.post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec}).ok()
    assert volume["status"]["phase"] == "Pending"
    assert cells(core, "/api/v1/persistentvolumes", "v")[1:5] == ["1Gi", "RWO", "Retain", "Pending"]
    path = f"{CORE}/persistentvolumeclaims"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    core.post(path, {"metadata": {"name": "c"}, "spec": claim}).ok()
    core.patch(f"{path}/c", {"spec": {"volumeName": "v"}}).ok()
    said = message(core.patch(f"{path}/c", {"spec": {"volumeName": "w"}}))
    assert said.startswith('PersistentVolumeClaim "c" is invalid: spec: Forbidden: spec is immutable after creation')
    bound = {"phase": "Bound", "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"]}
    core.patch(f"{path}/c/status", {"status": bound}).ok()
    assert cells(core, path, "c")[1:5] == ["Bound", "v", "1Gi", "RWO"]


def test_endpoints_quotas_and_limits_print(core: Cluster) -> None:
    subset = {"addresses": [{"ip": f"10.1.1.{i}"} for i in range(4)], "ports": [{"port": 80}]}
    core.post(f"{CORE}/endpoints", {"metadata": {"name": "e"}, "subsets": [subset]}).ok()
    assert cells(core, f"{CORE}/endpoints", "e")[1] == "10.1.1.0:80,10.1.1.1:80,10.1.1.2:80 + 1 more..."
    status = {"hard": {"limits.cpu": "2", "pods": "5", "cpu": "1"}, "used": {"pods": "1"}}
    request, limits, _ = (column.cell for column in COLUMNS["resourcequotas"])
    assert request is not None
    assert limits is not None
    assert request({"status": status}, 0.0) == "cpu: 0/1, pods: 1/5"
    assert limits({"status": status}, 0.0) == "limits.cpu: 0/2"
    limit = {"type": "Container", "max": {"cpu": "1"}}
    made = core.post(f"{CORE}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}).ok()
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "1"}
    assert message(core.post(f"{CORE}/limitranges", {"metadata": {"name": "m"}, "spec": {"limits": [limit] * 2}})) == (
        'LimitRange "m" is invalid: spec.limits[1].type: Duplicate value: "Container"'
    )
