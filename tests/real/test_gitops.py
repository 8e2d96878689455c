"""GitOps engines: Flux with its own apply library (peers/flux), Argo CD as a sequence of its requests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.building import built
from tests.real.programs import Kubectl, manifest
from tests.serving import DEFINITIONS, HANG, Cluster, config_map, widget, widget_definition

Object = dict[str, Any]
SHOP = "/api/v1/namespaces/shop"
MAP = f"{SHOP}/configmaps/settings"
WIDGET = "/apis/example.com/v1/namespaces/shop/widgets/one"
RBAC = "rbac.authorization.k8s.io"
OWNED = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def settings(**data: str) -> Object:
    return config_map("settings", data, namespace="shop")


def binding(role: str) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "robot", "namespace": "shop"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
    }


def repository() -> list[Object]:
    """What the engines bring, in no helpful order."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    shop = {"namespace": "shop"}
    return [
        widget("one", 3, **shop),
        settings(a="1", b="2"),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", **shop}, "stringData": {"k": "v"}},
        binding("robot"),
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "robot", **shop}, "rules": rules},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", **shop}},
        widget_definition(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    ]


SUBJECTS = {
    "Widget/shop/one",
    "ConfigMap/shop/settings",
    "Secret/shop/key",
    "RoleBinding/shop/robot",
    "Role/shop/robot",
    "ServiceAccount/shop/robot",
    "CustomResourceDefinition/widgets.example.com",
    "Namespace/shop",
}


