"""The chart in `deploy/chart/shoal`, rendered by Helm 3 and 4: servers take every object, of Shoal and of Kubernetes,
and what runs is what the plain manifests have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.peer import KubeApiserver
from shoal.assemble.commands.syncer_manifest import cluster_role_rules
from shoal.fleet.bundle.objects import BundleSpec, bundle_objects
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from tests.packages.chart_values import WRONG
from tests.packages.manifests import CHART, Object, check_arguments, containers, dry_run, id_of, plain, pod_of, read
from tests.real.building import built, program
from tests.serving import HANG, Server, fresh_cluster

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shoal-system"}}
MONITORS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
WORKER = {"name": "far", "hubSecret": "shoal-worker-far"}
SYNCER = {"enabled": True, "cluster": "far"}
PROVISIONER = {"enabled": True, "cluster": "default/east"}
ETCD = {"endpoints": ["https://etcd-0.etcd:2379", "https://etcd-1.etcd:2379"], "tlsSecret": "etcd"}
VALUES: dict[str, Object] = {
    "as it is": {},
    "three hubs on etcd": {
        "hub": {
            "replicas": 3,
            "etcd": ETCD,
            "advertiseAddress": "hub.example.com",
            "rootProfile": "cluster",
            "service": {
                "type": "LoadBalancer",
                "port": 7443,
                "annotations": {"a": "b"},
                "loadBalancerClass": "example.com/balancer",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
            "allowFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "persistence": {"size": "1Gi", "storageClass": "fast"},
            "encryption": {"keySecret": "keys", "kinds": "secrets,configmaps"},
            "bus": "nats://nats:4222",
            "syncMode": "pull",
            "audit": {"enabled": True},
            "extraArgs": ["--idle-seconds", "60"],
            "podAnnotations": {"a": "b"},
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        },
        "image": {"tag": "1+2", "pullSecrets": ["pull"]},
        "commonLabels": {"team": "fleet"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "control-plane", "operator": "Exists"}],
        "priorityClassName": "system-node-critical",
    },
    "everything": {
        "workers": [
            WORKER,
            {**WORKER, "name": "near", "capacity": 0, "location": "north", "size": "1Gi", "storageClass": "fast"}
            | {"bus": "nats://nats:4222", "resources": {}, "extraArgs": ["--idle-seconds", "60"]},
            {"name": "own"},
            {"name": "7"},
        ],
        "syncer": {**SYNCER, "resources": ["deployments.apps", "widgets.example.com"]},
        "provisioner": {**PROVISIONER, "machinesSecret": "", "planner": "karpenter", "replicas": 1},
    },
    "a cluster elsewhere": {
        "hub": {"enabled": False},
        "workers": [WORKER],
        "syncer": SYNCER,
        "provisioner": PROVISIONER,
        "networkPolicy": {"enabled": False},
    },
}


class Helm:
    def __init__(self, name: str, home: Path) -> None:
        path = built(name)
        if path is None:
            pytest.skip(f"{name} (not built)")
        self._path, self._home = path, home

    def run(self, verb: str, values: Object, *more: str) -> subprocess.CompletedProcess[str]:
        file = self._home / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        environ = {"HOME": str(self._home), "PATH": os.environ["PATH"]}
        command = [str(self._path), verb, *more, str(CHART), "--values", str(file), "--kube-version", "v1.36.4"]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=HANG)

    def template(self, values: Object) -> list[Object]:
        done = self.run("template", values, "shoal", "--namespace", "shoal-system")
        assert done.returncode == 0, done.stderr
        return read(done.stdout)


@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    return Helm(request.param, tmp_path)


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a real kube-apiserver."""
    found = {name: file for name in ("kube-apiserver", "etcd") if (file := program(name)) is not None}
    if len(found) < 2:
        pytest.skip("kube-apiserver (not built)")
    directory = tmp_path_factory.mktemp("kube-apiserver")
    with KubeApiserver(directory, found) as server:
        server.start()
        cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": "certs/apiserver.crt"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": server.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        (directory / "kubeconfig").write_text(yaml.safe_dump(config))
        yield directory / "kubeconfig"


@pytest.mark.parametrize("given", VALUES)
def test_every_object_is_taken_by_shoal(helm: Helm, given: str, still_server: Server, tmp_path: Path) -> None:
    cluster = fresh_cluster(still_server, "cluster")
    objects = helm.template(VALUES[given])
    for container in containers(objects):
        check_arguments(container["args"])
    try:
        cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", MONITORS).ok()
        dry_run([NAMESPACE, *objects], cluster.kubeconfig(tmp_path / "kubeconfig"), tmp_path)
    finally:
        cluster.close()


def test_every_object_is_taken_by_kubernetes(kubernetes: Path, tmp_path: Path) -> None:
    """Of the chart, and of the plain manifests."""
    helm = Helm("helm4", tmp_path)
    for objects in plain().values():
        dry_run(objects, kubernetes, tmp_path)
    for values in VALUES.values():
        objects = [obj for obj in helm.template(values) if obj["kind"] != "ServiceMonitor"]
        dry_run([NAMESPACE, *objects], kubernetes, tmp_path)


