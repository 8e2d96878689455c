"""Machines become Nodes in the desired number and from the desired template."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capi.management_cluster import Management, condition

Object = dict[str, Any]


def test_a_machine_is_joined_to_its_node(management: Management) -> None:
    management.apply()
    machine = management.settled(3)[0]
    name, namespace = machine["metadata"]["name"], management.namespace
    status = machine["status"]
    assert machine["spec"]["providerID"] == f"embedded://{namespace}/{name}"
    assert status["nodeRef"] == {"name": name}
    assert status["phase"] == "Running"
    assert status["failureDomain"] == "embedded-b"
    assert {address["type"] for address in status["addresses"]} == {"InternalIP", "Hostname"}
    assert status["nodeInfo"]["kubeletVersion"] == "v1.35.1"
    hosted = management.hosted()
    node = hosted.get(f"/api/v1/nodes/{name}").ok()
    hosted.close()
    assert node["spec"]["providerID"] == machine["spec"]["providerID"]
    assert {"key": "dedicated", "value": "web", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["capacity"] == {"cpu": "2", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        "node.kubernetes.io/instance-type": "small",
        "topology.kubernetes.io/zone": "embedded-b",
        "topology.kubernetes.io/region": "embedded",
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "shoal.dev/simulated": "true",
        "disk": "fast",
        "node.cluster.x-k8s.io/pool": "default",
    }
    assert labels.items() <= node["metadata"]["labels"].items()
    assert "team" not in node["metadata"]["labels"]
    assert node["metadata"]["annotations"]["cluster.x-k8s.io/machine"] == name


def test_machines_say_whose_they_are(management: Management) -> None:
    management.apply()
    machine = management.settled(3)[0]
    (machine_set,) = management.all("machinesets")
    labels = machine["metadata"]["labels"]
    assert labels["cluster.x-k8s.io/cluster-name"] == "east"
    assert labels["cluster.x-k8s.io/deployment-name"] == "east-default"
    assert labels["cluster.x-k8s.io/set-name"] == machine_set["metadata"]["name"]
    assert labels["machine-template-hash"] == machine_set["metadata"]["labels"]["machine-template-hash"]
    clone = management.get("embeddedmachines", machine["metadata"]["name"])
    assert clone["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"] == "east-default"
    (owner,) = clone["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Machine", machine["metadata"]["uid"], True)


def test_marked_machines_go_first(management: Management) -> None:
    management.apply()
    machines = management.settled(3)
    marked = max(machine["metadata"]["name"] for machine in machines)
    management.patch("machines", marked, {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}})
    management.scale(2)
    management.settled(2)
    assert marked not in management.names("machines")


def test_a_deleted_machine_is_replaced(management: Management) -> None:
    management.apply()
    gone = management.settled(3)[0]["metadata"]
    management.delete("machines", gone["name"])

    def replaced() -> bool:
        return gone["uid"] not in {machine["metadata"]["uid"] for machine in management.all("machines")}

    management.eventually(replaced)
    assert gone["name"] not in {machine["metadata"]["name"] for machine in management.settled(3)}


def test_a_node_deleted_behind_the_machine_comes_back(management: Management) -> None:
    management.apply()
    name = management.settled(3)[0]["metadata"]["name"]
    hosted = management.hosted()
    uid = hosted.get(f"/api/v1/nodes/{name}").ok()["metadata"]["uid"]
    hosted.delete(f"/api/v1/nodes/{name}").ok()

    def back() -> bool:
        answer = hosted.get(f"/api/v1/nodes/{name}")
        return answer.status == 200 and answer["metadata"]["uid"] != uid

    management.eventually(back)
    hosted.close()
    management.settled(3)


def change_template(management: Management, name: str) -> None:
    old = management.get("embeddedmachinetemplates", "east-default")
    new = {"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": {"name": name}, "spec": old["spec"]}
    management.root.post(management.path("embeddedmachinetemplates"), new).ok()
    reference = {"infrastructureRef": {"name": name}}
    management.patch("machinedeployments", "east-default", {"spec": {"template": {"spec": reference}}})


def cloned_from(management: Management, machine: Object) -> str:
    clone = management.get("embeddedmachines", machine["metadata"]["name"])
    name: str = clone["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"]
    return name


def test_a_new_template_is_rolled_out(management: Management) -> None:
    management.apply()
    before = {machine["metadata"]["name"] for machine in management.settled(3)}
    (old_set,) = management.names("machinesets")
    change_template(management, "east-second")

    def done() -> bool:
        return not before & management.names("machines") and old_set not in management.names("machinesets")

    management.eventually(done)
    machines = management.settled(3)
    assert {cloned_from(management, machine) for machine in machines} == {"east-second"}
    annotations = management.get("machinedeployments", "east-default")["metadata"]["annotations"]
    assert annotations["machinedeployment.clusters.x-k8s.io/revision"] == "2"


def test_on_delete_waits_for_people(management: Management) -> None:
    management.apply()
    before = [machine["metadata"]["name"] for machine in management.settled(3)]
    strategy = {"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": None}}}
    management.patch("machinedeployments", "east-default", {"spec": strategy})
    change_template(management, "east-second")

    def outdated() -> bool:
        status = management.get("machinedeployments", "east-default")["status"]
        return len(management.names("machinesets")) == 2 and status.get("upToDateReplicas") == 0

    management.eventually(outdated)
    assert management.names("machines") == set(before)
    management.delete("machines", before[0])

    def replaced() -> bool:
        status = management.get("machinedeployments", "east-default")["status"]
        return bool(status.get("upToDateReplicas") == 1 and status.get("availableReplicas") == 3)

    management.eventually(replaced)
    assert set(before[1:]) < management.names("machines")


def test_labels_reach_machines_in_place_and_leave_them_again(management: Management) -> None:
    management.apply()
    before = {machine["metadata"]["uid"]: machine["metadata"]["name"] for machine in management.settled(3)}
    mine = next(iter(before.values()))
    management.patch("machines", mine, {"metadata": {"labels": {"mine": "yes"}}})
    labels = {"node.cluster.x-k8s.io/pool": "other", "team": None, "new": "1"}
    template = {"metadata": {"labels": labels, "annotations": {"note": "x"}}}
    timeout = {"deletion": {"nodeDrainTimeoutSeconds": 60}}
    management.patch("machinedeployments", "east-default", {"spec": {"template": {**template, "spec": timeout}}})
    hosted = management.hosted()

    def reached() -> bool:
        nodes = hosted.get("/api/v1/nodes").ok()["items"]
        machines, clones = management.all("machines"), management.all("embeddedmachines")
        on_nodes = all(node["metadata"]["labels"]["node.cluster.x-k8s.io/pool"] == "other" for node in nodes)
        on_clones = all(clone["metadata"]["labels"].get("new") == "1" for clone in clones)
        return on_nodes and on_clones and all(is_changed(machine) for machine in machines)

    def is_changed(machine: Object) -> bool:
        metadata = machine["metadata"]
        told = metadata["labels"].get("new"), metadata["annotations"].get("note"), machine["spec"].get("deletion")
        return "team" not in metadata["labels"] and told == ("1", "x", timeout["deletion"])

    management.eventually(reached)
    assert management.get("machines", mine)["metadata"]["labels"]["mine"] == "yes"
    gone = {"metadata": {"labels": {"node.cluster.x-k8s.io/pool": None, "new": None}, "annotations": {"note": None}}}
    management.patch("machinedeployments", "east-default", {"spec": {"template": gone}})

    def left() -> bool:
        nodes = hosted.get("/api/v1/nodes").ok()["items"]
        labels = [obj["metadata"]["labels"] for obj in (*nodes, *management.all("machines"))]
        notes = [machine["metadata"].get("annotations") or {} for machine in management.all("machines")]
        keys = {"node.cluster.x-k8s.io/pool", "new"}
        return not any(keys & each.keys() for each in labels) and not any("note" in each for each in notes)

    management.eventually(left)
    hosted.close()
    assert {machine["metadata"]["uid"] for machine in management.all("machines")} == before.keys()


def test_orphans_are_adopted(management: Management) -> None:
    """A Machine and a MachineSet that lost their owner, as a restored backup has them, get it back."""
    management.apply()
    machine = management.settled(3)[0]
    (machine_set,) = management.all("machinesets")
    for plural, obj in (("machinesets", machine_set), ("machines", machine)):
        name = obj["metadata"]["name"]
        management.patch(plural, name, {"metadata": {"ownerReferences": []}})

        def is_owned(plural: str = plural, name: str = name) -> bool:
            owners = management.get(plural, name)["metadata"].get("ownerReferences") or []
            return any(owner.get("controller") for owner in owners)

        management.eventually(is_owned)
    settled = management.settled(3)
    assert machine["metadata"]["uid"] in {each["metadata"]["uid"] for each in settled}
    assert len(management.all("machinesets")) == 1


def test_a_machine_may_stand_alone(management: Management) -> None:
    management.apply()
    management.settled(3)
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedMachine", "name": "alone"}
    spec = {"clusterName": "east", "infrastructureRef": reference}
    clone = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "EmbeddedMachine"}
    management.root.post(management.path("embeddedmachines"), {**clone, "metadata": {"name": "alone"}, "spec": {}}).ok()
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "alone"}, "spec": spec}
    management.root.post(management.path("machines"), body).ok()
    management.eventually(lambda: (management.get("machines", "alone").get("status") or {}).get("phase") == "Running")
    machine = management.get("machines", "alone")
    assert [owner["kind"] for owner in machine["metadata"]["ownerReferences"]] == ["Cluster"]
    assert condition(machine, "UpToDate") is None
    management.delete("clusters", "east")
    management.eventually(lambda: not management.all("embeddedmachines") and not management.all("machines"))


def test_a_deletion_hook_holds_a_machine(management: Management) -> None:
    management.apply()
    name = management.settled(3)[0]["metadata"]["name"]
    hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup"
    management.patch("machines", name, {"metadata": {"annotations": {hook: ""}}})
    management.delete("machines", name)

    def held() -> bool:
        found = condition(management.get("machines", name), "Deleting")
        return found is not None and found["reason"] == "WaitingForPreTerminateHook"

    management.eventually(held)
    assert name in management.names("embeddedmachines")
    management.patch("machines", name, {"metadata": {"annotations": {hook: None}}})
    management.eventually(lambda: name not in management.names("machines"))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({"name": "nowhere"}, "EmbeddedMachineTemplate does not exist"),
        (
            {"apiGroup": "infrastructure.example.com", "kind": "MetalMachineTemplate"},
            "no infrastructure provider of MetalMachineTemplate runs here",
        ),
    ],
)
def test_a_missing_template_is_said(management: Management, reference: Object, reason: str) -> None:
    management.apply()
    management.settled(3)
    changed = {"spec": {"template": {"spec": {"infrastructureRef": reference}}}}
    management.patch("machinedeployments", "east-default", changed)

    def said() -> bool:
        found = condition(management.get("machinedeployments", "east-default"), "ScalingUp")
        return found is not None and found["message"].endswith(reason)

    management.eventually(said)
    assert len(management.all("machines")) == 3
