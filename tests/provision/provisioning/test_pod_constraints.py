"""Pod constraints against the running server: new nodes satisfy them."""

from __future__ import annotations

from tests.provision.hosted import CLAIMS, NODES, PODS, Hosted, deployment, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_pods_spread_over_hosts_get_as_many_nodes(hosted: Hosted) -> None:
    hosted.pool()
    web = deployment("web", 3, "100m")
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", **selector}
    apart = {"topologyKey": "kubernetes.io/hostname", **selector}
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread]
    web["spec"]["template"]["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    }
    hosted.cluster.post(DEPLOYMENTS, web).ok()
    assert len({each["spec"]["nodeName"] for each in hosted.running(3)}) == 3
    assert len(hosted.items(CLAIMS)) == 3


def test_a_pod_whose_volume_is_missing_is_told_and_nothing_is_bought(hosted: Hosted) -> None:
    hosted.pool()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nobody"}}
    hosted.cluster.post(PODS, pod("one", volumes=[volume])).ok()
    wanted = 'Failed to schedule pod, persistentvolumeclaim "nobody" not found'
    hosted.eventually(lambda: wanted in hosted.events("FailedScheduling"))
    assert not hosted.items(CLAIMS)


def test_pods_of_a_node_that_is_going_are_bought_for_before_they_leave(hosted: Hosted) -> None:
    hosted.pool()
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}, "metadata": {"name": "web"}}
    hosted.cluster.post(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget}).ok()
    lost = pod("lost", nodeSelector={"no": "where"})
    lost["metadata"]["labels"] = {"app": "web"}
    hosted.cluster.post(PODS, lost).ok()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 1)).ok()
    (running,) = hosted.running(1)
    (first,) = hosted.items(CLAIMS)
    hosted.cluster.delete(f"{CLAIMS}/{first['metadata']['name']}").ok()
    hosted.eventually(lambda: len(hosted.items(NODES)) == 2)
    again = hosted.cluster.get(f"{PODS}/{running['metadata']['name']}").ok()
    assert again["spec"]["nodeName"] == running["spec"]["nodeName"], "nothing made it leave yet"
    hosted.cluster.delete(f"{BUDGETS}/web").ok()
    hosted.eventually(
        lambda: [each["metadata"]["name"] for each in hosted.items(CLAIMS)] != [first["metadata"]["name"]]
    )
    hosted.eventually(lambda: len(hosted.items(CLAIMS)) == 1)


def test_daemonsets_count_with_the_requests_that_their_pods_have(hosted: Hosted) -> None:
    hosted.pool(requirements=[{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}])
    limit_ranges = "/api/v1/namespaces/agents/limitranges"
    hosted.cluster.post("/api/v1/namespaces", {"metadata": {"name": "agents"}}).ok()
    limits = {"type": "Container", "defaultRequest": {"cpu": "800m"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "default"}, "spec": {"limits": [limits]}}
    hosted.cluster.post(limit_ranges, body).ok()
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "agent"}]}}
    daemons = {"selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": daemons}
    hosted.cluster.post("/apis/apps/v1/namespaces/agents/daemonsets", body).ok()
    hosted.cluster.post(PODS, pod("first", "1")).ok()
    hosted.running(1)
    agents = "/api/v1/namespaces/agents/pods"
    hosted.eventually(lambda: [each["spec"].get("nodeName") for each in hosted.items(agents)])
    for name in ("second", "third"):
        hosted.cluster.post(PODS, pod(name, "1")).ok()
    hosted.running(3)
    requests = [each["spec"]["resources"]["requests"]["cpu"] for each in hosted.bought()]
    assert sorted(requests) == ["1", "1800m", "1800m"], "the first was bought before an agent ran"