def test_helm_finds_nothing_wrong(helm: Helm) -> None:
    for values in VALUES.values():
        done = helm.run("lint", values, "--strict")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_values_are_refused_where_they_are_wrong(helm: Helm, wrong: str) -> None:
    values, place, word = WRONG[wrong]
    done = helm.run("template", values, "shoal")
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if f"at '{place}'" in line and word in line], done.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hub": {"replicas": 3}}, "hub.replicas above 1 need hub.etcd.endpoints: a SQLite store is of one process"),
        ({"workers": [WORKER, WORKER]}, "workers: there are two workers with the name far"),
    ],
)
def test_what_cannot_work_is_refused(helm: Helm, values: Object, words: str) -> None:
    done = helm.run("template", values, "shoal")
    assert done.returncode != 0
    assert words in done.stderr


def test_parts_are_off_until_asked_for(helm: Helm) -> None:
    kinds = {id_of(obj) for obj in helm.template({})}
    assert {name.partition(" ")[0] for name in kinds} == {
        *("ServiceAccount", "Service", "StatefulSet", "NetworkPolicy"),
        "Pod",  # of helm test
    }
    many = {id_of(obj) for obj in helm.template(VALUES["three hubs on etcd"])}
    assert {"PodDisruptionBudget shoal-system/shoal-hub", "ServiceMonitor shoal-system/shoal-hub"} <= many


def pods(objects: list[Object]) -> dict[str, dict[str, str]]:
    """The labels of pods, by the name of what creates them."""
    found = {}
    for obj in objects:
        if obj["kind"] in ("Deployment", "StatefulSet"):
            found[obj["metadata"]["name"]] = obj["spec"]["template"]["metadata"]["labels"]
        elif obj["kind"] == "Pod":
            found[obj["metadata"]["name"]] = obj["metadata"]["labels"]
    return found


def selector_of(obj: Object) -> dict[str, str]:
    spec = obj["spec"]
    selector = spec["podSelector"] if obj["kind"] == "NetworkPolicy" else spec["selector"]
    found: dict[str, str] = selector if obj["kind"] == "Service" else selector["matchLabels"]
    return found


@pytest.mark.parametrize("given", VALUES)
def test_what_selects_pods_selects_those_of_its_part(helm: Helm, given: str) -> None:
    objects = helm.template(VALUES[given])
    running = pods(objects)
    kinds = ("NetworkPolicy", "PodDisruptionBudget", "Service", "Deployment", "StatefulSet")
    selecting = [obj for obj in objects if obj["kind"] in kinds]
    assert selecting
    for obj in selecting:
        selector = selector_of(obj)
        selected = [name for name, labels in running.items() if selector.items() <= labels.items()]
        assert selected == [obj["metadata"]["name"].removesuffix("-pods")], id_of(obj)
    policies = [obj["metadata"]["name"] for obj in selecting if obj["kind"] == "NetworkPolicy"]
    protected = [] if given == "a cluster elsewhere" else sorted(name for name in running if name != "shoal-test")
    assert sorted(policies) == protected, "of every part, unless it is switched off"