class Flux:
    """The engine of kustomize-controller, on one logical cluster."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        path = built("flux")
        if path is None:
            pytest.skip("flux (not built)")
        self.cluster = cluster
        self._path = str(path)
        self._config = cluster.kubeconfig(home / "kubeconfig")
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}

    def run(self, *args: str, given: list[Object]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._path, *args, f"--kubeconfig={self._config}"],
            input=manifest(given),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    def __call__(self, *args: str, given: list[Object]) -> dict[str, str]:
        """What was done to each object."""
        done = self.run(*args, given=given)
        assert done.returncode == 0, f"flux {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        subjects_and_actions = (line.rpartition(" ") for line in done.stdout.splitlines())
        return {subject: action for subject, _, action in subjects_and_actions}


@pytest.fixture
def flux(cluster: Cluster, tmp_path: Path) -> Flux:
    return Flux(cluster, tmp_path)


def managers(cluster: Cluster, path: str) -> set[tuple[str, str]]:
    fields = cluster.get(path).ok()["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]) for entry in fields}


def test_flux_applies_by_stages_and_then_nothing(flux: Flux) -> None:
    assert flux("apply", given=repository()) == dict.fromkeys(SUBJECTS, "created")
    held = flux.cluster.get(WIDGET).ok()
    assert {key: held["metadata"]["labels"][key] for key in OWNED} == OWNED
    assert managers(flux.cluster, WIDGET) == {("kustomize-controller", "Apply")}
    assert flux("diff", given=repository()) == dict.fromkeys(SUBJECTS, "unchanged")
    assert flux("apply", given=repository()) == dict.fromkeys(SUBJECTS, "unchanged")
    assert flux.cluster.get(WIDGET).ok() == held


def test_flux_mends_drift(flux: Flux) -> None:
    flux("apply", given=repository())
    cluster = flux.cluster
    cluster.patch(MAP, {"data": {"a": "drifted", "c": "another's"}}).ok()
    cluster.patch(WIDGET, {"spec": {"size": 9}}).ok()
    drifted = {"ConfigMap/shop/settings": "configured", "Widget/shop/one": "configured"}
    assert flux("diff", given=repository()) == dict.fromkeys(SUBJECTS, "unchanged") | drifted
    assert cluster.get(MAP).ok()["data"]["a"] == "drifted", "to look is not to mend"
    assert flux("apply", given=repository()) == dict.fromkeys(SUBJECTS, "unchanged") | drifted
    assert cluster.get(MAP).ok()["data"] == {"a": "1", "b": "2", "c": "another's"}
    assert cluster.get(WIDGET).ok()["spec"]["size"] == 3
    assert flux("apply", given=repository()) == dict.fromkeys(SUBJECTS, "unchanged")


def test_flux_takes_over_from_kubectl(kubectl: Kubectl, tmp_path: Path) -> None:
    """It rewrites managedFields with a JSON patch; then what its manifests leave out goes."""
    flux = Flux(kubectl.cluster, tmp_path)
    kubectl("create", "namespace", "shop")
    kubectl("apply", "-f", "-", given=settings(a="1", b="2", c="3"))
    kubectl("apply", "--server-side", "-f", "-", given=config_map("other", {"a": "1", "b": "2"}, namespace="shop"))
    wanted = [settings(a="1", b="2"), config_map("other", {"a": "1"}, namespace="shop")]
    configured = {"ConfigMap/shop/settings": "configured", "ConfigMap/shop/other": "configured"}
    assert flux("apply", given=wanted) == configured
    found = kubectl.cluster.get(MAP).ok()
    assert found["data"] == {"a": "1", "b": "2"}
    assert LAST_APPLIED not in (found["metadata"].get("annotations") or {})
    assert managers(kubectl.cluster, MAP) == {("kustomize-controller", "Apply")}
    assert kubectl.cluster.get(f"{SHOP}/configmaps/other").ok()["data"] == {"a": "1"}
    assert set(flux("apply", given=wanted).values()) == {"unchanged"}


def test_flux_recreates_what_cannot_change_only_by_force(flux: Flux) -> None:
    cluster = flux.cluster
    flux("apply", given=repository())
    path = f"/apis/{RBAC}/v1/namespaces/shop/rolebindings/robot"
    uid = cluster.get(path).ok()["metadata"]["uid"]
    refused = flux.run("apply", given=[binding("another")])
    assert refused.returncode == 1
    assert "cannot change roleRef" in refused.stderr
    assert flux("apply", "--force", given=[binding("another")]) == {"RoleBinding/shop/robot": "created"}
    made = cluster.get(path).ok()
    assert made["roleRef"]["name"] == "another"
    assert made["metadata"]["uid"] != uid


def test_flux_prunes_its_own_only(flux: Flux) -> None:
    """By inventory, checked against its labels; it waits until all is gone, the definition and namespace too."""
    cluster = flux.cluster
    flux("apply", given=repository())
    cluster.post(f"{SHOP}/configmaps", config_map("foreign")).ok()
    foreign = config_map("foreign", namespace="shop")
    pruned = flux("prune", given=[settings(), foreign])
    assert pruned == {"ConfigMap/shop/settings": "deleted", "ConfigMap/shop/foreign": "skipped"}
    assert (cluster.get(MAP).status, cluster.get(f"{SHOP}/configmaps/foreign").status) == (404, 200)
    rest = [obj for obj in repository() if obj["kind"] != "ConfigMap"]
    assert set(flux("prune", given=rest).values()) == {"deleted"}
    gone = [WIDGET, SHOP, f"{DEFINITIONS}/widgets.example.com", f"{SHOP}/configmaps/foreign"]
    assert [cluster.get(path).status for path in gone] == [404] * len(gone)


TRACKING = "argocd.argoproj.io/tracking-id"
WAVES = {"Namespace": 0, "CustomResourceDefinition": 1}
ARGO = "fieldManager=argocd-controller&force=true"


class Argo:
    """The requests of an Argo CD application: one live-state cache by discovery, diffs at the server, syncs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def resources(self) -> Iterator[tuple[str, Object]]:
        """Everything that can be listed and watched, by aggregated discovery: collection path and resource."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        for root in ("/api", "/apis"):
            for group in self.cluster.get(root, Accept=accept).ok()["items"]:
                version = group["versions"][0]
                name = group["metadata"].get("name") or ""
                prefix = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                for resource in version.get("resources") or []:
                    if {"list", "watch"} <= set(resource["verbs"]):
                        yield f"{prefix}/{resource['resource']}", resource

    def live(self) -> dict[tuple[str, str], str]:
        """What is tracked as this application's: (kind, name) -> path."""
        found = {}
        for path, resource in self.resources():
            listed = self.cluster.get(f"{path}?limit=500").ok()
            for item in listed["items"]:
                metadata = item["metadata"]
                if (metadata.get("annotations") or {}).get(TRACKING, "").startswith("shop:"):
                    prefix, _, plural = path.rpartition("/")
                    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
                    kind = resource["responseKind"]["kind"]
                    found[(kind, metadata["name"])] = f"{prefix}{scope}/{plural}/{metadata['name']}"
        return found

    def path(self, obj: Object) -> str:
        paths = {
            (
                resource["responseKind"]["kind"],
                path.rpartition("/")[0].rpartition("/apis/")[2].removeprefix("/api/"),
            ): path
            for path, resource in self.resources()
        }
        prefix, _, plural = paths[(obj["kind"], obj["apiVersion"])].rpartition("/")
        scope = f"/namespaces/{obj['metadata']['namespace']}" if "namespace" in obj["metadata"] else ""
        return f"{prefix}{scope}/{plural}/{obj['metadata']['name']}"

    def is_synced(self, obj: Object) -> bool:
        """The server-side diff: what an apply would make of it, against what is there."""
        path = self.path(obj)
        predicted = self.cluster.patch(f"{path}?{ARGO}&dryRun=All", tracked(obj), "apply").ok()
        there = self.cluster.get(path)
        return there.status == 200 and _without_fields(predicted) == _without_fields(there.json)

    def sync(self, wanted: list[Object], policy: str = "Foreground") -> set[tuple[str, str]]:
        """Applies in waves, then prunes, the other way round, what is tracked and not wanted; what was pruned."""
        for obj in sorted(wanted, key=lambda obj: WAVES.get(obj["kind"], 2)):
            self.cluster.patch(f"{self.path(obj)}?{ARGO}", tracked(obj), "apply").ok()
        live = self.live()
        surplus = live.keys() - {(obj["kind"], obj["metadata"]["name"]) for obj in wanted}
        for key in sorted(surplus, key=lambda key: -WAVES.get(key[0], 2)):
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
            self.cluster.delete(live[key], options).ok()
        return surplus


