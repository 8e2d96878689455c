"""Bundles on a server: applied, corrected, pruned, rolled out one by one, and left alone where a cluster does not
answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.fleet.bundle.objects import NAMESPACE
from shoal.fleet.bundle.remote_cluster import BUNDLE_RESOURCES
from shoal.fleet.resources import SECRETS, WORKERS
from shoal.objects.errors import NotFound
from tests.fleet.bundle.bundle_hub import DEPLOYMENTS, HUB, Place, hub_of, kubeconfig, place, said

Object = dict[str, Any]


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as found:
        yield found


async def test_a_cluster_gets_its_bundle(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():
        worker = await made.installed("far", inside)
        assert said(worker) == ("True", "Applied", "version 1.0.0 (ghcr.io/shoal/shoal:1.0.0) is applied and available")
        bundle = worker["status"]["bundle"]
        assert bundle.keys() == {"version", "image", "revision", "cluster", "time", "availableRevision"}
        assert worker["metadata"]["finalizers"] == ["infrastructure.cluster.x-k8s.io/worker-bundle"]
        for name in ("ServiceAccount", "NetworkPolicy", "PersistentVolumeClaim", "Secret", "Deployment"):
            obj = await inside.get(BUNDLE_RESOURCES[name], "shoal-worker-far", NAMESPACE)
            assert obj["metadata"]["labels"] == {
                "app.kubernetes.io/managed-by": "shoal",
                "shoal.dev/bundle-version": "1.0.0",
                "shoal.dev/worker": "far",
            }
            assert {entry["manager"] for entry in obj["metadata"]["managedFields"]} <= {"shoal-bundle", "shoal"}
        container = obj["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == "ghcr.io/shoal/shoal:1.0.0"


async def secret_of(inside: Any, worker: str = "far") -> Object:
    found: Object = await inside.get(SECRETS, f"shoal-worker-{worker}", NAMESPACE)
    return found


async def tokens(made: Place) -> list[str]:
    found, _ = await made.hub.list_all(SECRETS, "kube-system", labels="shoal.dev/bundle")
    return [obj["metadata"]["name"] for obj in found]


async def test_the_worker_joins_by_a_token_that_goes_when_it_has_joined(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():
        await made.installed("far", inside)
        config = hub_of(await secret_of(inside))
        assert config["clusters"][0]["cluster"]["server"] == HUB
        token = config["users"][0]["user"]["token"]
        assert await tokens(made) == [f"bootstrap-token-{token[:6]}"]
        made_for = await made.hub.get(SECRETS, f"bootstrap-token-{token[:6]}", "kube-system")
        assert made_for["metadata"]["annotations"]["shoal.dev/worker"] == "far"

        await made.heard("far")

        async def without() -> bool:
            return bool(hub_of(await secret_of(inside))["users"][0]["user"] == {})

        await made.eventually(without)
        await made.eventually(lambda: none(made))
        await made.heard("far", "Unknown")

        async def again() -> str:
            return str(hub_of(await secret_of(inside))["users"][0]["user"].get("token", ""))

        new = await made.eventually(again)
        assert new != token
        text = str(await made.get("far"))
        assert token not in text
        assert new not in text


async def none(made: Place) -> bool:
    return await tokens(made) == []


async def test_a_token_that_has_expired_is_followed_by_another(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():
        await made.installed("far", inside)
        (first,) = await tokens(made)
        await made.hub.delete(SECRETS, first, "kube-system")

        async def other() -> bool:
            found = await tokens(made)
            token = hub_of(await secret_of(inside))["users"][0]["user"]["token"]
            return found == [f"bootstrap-token-{token[:6]}"] and found != [first]

        await made.eventually(other)


async def test_what_somebody_changes_is_put_right_and_what_is_theirs_stays(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    name = "shoal-worker-far"
    async with made.bundles():
        await made.installed("far", inside)
        theirs = {"metadata": {"annotations": {"team": "blue"}}, "spec": {"replicas": 3}}
        await inside.merge_patch(DEPLOYMENTS, name, theirs, NAMESPACE)

        async def one() -> bool:
            found = await inside.get(DEPLOYMENTS, name, NAMESPACE)
            return bool(found["spec"]["replicas"] == 1 and found["metadata"]["annotations"]["team"] == "blue")

        await made.eventually(one)
        await inside.merge_patch(BUNDLE_RESOURCES["NetworkPolicy"], name, {"spec": {"ingress": [{}]}}, NAMESPACE)

        async def closed() -> bool:
            return not (await inside.get(BUNDLE_RESOURCES["NetworkPolicy"], name, NAMESPACE))["spec"].get("ingress")

        await made.eventually(closed)
        await inside.merge_patch(
            BUNDLE_RESOURCES["ServiceAccount"], name, {"metadata": {"labels": {"shoal.dev/worker": None}}}, NAMESPACE
        )

        async def labelled() -> bool:
            found = await inside.get(BUNDLE_RESOURCES["ServiceAccount"], name, NAMESPACE)
            return bool(found["metadata"]["labels"].get("shoal.dev/worker") == "far")

        await made.eventually(labelled)
        for kind in ("NetworkPolicy", "Secret", "Deployment"):
            before = await inside.get(BUNDLE_RESOURCES[kind], name, NAMESPACE)
            await inside.delete(BUNDLE_RESOURCES[kind], name, NAMESPACE)

            async def anew(kind: str = kind, uid: str = before["metadata"]["uid"]) -> bool:
                try:
                    return bool((await inside.get(BUNDLE_RESOURCES[kind], name, NAMESPACE))["metadata"]["uid"] != uid)
                except NotFound:
                    return False

            await made.eventually(anew)
        await made.installed("far", inside)
        # Nothing differs now: looks alone write nothing.
        before_looks = len(made.link.writes())
        asked = len(made.link.asked)

        async def looked() -> bool:
            made.clock.step(10.0)
            return len(made.link.asked) > asked + 12

        await made.eventually(looked)
        assert made.link.writes()[before_looks:] == []


async def test_a_claim_that_was_expanded_stays_so(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    claims = BUNDLE_RESOURCES["PersistentVolumeClaim"]
    async with made.bundles():
        await made.installed("far", inside)
        status = {"phase": "Bound", "capacity": {"storage": "10Gi"}}
        await inside.merge_patch(claims, "shoal-worker-far", {"status": status}, NAMESPACE, "status")
    await inside.merge_patch(
        claims, "shoal-worker-far", {"metadata": {"labels": {"shoal.dev/bundle-version": "0.1"}}}, NAMESPACE
    )
    async with made.bundles():

        async def labelled() -> bool:
            found = await inside.get(claims, "shoal-worker-far", NAMESPACE)
            return bool(found["metadata"]["labels"]["shoal.dev/bundle-version"] == "1.0.0")

        await made.eventually(labelled)
        assert said(await made.says("far", "Applied"))[0] == "True"


async def test_what_an_older_bundle_had_is_pruned_by_its_labels(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles("1.0.0"):
        await made.installed("far", inside)

    def config_map(name: str, **labels: str) -> Object:
        given = {key.replace("_", "/").replace("shoal/", "shoal.dev/"): value for key, value in labels.items()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": given}}

    ours = {"app.kubernetes.io/managed-by": "shoal", "shoal.dev/worker": "far"}
    old = config_map("old")
    old["metadata"]["labels"] = {**ours, "shoal.dev/bundle-version": "1.0.0"}
    unversioned = config_map("unversioned")
    unversioned["metadata"]["labels"] = ours
    other = config_map("other")
    other["metadata"]["labels"] = {**old["metadata"]["labels"], "shoal.dev/worker": "near"}
    for obj in (old, unversioned, other, config_map("theirs")):
        await inside.create(BUNDLE_RESOURCES["ConfigMap"], obj, NAMESPACE)
    async with made.bundles("1.1.0"):
        await made.gone(inside, BUNDLE_RESOURCES["ConfigMap"], "old")
        worker = await made.installed("far", inside, "1.1.0")
        assert worker["status"]["bundle"]["version"] == "1.1.0"
        left, _ = await inside.list_all(BUNDLE_RESOURCES["ConfigMap"], NAMESPACE)
        assert {obj["metadata"]["name"] for obj in left} >= {"unversioned", "other", "theirs"}


async def versions(made: Place, *names: str) -> list[str]:
    return [(await made.get(name))["status"]["bundle"]["version"] for name in names]


async def test_a_new_version_goes_to_one_worker_after_the_other(made: Place) -> None:
    names = ("a", "b", "c")
    inside = {name: await made.cluster(f"in-{name}") for name in names}
    for name in names:
        await made.worker(name, f"in-{name}")
    async with made.bundles("1.0.0"):
        for name in names:
            await made.installed(name, inside[name])
    async with made.bundles("2.0.0"):
        await made.says("a", "WorkerNotAvailable")
        old, new = (f"{version} (ghcr.io/shoal/shoal:{version})" for version in ("1.0.0", "2.0.0"))
        waits = f"version {old} is applied; the update to {new} waits for worker a"
        for name in ("b", "c"):
            assert said(await made.says(name, "UpdateWaits")) == ("True", "UpdateWaits", waits)
        assert await versions(made, *names) == ["2.0.0", "1.0.0", "1.0.0"]
    async with made.bundles("2.0.0"):
        # Begun anew in the midst of it: the same order goes on.
        await made.installed("a", inside["a"], "2.0.0")
        await made.says("b", "WorkerNotAvailable")
        assert (await versions(made, *names))[2] == "1.0.0"
        made.link.cut.add("in-c")
        await made.says("c", "ClusterUnreachable")
        await made.installed("b", inside["b"], "2.0.0")
        assert await versions(made, *names) == ["2.0.0", "2.0.0", "1.0.0"]
        made.link.cut.clear()
        await made.installed("c", inside["c"], "2.0.0")


async def test_a_worker_has_an_image_of_its_own_and_goes_back(made: Place) -> None:
    inside = {name: await made.cluster(f"in-{name}") for name in ("a", "b")}
    for name in inside:
        await made.worker(name, f"in-{name}")

    async def image(name: str, expected: str) -> None:
        async def so() -> bool:
            bundle = (await made.get(name))["status"].get("bundle") or {}
            deployment = await inside[name].get(DEPLOYMENTS, f"shoal-worker-{name}", NAMESPACE)
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            return bool(bundle.get("image") == container["image"] == expected)

        await made.eventually(so)

    async def choose(name: str, chosen: str | None) -> None:
        await made.hub.merge_patch(WORKERS, name, {"spec": {"image": chosen}}, NAMESPACE)

    async with made.bundles("1.0.0"):
        for name in inside:
            await made.installed(name, inside[name])
        await choose("b", "registry.example/shoal:bad")
        await image("b", "registry.example/shoal:bad")
        bundle = (await made.says("b", "WorkerNotAvailable"))["status"]["bundle"]
        assert bundle["previousImage"] == "ghcr.io/shoal/shoal:1.0.0"
        # It was never available with the bad image, so the image to go back to stays the same.
        await choose("b", "registry.example/shoal:worse")
        await image("b", "registry.example/shoal:worse")
        bundle = (await made.get("b"))["status"]["bundle"]
        assert bundle["previousImage"] == "ghcr.io/shoal/shoal:1.0.0"
        await choose("b", bundle["previousImage"])
        await image("b", bundle["previousImage"])
        await made.installed("b", inside["b"])
    async with made.bundles("2.0.0", image="registry.example/shoal:2"):
        await image("a", "registry.example/shoal:2")
        await made.says("a", "WorkerNotAvailable")
        await choose("a", "ghcr.io/shoal/shoal:1.0.0")  # the way back, while its update hangs
        await image("a", "ghcr.io/shoal/shoal:1.0.0")
        await image("b", "ghcr.io/shoal/shoal:1.0.0")
        await choose("b", None)
        await image("b", "registry.example/shoal:2")


async def test_a_cluster_that_does_not_answer_is_unknown_and_keeps_what_it_has(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():
        before = await made.installed("far", inside)
        made.link.cut.add("east")
        worker = await made.says("far", "ClusterUnreachable")
        message = "the API server of the cluster does not answer; its pods may still run"
        assert said(worker) == ("Unknown", "ClusterUnreachable", message)
        assert worker["status"]["bundle"] == before["status"]["bundle"]
        await inside.get(DEPLOYMENTS, "shoal-worker-far", NAMESPACE)
        made.link.cut.clear()
        assert said(await made.says("far", "Applied"))[0] == "True"


async def test_a_kubeconfig_that_now_leads_elsewhere_is_not_followed(made: Place) -> None:
    inside = await made.cluster("east")
    other = await made.cluster("west")
    await made.worker("far", "east")
    async with made.bundles():
        await made.installed("far", inside)
        reference = {"namespace": NAMESPACE, "name": "west-admin"}
        await made.hub.merge_patch(WORKERS, "far", {"spec": {"kubeconfigSecretRef": reference}}, NAMESPACE)
        worker = await made.says("far", "AnotherCluster")
        assert said(worker)[0] == "False"
        assert await made.world.is_gone(other, BUNDLE_RESOURCES["Namespace"], NAMESPACE)


async def test_a_cluster_is_of_one_worker(made: Place) -> None:
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():
        await made.installed("far", inside)
        await made.worker("second", "east")
        worker = await made.says("second", "ClusterTaken")
        assert said(worker)[2] == "Namespace shoal-system belongs to the bundle of worker far"
        await made.says("far", "Applied")


async def test_a_namespace_that_was_there_is_used_as_it_is(made: Place) -> None:
    inside = await made.cluster("east")
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"team": "blue"}}}
    await inside.create(BUNDLE_RESOURCES["Namespace"], theirs)
    await made.worker("far", "east")
    async with made.bundles():
        await made.installed("far", inside)
        found = await inside.get(BUNDLE_RESOURCES["Namespace"], NAMESPACE)
        assert "shoal.dev/worker" not in found["metadata"]["labels"]


async def test_what_is_refused_is_named(made: Place) -> None:
    await made.cluster("east")
    await made.secret("wrong-admin", "{token: hush}\n  {{")
    await made.worker("near", "east")
    await made.worker("lost", "nowhere")
    await made.worker("wrong", "wrong", hubAddress=HUB)
    await made.worker("process", "east", infrastructure="process")
    async with made.bundles(url="https://127.0.0.1:6443"):
        near = said(await made.says("near", "HubNotReachable"))
        assert near[0] == "False"
        assert "--advertise-address" in near[2]
        await made.hub.merge_patch(WORKERS, "lost", {"spec": {"hubAddress": HUB}}, NAMESPACE)
        assert said(await made.says("lost", "NoKubeconfig"))[2] == "Secret shoal-system/nowhere-admin not found"
        wrong = await made.says("wrong", "InvalidKubeconfig")
        assert said(wrong)[2].startswith("key 'value' of Secret shoal-system/wrong-admin is not a usable kubeconfig")
        assert "hush" not in str(wrong)
        process = said(await made.says("process", "InfrastructureChanged"))
        assert process[2] == "spec.kubeconfigSecretRef requires infrastructure: kind"
        await made.secret("nowhere-admin", "{}")
        await made.says("lost", "InvalidKubeconfig")


async def test_a_kubeconfig_that_its_cluster_does_not_accept(made: Place) -> None:
    await made.cluster("east")
    await made.hub.merge_patch(
        SECRETS, "east-admin", {"stringData": {"value": kubeconfig("east", "not-a-token")}}, NAMESPACE
    )
    await made.worker("far", "east")
    async with made.bundles():
        worker = await made.says("far", "AccessRefused")
        assert said(worker)[2].startswith("the cluster rejects the kubeconfig: ")
        await made.hub.merge_patch(SECRETS, "east-admin", {"stringData": {"value": kubeconfig("east")}}, NAMESPACE)
        await made.says("far", "WorkerNotAvailable")


@pytest.mark.parametrize("count", [1, 2, 4, 6])
async def test_ended_in_the_midst_and_begun_anew(made: Place, count: int) -> None:
    """After so many writes into its cluster."""
    inside = await made.cluster("east")
    await made.worker("far", "east")
    async with made.bundles():

        async def written() -> bool:
            return len(made.link.writes()) >= count

        await made.eventually(written)
    async with made.bundles():
        await made.installed("far", inside)
        assert len(await tokens(made)) == 1
        names = sorted({path for method, path in made.link.writes() if method == "PATCH"})
        assert len(names) == 6, "the same objects"


async def test_a_kubeconfig_that_may_not_list_is_told_which_kinds(made: Place) -> None:
    inside = await made.cluster("east")
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "looker"}}
    await inside.create(
        GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles", False), {**role, "rules": rules}
    )
    subject = {"kind": "ServiceAccount", "name": "looker", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looker"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    await inside.create(GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", False), binding)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looker"}}
    await inside.create(BUNDLE_RESOURCES["ServiceAccount"], account, "default")
    path = inside.resource_path(BUNDLE_RESOURCES["ServiceAccount"], "looker", "default", "token")
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    token = (await inside.request("POST", path, body=asked))["status"]["token"]
    await made.hub.merge_patch(SECRETS, "east-admin", {"stringData": {"value": kubeconfig("east", token)}}, NAMESPACE)
    await made.worker("far", "east")
    async with made.bundles():
        worker = await made.says("far", "AccessRefused")
        assert said(worker)[2].startswith("cannot list in the cluster: ServiceAccount, NetworkPolicy, ")
        assert token not in str(worker)
        assert await made.world.is_gone(inside, BUNDLE_RESOURCES["Namespace"], NAMESPACE)


async def test_what_the_cluster_refuses_is_named_with_its_words(made: Place) -> None:
    inside = await made.cluster("east")
    await inside.create(
        BUNDLE_RESOURCES["Namespace"], {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    labels = {"app": "theirs"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shoal-worker-far"}, "spec": spec}
    await inside.create(DEPLOYMENTS, theirs, NAMESPACE)
    await made.worker("far", "east")
    async with made.bundles():
        status, _, message = said(await made.says("far", "ApplyFailed"))
        assert status == "False"
        assert message.startswith("Deployment shoal-system/shoal-worker-far: ")
        assert "field is immutable" in message