def test_a_hub_that_lets_some_connect_lets_its_own_release_connect(helm: Helm) -> None:
    objects = helm.template({**VALUES["everything"], "hub": {"allowFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}})
    (policy,) = (obj for obj in objects if id_of(obj) == "NetworkPolicy shoal-system/shoal-hub")
    (rule,) = policy["spec"]["ingress"]
    others, own = rule["from"]
    assert others == {"ipBlock": {"cidr": "10.0.0.0/8"}}
    for name, labels in pods(objects).items():
        assert own["podSelector"]["matchLabels"].items() <= labels.items(), name
    everybody = helm.template(VALUES["everything"])
    (policy,) = (obj for obj in everybody if id_of(obj) == "NetworkPolicy shoal-system/shoal-hub")
    assert "from" not in policy["spec"]["ingress"][0]


def test_the_certificate_is_asked_for_all_names_of_the_service(helm: Helm) -> None:
    """Whatever the hub advertises: workers beside it and `helm test` use these."""
    objects = helm.template({"hub": {"advertiseAddress": "hub.example.com", "clusterDomain": "example.local"}})
    arguments = pod_of(objects, "shoal-hub")["containers"][0]["args"]
    names = [arguments[number + 1] for number, word in enumerate(arguments) if word == "--tls-san"]
    service = ["shoal-hub", "shoal-hub.shoal-system", "shoal-hub.shoal-system.svc"]
    assert names == [*service, "shoal-hub.shoal-system.svc.example.local"]
    (test,) = (obj for obj in objects if obj["kind"] == "Pod")
    urls = [word for word in test["spec"]["containers"][0]["args"] if word.startswith("https://")]
    assert urls == [f"https://{name}:6443" for name in names]


def test_workers_that_join_by_themselves(helm: Helm) -> None:
    """The hub may write the Secrets of these and nothing else; the worker sees its own; the test sees no token."""
    objects = helm.template(VALUES["everything"])
    by_id = {id_of(obj): obj for obj in objects}
    secrets = [f"shoal-worker-{name}-join" for name in ("own", "7")]
    assert [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Secret"] == secrets
    assert all("data" not in obj for obj in objects if obj["kind"] == "Secret"), "an upgrade takes nothing away"
    role = by_id["Role shoal-system/shoal-hub"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "patch"]}
    ]
    binding = by_id["RoleBinding shoal-system/shoal-hub"]
    assert [subject["name"] for subject in binding["subjects"]] == ["shoal-hub"]
    file = yaml.safe_load(by_id["ConfigMap shoal-system/shoal-hub-join"]["data"]["secrets.yaml"])
    assert file == {
        "address": "https://shoal-hub.shoal-system.svc:6443",
        "secrets": {"own": "shoal-system/shoal-worker-own-join", "7": "shoal-system/shoal-worker-7-join"},
    }
    hub = pod_of(objects, "shoal-hub")
    assert hub["automountServiceAccountToken"] is True
    arguments = hub["containers"][0]["args"]
    assert arguments[arguments.index("--join-secrets") + 1] == "/etc/shoal/join/secrets.yaml"
    for name in ("own", "7"):
        worker = pod_of(objects, f"shoal-worker-{name}")
        assert worker["automountServiceAccountToken"] is False
        (volume,) = (each for each in worker["volumes"] if each["name"] == "hub")
        assert volume["secret"]["secretName"] == f"shoal-worker-{name}-join"
        assert volume["secret"]["items"] == [{"key": "kubeconfig", "path": "kubeconfig"}]
    test = by_id["Pod shoal-system/shoal-test"]["spec"]
    assert test["automountServiceAccountToken"] is False
    sources = [each for volume in test["volumes"] for each in volume.get("projected", {}).get("sources", ())]
    assert [(each["secret"]["name"], [item["key"] for item in each["secret"]["items"]]) for each in sources] == [
        (secret, ["state"]) for secret in secrets
    ]


def test_a_hub_without_such_workers_has_no_token_of_its_cluster(helm: Helm) -> None:
    objects = helm.template({"workers": [WORKER]})
    assert pod_of(objects, "shoal-hub")["automountServiceAccountToken"] is False
    assert not {obj["kind"] for obj in objects} & {"Role", "RoleBinding", "Secret", "ConfigMap"}


def test_a_further_worker_restarts_no_hub(helm: Helm) -> None:
    one, two = (
        pod_of(helm.template({"workers": [{"name": name} for name in names]}), "shoal-hub")
        for names in (["far"], ["far", "near"])
    )
    assert one == two


def test_what_runs_is_what_the_plain_manifests_run(helm: Helm) -> None:
    """Pods alike but for what the chart adds to each; and the same rights."""
    chart, files = helm.template({"workers": [WORKER], "syncer": SYNCER, "provisioner": PROVISIONER}), plain()
    hub = pod_of(chart, "shoal-hub")
    hub["containers"][0]["args"] = hub["containers"][0]["args"][:-2]
    assert "--no-worker-processes" in hub["containers"][0]["args"][-1], "then comes the image for workers"
    assert hub == pod_of(files["hub"], "shoal-hub")
    assert pod_of(chart, "shoal-worker-far") == pod_of(bundle_objects(BundleSpec("far")), "shoal-worker-far")
    for part in ("syncer", "provisioner"):
        assert alike(pod_of(chart, f"shoal-{part}")) == alike(pod_of(files[part], f"shoal-{part}"))
    roles = {id_of(obj): obj["rules"] for obj in chart if "rules" in obj}
    assert roles.pop("ClusterRole -/shoal-syncer") == cluster_role_rules(DEFAULT_RESOURCES)
    wanted = {
        obj["kind"]: obj["rules"] for obj in files["provisioner"] if "rules" in obj and "-machines" not in id_of(obj)
    }
    assert {name.partition(" ")[0]: found for name, found in roles.items()} == wanted
    own = {"hub": {"enabled": False}, "provisioner": {**PROVISIONER, "machinesSecret": ""}}
    (both,) = (obj["rules"] for obj in helm.template(own) if obj["kind"] == "ClusterRole")
    (machines,) = (
        obj["rules"] for obj in files["provisioner"] if id_of(obj) == "ClusterRole -/shoal-provisioner-machines"
    )
    assert both == [*wanted["ClusterRole"], *machines]


def alike(pod: Any) -> Any:
    """Without what all pods of the chart have and those manifests do not need; namespaces are each one's own."""
    more = {"fsGroup", "fsGroupChangePolicy", "runAsGroup"}
    pod = {name: value for name, value in pod.items() if name != "enableServiceLinks"}
    pod["securityContext"] = {name: value for name, value in pod["securityContext"].items() if name not in more}
    (container,) = pod["containers"]
    container.pop("imagePullPolicy", None)
    container["args"] = [word for word in container["args"] if word not in ("shoal-system", "shoal-provisioner")]
    for volume in pod["volumes"]:
        volume.get("secret", {}).pop("defaultMode", None)
    return pod
