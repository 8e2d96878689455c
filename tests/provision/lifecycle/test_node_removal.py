"""Node removal: deleted on request, empty, drifted from the NodePool, or with a deleted Machine."""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import condition_is
from tests.provision.hosted import CLAIMS, DEPLOYMENTS, NODES, PODS, POOLS, Hosted, Object, deployment, pod
from tests.serving import Server

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NEVER: dict[str, Any] = {"disruption": {"consolidateAfter": "Never"}}


def one_node(hosted: Hosted, **pool: Any) -> tuple[Object, Object]:
    """Bought for one pod that belongs to nobody."""
    hosted.pool(**pool)
    hosted.cluster.post(PODS, pod("one", "1500m")).ok()
    hosted.running(1)
    hosted.eventually(lambda: [each for each in hosted.items(CLAIMS) if condition_is(each, "Ready")])
    (claim,), (node,) = hosted.items(CLAIMS), hosted.items(NODES)
    return claim, node


def test_a_deleted_node_claim_moves_its_pods_and_takes_its_machine_along(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 2)).ok()
    hosted.running(2)
    (old,) = hosted.items(CLAIMS)
    hosted.cluster.delete(f"{CLAIMS}/{old['metadata']['name']}").ok()
    hosted.eventually(
        lambda: [each["metadata"]["name"] for each in hosted.items(CLAIMS)] not in ([], [old["metadata"]["name"]])
    )
    hosted.eventually(lambda: len(hosted.items(CLAIMS)) == 1 and len(hosted.machines()) == 1)
    hosted.running(2)
    assert hosted.replicas() == {"small": 1, "medium": 0, "large": 0}
    assert [each["metadata"]["name"] for each in hosted.items(NODES)] == [hosted.machines()[0]["metadata"]["name"]]


def test_a_budget_holds_a_node_until_it_allows_the_eviction(hosted: Hosted) -> None:
    hosted.pool(**NEVER)
    labelled = pod("one", "1500m")
    labelled["metadata"]["labels"] = {"app": "one"}
    hosted.cluster.post(PODS, labelled).ok()
    hosted.running(1)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"}, "spec": spec}
    hosted.cluster.post(BUDGETS, body).ok()
    claim = hosted.eventually(lambda: _with_node(hosted))
    hosted.cluster.delete(f"{CLAIMS}/{claim['metadata']['name']}").ok()
    (said, *_) = hosted.eventually(lambda: hosted.events("FailedDraining"))
    assert "pod default/one: " in said
    # Another node is on its way already, for when the pod may leave.
    node = hosted.cluster.get(f"{NODES}/{claim['status']['nodeName']}").ok()
    assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in node["spec"]["taints"]
    hosted.cluster.delete(f"{BUDGETS}/one").ok()
    hosted.eventually(lambda: _is_gone(hosted, claim))


def _with_node(hosted: Hosted) -> Object:
    """The NodeClaim, once it says which node it has: that is written after the node may take pods."""
    (claim,) = hosted.items(CLAIMS)
    return claim if (claim.get("status") or {}).get("nodeName") else {}


def _is_gone(hosted: Hosted, claim: Object) -> bool:
    """With its node and machine. What was bought in the meantime, in case its pods come back, may stay."""
    named = (claim["metadata"]["name"], claim["status"]["nodeName"])
    found = [*hosted.items(CLAIMS), *hosted.items(NODES), *hosted.machines()]
    return not any(each["metadata"]["name"] in named for each in found)