def tracked(obj: Object) -> Object:
    name = f"shop:{obj['apiVersion']}/{obj['kind']}:{obj['metadata']['name']}"
    return obj | {"metadata": obj["metadata"] | {"annotations": {TRACKING: name}}}


def _without_fields(obj: Object) -> Object:
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def await_gone(cluster: Cluster, *paths: str) -> None:
    cluster.eventually(lambda: [cluster.get(path).status for path in paths] == [404] * len(paths))


@pytest.fixture
def argo(cluster: Cluster) -> Argo:
    return Argo(cluster)


def test_argo_syncs_and_finds_drift(argo: Argo) -> None:
    wanted = repository()
    assert argo.sync(wanted) == set()
    assert argo.live().keys() == {(obj["kind"], obj["metadata"]["name"]) for obj in wanted}
    assert [obj["kind"] for obj in wanted if not argo.is_synced(obj)] == []
    argo.cluster.patch(MAP, {"data": {"a": "drifted"}}).ok()
    assert [obj["kind"] for obj in wanted if not argo.is_synced(obj)] == ["ConfigMap"]
    argo.sync(wanted)
    assert [obj["kind"] for obj in wanted if not argo.is_synced(obj)] == []
    new = config_map("new", {"a": "1"}, namespace="shop")
    assert not argo.is_synced(new)
    assert argo.cluster.get(f"{SHOP}/configmaps/new").status == 404, "a diff makes nothing"


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_argo_prunes(argo: Argo, policy: str) -> None:
    cluster = argo.cluster
    wanted = repository()
    argo.sync(wanted)
    owner = cluster.get(MAP).ok()["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner["uid"]}
    child = config_map("child", ownerReferences=[reference | {"blockOwnerDeletion": True}])
    cluster.post(f"{SHOP}/configmaps", child).ok()
    rest = [obj for obj in wanted if obj["kind"] not in ("ConfigMap", "Widget")]
    assert argo.sync(rest, policy) == {("ConfigMap", "settings"), ("Widget", "one")}
    await_gone(cluster, MAP, WIDGET, f"{SHOP}/configmaps/child")
    assert argo.live().keys() == {(obj["kind"], obj["metadata"]["name"]) for obj in rest}


def test_argo_deletes_an_application_that_has_a_finalizer(argo: Argo) -> None:
    """The Application object stays until its controller has deleted what is its own and lets go of it."""
    cluster = argo.cluster
    argo.sync(repository())
    finalizer = "resources-finalizer.argocd.argoproj.io"
    apps = "/apis/example.com/v1/namespaces/default/widgets"
    cluster.post(apps, widget("app", finalizers=[finalizer])).ok()
    with cluster.watch(f"{apps}?fieldSelector=metadata.name=app") as watch:
        assert watch.next()["type"] == "ADDED"
        marked = cluster.delete(f"{apps}/app").ok()
        assert marked["metadata"]["deletionTimestamp"]
        assert watch.next()["type"] == "MODIFIED"
        argo.sync([widget_definition()])
        await_gone(cluster, MAP, WIDGET, SHOP)
        cluster.patch(f"{apps}/app", {"metadata": {"finalizers": None}}).ok()
        assert watch.next()["type"] == "DELETED"
    assert cluster.get(f"{apps}/app").status == 404
