"""The pytest plugin, as another project uses it: pytest in a separate process."""

from __future__ import annotations

import json

import pytest

from tests.serving import widget_definition

pytest_plugins = ["pytester"]

TESTS = """
import json, os, subprocess, sys
import pytest

MAPS = "/api/v1/namespaces/default/configmaps"

@pytest.mark.parametrize("number", range(3))
def test_a_cluster_of_its_own(shoal_cluster, number):
    found = shoal_cluster.request("GET", MAPS)
    assert [each for each in found["items"] if each["metadata"]["name"] != "kube-root-ca.crt"] == []
    shoal_cluster.request("POST", MAPS, {"metadata": {"name": "mine"}, "data": {"a": "b"}})
    assert set(shoal_cluster.as_dict()) == {"url", "token", "ca", "kubeconfig", "name"}

def test_refusals_are_errors(shoal_cluster):
    with pytest.raises(Exception, match='404: configmaps "none" not found'):
        shoal_cluster.request("GET", MAPS + "/none")

@pytest.mark.shoal(nodes=2)
def test_nodes(shoal_cluster):
    names = [each["metadata"]["name"] for each in shoal_cluster.request("GET", "/api/v1/nodes")["items"]]
    assert names == ["node-1", "node-2"]

def test_two_clusters(shoal_clusters):
    one, two = shoal_clusters(), shoal_clusters(profile="hub")
    assert one.url != two.url
    one.request("POST", MAPS, {"metadata": {"name": "mine"}})
    with pytest.raises(Exception, match="404"):
        two.request("GET", MAPS + "/mine")

def test_definitions(shoal_cluster, shoal_crds):
    assert shoal_crds(os.environ["DEFINITIONS"]) == ["widgets.example.com"]
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    shoal_cluster.request("POST", "/apis/example.com/v1/namespaces/default/widgets", body)

def test_webhooks_beside_the_test_are_called_and_failures_explained(shoal_cluster):
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"]}
    hook = {
        "name": "beside.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    shoal_cluster.request("POST", path, {"metadata": {"name": "hooks"}, "webhooks": [hook]})
    with pytest.raises(Exception, match="dial tcp 127.0.0.1:1: connect: connection refused"):
        shoal_cluster.request("POST", MAPS, {"metadata": {"name": "mine"}})

def test_the_kubernetes_client(shoal_cluster):
    kubernetes = pytest.importorskip("kubernetes")
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(shoal_cluster.kubeconfig)))
    core.create_namespaced_config_map("default", {"metadata": {"name": "k"}})
    assert core.read_namespaced_config_map("k", "default").metadata.name == "k"

def test_lightkube(shoal_cluster):
    lightkube = pytest.importorskip("lightkube")
    from lightkube.resources.core_v1 import ConfigMap
    client = lightkube.Client(lightkube.KubeConfig.from_file(str(shoal_cluster.kubeconfig)))
    client.create(ConfigMap.from_dict({"metadata": {"name": "l", "namespace": "default"}}))
    assert client.get(ConfigMap, "l", namespace="default").metadata.name == "l"

def test_kr8s(shoal_cluster):
    kr8s = pytest.importorskip("kr8s")
    api = kr8s.api(kubeconfig=str(shoal_cluster.kubeconfig))
    assert [each.name for each in kr8s.objects.Namespace.list(api=api)].count("default") == 1
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(test_theirs=TESTS)
    folder = pytester.mkdir("crds")
    # JSON is YAML.
    (folder / "widgets.yaml").write_text(json.dumps(widget_definition()) + "\n---\nkind: Other\n")
    monkeypatch.setenv("DEFINITIONS", str(folder))
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "shoal.testing.plugin", "-p", "no:cacheprovider", *arguments)


def test_every_test_gets_a_cluster_of_its_own(project: pytest.Pytester) -> None:
    run(project).assert_outcomes(passed=11)


def test_with_xdist(project: pytest.Pytester) -> None:
    run(project, "-n", "2", "-k", "own or two_clusters").assert_outcomes(passed=4)


def test_it_costs_nothing_that_nobody_asks_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            loaded = {name for name in sys.modules if name.startswith("shoal.")}
            assert loaded <= {"shoal.testing", "shoal.testing.plugin"}
        """
    )
    run(pytester).assert_outcomes(passed=1)