def test_a_pod_that_is_not_to_be_disrupted_goes_when_the_grace_is_over(hosted: Hosted) -> None:
    hosted.pool(**NEVER, template={"terminationGracePeriod": "1s"})
    precious = pod("one", "1500m")
    precious["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    hosted.cluster.post(PODS, precious).ok()
    hosted.running(1)
    claim = hosted.eventually(lambda: _with_node(hosted))
    hosted.cluster.delete(f"{CLAIMS}/{claim['metadata']['name']}").ok()
    (said, *_) = hosted.eventually(lambda: hosted.events("Disrupted"))
    assert "of its 30 seconds of grace; bypassing PodDisruptionBudgets and karpenter.sh/do-not-disrupt" in said
    hosted.eventually(lambda: not hosted.items(PODS) and _is_gone(hosted, claim))


def test_a_machine_somebody_deleted_ends_its_node_claim(hosted: Hosted) -> None:
    claim, _ = one_node(hosted, **NEVER)
    name = hosted.machines()[0]["metadata"]["name"]
    hosted.root.delete(hosted.path("machines", name)).ok()
    hosted.eventually(
        lambda: claim["metadata"]["name"] not in [each["metadata"]["name"] for each in hosted.items(CLAIMS)]
    )
    hosted.eventually(lambda: name not in [each["metadata"]["name"] for each in hosted.machines()])


def test_the_nodes_of_a_deleted_pool_go_with_it(hosted: Hosted) -> None:
    one_node(hosted, **NEVER)
    hosted.cluster.delete(f"{POOLS}/default").ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.machines() and not hosted.items(NODES))
    assert hosted.replicas() == {"small": 0, "medium": 0, "large": 0}


def test_an_empty_node_stays_where_its_pool_says_so(hosted: Hosted) -> None:
    claim, _ = one_node(hosted, **NEVER)
    hosted.cluster.delete(f"{PODS}/one").ok()
    hosted.eventually(lambda: not hosted.items(PODS))
    assert [each["metadata"]["uid"] for each in hosted.items(CLAIMS)] == [claim["metadata"]["uid"]]
    hosted.cluster.patch(f"{POOLS}/default", {"spec": {"disruption": {"consolidateAfter": "0s"}}}).ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.items(NODES))
    told = ["Disrupting Node: Empty", "Disrupting NodeClaim: Empty"]
    hosted.eventually(lambda: sorted(hosted.events("DisruptionTerminating")) == told)


def test_a_pod_that_fits_nothing_keeps_no_empty_node(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(PODS, pod("giant", "100")).ok()
    hosted.cluster.post(PODS, pod("one")).ok()
    hosted.running(1)
    hosted.cluster.delete(f"{PODS}/one").ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.machines())


def test_a_cluster_cannot_lay_claim_to_the_machines_of_another(hosted: Hosted, server: Server) -> None:
    one_node(hosted, **NEVER)
    (machine,) = hosted.machines()
    named = f"{hosted.namespace}/{machine['metadata']['name']}"
    other = Hosted(server)
    other.pool(**NEVER)
    reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
    said = {
        "cluster.x-k8s.io/machine": named,
        "karpenter.cluster.x-k8s.io/machine-deployment": f"{hosted.namespace}/east-small",
    }
    metadata = {"name": "thief", "annotations": said}
    spec = {"nodeClassRef": reference, "requirements": []}
    other.cluster.post(
        CLAIMS, {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}
    ).ok()
    other.eventually(lambda: not other.items(CLAIMS))
    other.close()
    (after,) = hosted.machines()
    assert after["metadata"]["annotations"] == machine["metadata"]["annotations"]
    assert "deletionTimestamp" not in after["metadata"]
    assert hosted.replicas()["small"] == 1


def test_a_node_with_do_not_disrupt_stays_empty(hosted: Hosted) -> None:
    claim, node = one_node(hosted, **NEVER)
    path = f"{NODES}/{node['metadata']['name']}"
    hosted.cluster.patch(path, {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}).ok()
    hosted.cluster.patch(f"{POOLS}/default", {"spec": {"disruption": {"consolidateAfter": "0s"}}}).ok()
    hosted.cluster.delete(f"{PODS}/one").ok()
    hosted.eventually(lambda: not hosted.items(PODS))
    hosted.cluster.post(PODS, pod("two", "1500m")).ok()
    hosted.running(1)
    assert [each["metadata"]["uid"] for each in hosted.items(CLAIMS)] == [claim["metadata"]["uid"]]


def test_a_hosted_cluster_goes_with_all_its_nodes(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 8)).ok()
    hosted.running(8)
    hosted.root.delete(hosted.path("clusters", "east")).ok()
    hosted.eventually(lambda: hosted.root.get(hosted.path("clusters", "east")).status == 404)
    assert not hosted.machines()
    assert not hosted.root.get(hosted.path("machinedeployments")).ok()["items"]
    hosted.eventually(lambda: hosted.cluster.get(CLAIMS).status == 404)
