"""`shoal join-cluster` and `shoal syncer` from the command line, and the manifests in `deploy/syncer`."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from shoal import __version__
from shoal.assemble.commands.join_cluster import flatten_kubeconfig
from shoal.assemble.commands.syncer import DEFAULT_RESOURCES
from shoal.assemble.commands.syncer_manifest import (
    IMAGE_REPOSITORY,
    NAME,
    SyncerInstallation,
    cluster_role_rules,
    manifest,
)
from shoal.cli.joincluster import command
from tests.serving import HANG, config_map
from tests.sync.pull_mode import identity
from tests.sync.sync_environment import World
from tests.sync.test_sync_end_to_end import ASSIGNED, gone, there

MAIN = "from shoal.cli.main import main; main()"
DEPLOY = Path(__file__).parents[2] / "deploy" / "syncer"


def join(world: World, tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    hub = tmp_path / "hub"
    world.hub.kubeconfig(hub)
    done = CliRunner().invoke(command, [*arguments, "--kubeconfig", str(hub)])
    return done.exit_code, done.stdout, done.stderr


def test_push_registers_what_the_hub_can_reach(world: World, tmp_path: Path) -> None:
    member, name = world.member(), f"{world.namespace}-joined"
    file = member.kubeconfig(tmp_path / "member")
    world.adopt(name)
    given = (name, "--kubeconfig-of-cluster", str(file), "--namespace", world.namespace)
    code, out, said = join(world, tmp_path, *given)
    assert (code, out) == (0, ""), said
    assert said == f"{name} is registered\nnext: kubectl get clusters.workload.kcp.dev {name}\n"
    world.ready(name)
    token = world.server.token
    assert token not in said
    assert token not in str(world.cluster(name))
    assert join(world, tmp_path, *given)[0] == 0  # again: nothing new
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {}, labels={ASSIGNED: name})).ok()
    there(member, path)


def test_pull_prints_what_the_cluster_is_given(world: World, tmp_path: Path) -> None:
    member, name = world.member(), f"{world.namespace}-joined"
    world.adopt(name)
    code, out, said = join(world, tmp_path, name, "--mode", "pull", "--print")
    assert code == 0, said
    printed = list(yaml.safe_load_all(out))
    kinds = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret", "Deployment"]
    assert [obj["kind"] for obj in printed] == kinds
    secret = base64.b64decode(printed[4]["data"]["kubeconfig"]).decode()
    assert world.server.token not in secret
    assert world.cluster(name)["spec"]["syncMode"] == "pull"

    # Applied to a cluster, nothing is refused; and the syncer runs with just that kubeconfig.
    file = member.kubeconfig(tmp_path / "member")
    applied = join(world, tmp_path, name, "--mode", "pull", "--apply", "--kubeconfig-of-cluster", str(file))
    assert applied[0] == 0, applied[2]
    assert f"applied deployment/{NAME}" in applied[2]
    there(member, f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}")
    # With no more rights in the cluster than the manifest gives it.
    request = f"/api/v1/namespaces/{NAME}/serviceaccounts/{NAME}/token"
    token = str(member.post(request, {"spec": {}}).ok()["status"]["token"])
    file = member.kubeconfig(tmp_path / "rights", token)
    hub = tmp_path / "from"
    hub.write_text(secret)
    arguments = ["--from-kubeconfig", str(hub), "--to-kubeconfig", str(file), "--cluster", name]
    syncer = subprocess.Popen([sys.executable, "-c", MAIN, "syncer", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        world.ready(name)
        path = f"{world.path('configmaps')}/settings"
        world.hub.post(world.path("configmaps"), config_map("settings", {}, labels={ASSIGNED: name})).ok()
        there(member, path)
        world.hub.delete(path).ok()
        gone(world.hub, path)
        assert member.get(path).status == 404
    finally:
        os.kill(syncer.pid, signal.SIGTERM)
        _, errors = syncer.communicate(timeout=HANG)
    assert syncer.returncode == 0
    assert errors.startswith(f"syncing {name} until this process ends\n")
    assert "Traceback" not in errors


CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
SYNCERS = "/api/v1/namespaces/shoal-syncers"


def joined_by_push(world: World, tmp_path: Path, name: str) -> None:
    file = world.member().kubeconfig(tmp_path / f"member-of-{name}")
    given = (name, "--kubeconfig-of-cluster", str(file), "--namespace", world.namespace)
    code, _, said = join(world, tmp_path, *given)
    assert code == 0, said


def test_the_kubeconfig_goes_with_the_workload_cluster(world: World, tmp_path: Path) -> None:
    name = f"{world.namespace}-joined"
    secret = f"{world.path('secrets')}/{name}-kubeconfig"
    for _ in range(2):  # also one that is joined again under that name
        joined_by_push(world, tmp_path, name)
        joined_by_push(world, tmp_path, name)
        (owner,) = world.hub.get(secret).ok()["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Cluster", name)
        assert owner["uid"] == world.cluster(name)["metadata"]["uid"]
        world.hub.delete(f"{CLUSTERS}/{name}").ok()
        gone(world.hub, secret)


def test_a_secret_that_somebody_else_wrote_stays(world: World, tmp_path: Path) -> None:
    name = f"{world.namespace}-joined"
    secret = f"{world.path('secrets')}/{name}-kubeconfig"
    world.hub.post(world.path("secrets"), {"metadata": {"name": f"{name}-kubeconfig"}, "data": {"value": "eA=="}}).ok()
    world.adopt(name)
    for _ in range(2):
        joined_by_push(world, tmp_path, name)
        assert "ownerReferences" not in world.hub.get(secret).ok()["metadata"]
    # Nor is one deleted that a workload Cluster only names.
    named = world.member()
    world.register(named, f"{world.namespace}-named")
    reference = world.cluster(f"{world.namespace}-named")["spec"]["kubeconfigSecretRef"]
    for cluster in (name, f"{world.namespace}-named"):
        world.hub.delete(f"{CLUSTERS}/{cluster}").ok()
        gone(world.hub, f"{CLUSTERS}/{cluster}")
    marker = f"{world.namespace}-marker"
    joined_by_push(world, tmp_path, marker)
    world.hub.delete(f"{CLUSTERS}/{marker}").ok()
    gone(world.hub, f"{world.path('secrets')}/{marker}-kubeconfig")  # the garbage collector has come by since
    assert world.hub.get(secret).status == 200
    assert world.hub.get(f"/api/v1/namespaces/{reference['namespace']}/secrets/{reference['name']}").status == 200


def test_the_identity_of_a_syncer_goes_with_its_workload_cluster(world: World) -> None:
    """The next workload Cluster of that name has another one: the old token opens nothing."""
    name = f"{world.namespace}-pulled"
    first = identity(world, name)
    assert identity(world, name) == first, "joining again changes nothing"
    cluster = f"{CLUSTERS}/{name}"
    assert world.hub.request("GET", cluster, token=first).status == 200
    world.hub.delete(cluster).ok()
    gone(world.hub, f"{SYNCERS}/serviceaccounts/{name}")
    gone(world.hub, f"{SYNCERS}/secrets/{name}-token")
    second = identity(world, name)
    assert world.hub.request("GET", cluster, token=first).status == 401
    assert world.hub.request("GET", cluster, token=second).status == 200
    # Also without a pause in which the garbage collector could have come by.
    world.hub.delete(cluster).ok()
    third = identity(world, name)
    assert world.hub.request("GET", cluster, token=second).status == 401
    assert world.hub.request("GET", cluster, token=third).status == 200


def test_a_refused_join_leaves_nothing(world: World, tmp_path: Path) -> None:
    name = f"{world.namespace}-taken"
    body = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "spec": {"syncMode": "none"}}
    # Its finalizer keeps it, whatever the controller of registrations makes of a ManagedCluster that does not exist.
    metadata = {"name": name, "labels": {"shoal.dev/managedcluster": name}, "finalizers": ["example.com/test"]}
    world.hub.post(CLUSTERS, {**body, "metadata": metadata}).ok()
    file = world.member().kubeconfig(tmp_path / "member")
    for arguments in (("--kubeconfig-of-cluster", str(file), "--namespace", world.namespace), ("--mode", "pull")):
        assert join(world, tmp_path, name, *arguments)[0] == 1
    assert world.hub.get(f"{world.path('secrets')}/{name}-kubeconfig").status == 404
    assert world.hub.get(f"{SYNCERS}/serviceaccounts/{name}").status == 404
    world.hub.patch(f"{CLUSTERS}/{name}", {"metadata": {"finalizers": None}}).ok()
    world.adopt(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["east"], "--mode push requires --kubeconfig-of-cluster"),
        (["east", "--print"], "--apply and --print require --mode pull"),
        (["east", "--mode", "pull", "--apply"], "--apply requires --kubeconfig-of-cluster"),
        (["East"], "East: a lowercase RFC 1123 subdomain must consist of"),
        (["e" * 64], "at most 63 characters"),
        (["east", "--mode", "pull", "--hub-server", "http://hub"], "--hub-server http://hub: give a URL such as https"),
    ],
)
def test_what_is_typed_wrong(world: World, tmp_path: Path, arguments: list[str], said: str) -> None:
    code, _, errors = join(world, tmp_path, *arguments)
    assert code == 2
    assert said in errors


def test_a_kubeconfig_that_names_files_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("word\n")
    config = {
        "current-context": "b",
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in "ab"],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in "ab"],
        "users": [{"name": "a", "user": {"token": "other"}}, {"name": "b", "user": {"tokenFile": "token"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    whole = yaml.safe_load(flatten_kubeconfig(file))
    assert whole["users"] == [{"name": "b", "user": {"token": "word"}}]
    assert whole["clusters"] == [{"name": "b", "cluster": {"server": "https://b:6443"}}]


def test_rights_are_those_on_what_is_copied() -> None:
    given = cluster_role_rules(("deployments.apps", "configmaps"))
    written = {
        (g, r) for rule in given if "patch" in rule["verbs"] for g in rule["apiGroups"] for r in rule["resources"]
    }
    assert written == {("apps", "deployments"), ("", "configmaps")}
    # What the room for pods is made of.
    read = {r for rule in given if "list" in rule["verbs"] for r in rule["resources"]}
    assert read >= {"nodes", "pods", "nodepools"}
    assert ("*", "*") in {(rule["apiGroups"][0], rule["resources"][0]) for rule in cluster_role_rules(("*",))}


def test_the_manifests_in_deploy_are_these() -> None:
    """If not: python -m tests.sync.test_join_cluster"""
    found = [obj for file in ("syncer.yaml",) for obj in yaml.safe_load_all((DEPLOY / file).read_text())]
    assert found == _deployed()
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    assert listed["resources"] == ["syncer.yaml"]
    assert listed["secretGenerator"][0]["name"] == "shoal-syncer-hub"


def _deployed() -> list[dict[str, object]]:
    wanted = SyncerInstallation("far", "", f"{IMAGE_REPOSITORY}:{__version__}", DEFAULT_RESOURCES)
    return [obj for obj in manifest(wanted) if obj["kind"] != "Secret"]


if __name__ == "__main__":
    (DEPLOY / "syncer.yaml").write_text(yaml.safe_dump_all(_deployed(), sort_keys=False))
