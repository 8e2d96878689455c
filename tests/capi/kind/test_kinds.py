"""The KINDCluster kind: samples, admission, columns, and the kind config built from a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.kinds.apiextensions.validation import validate_crd
from shoal.kinds.clusterapi import kindcluster
from shoal.kinds.shoal_crds import shoal_crds
from tests.capi.kind.kind_environment import kind_cluster
from tests.serving import Cluster, Server

Object = dict[str, Any]

EXAMPLES = Path(__file__).parents[3] / "examples/kind"
PATH = f"/apis/{kindcluster.API_VERSION}/namespaces/default/kindclusters"


@pytest.fixture(scope="module")
def root(still_server: Server) -> Any:
    cluster = Cluster(still_server, "root")
    yield cluster
    cluster.close()


def definition() -> Object:
    return next(crd for crd in shoal_crds("root") if crd["spec"]["names"]["kind"] == kindcluster.KIND)


def test_the_definition_is_valid_and_knows_the_versions_of_the_table() -> None:
    assert validate_crd(definition()) == []
    assert definition()["spec"]["names"]["shortNames"] == ["kc"]
    schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    version = schema["properties"]["kubernetesVersion"]
    assert version["enum"] == list(kindcluster.NODE_IMAGE_TAGS)
    assert version["default"] == kindcluster.DEFAULT_VERSION


@pytest.mark.parametrize(("sample", "version"), [("test1", "1.21"), ("test2", "1.20")])
def test_the_samples_apply(root: Cluster, sample: str, version: str) -> None:
    made = root.post(PATH, yaml.safe_load((EXAMPLES / f"{sample}.yaml").read_text())).ok()
    assert made["spec"] == {"clusterName": sample, "kubernetesVersion": version, "replacePolicy": "Refuse"}
    root.delete(f"{PATH}/{sample}").ok()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.clusterName: Required value"),
        (None, "spec: Required value"),
        ({"clusterName": "a" * 65}, "spec.clusterName: Too long: may not be more than 64 bytes"),
        ({"clusterName": "Upper"}, "spec.clusterName: Invalid value"),
        ({"clusterName": "-a"}, "spec.clusterName: Invalid value"),
        ({"clusterName": "a", "kubernetesVersion": "1.13"}, 'spec.kubernetesVersion: Unsupported value: "1.13"'),
        ({"clusterName": "a", "nodes": [{"role": "boss"}]}, 'spec.nodes[0].role: Unsupported value: "boss"'),
        ({"clusterName": "a", "images": ["--all"]}, "spec.images[0]: Invalid value"),
        ({"clusterName": "a", "images": ["two words"]}, "spec.images[0]: Invalid value"),
    ],
)
def test_invalid_ones_are_refused_at_admission(root: Cluster, spec: Object | None, message: str) -> None:
    obj = {**kind_cluster("bad"), "spec": spec}
    if spec is None:
        del obj["spec"]
    answer = root.post(PATH, obj)
    assert answer.status == 422
    assert message in answer["message"]


def test_columns(root: Cluster) -> None:
    table = root.get(PATH, Accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok()
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    shown = [("Name", 0), ("KubernetesVersion", 0), ("ClusterName", 0), ("Ready", 0)]
    assert columns == [*shown, ("Age", 1), ("Phase", 1)]


def an_object(**spec: Any) -> Object:
    obj = kind_cluster("a", **spec)
    obj["metadata"]["uid"] = "u"
    return obj


def test_the_config_of_a_spec() -> None:
    mark = {kindcluster.OWNER_NODE_LABEL: "u"}
    passed = {"featureGates": {"A": True}, "nodes": [{}, {"role": "worker", "image": "mine", "labels": {"a": "b"}}]}
    config = kindcluster.kind_config(an_object(config=passed, kubernetesVersion="1.37"))
    assert config == {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "name": "a",
        "featureGates": {"A": True},
        "nodes": [
            {"role": "control-plane", "image": "kindest/node:v1.37.0", "labels": mark},
            {"role": "worker", "image": "mine", "labels": {"a": "b", **mark}},
        ],
    }
    assert kindcluster.kind_config(an_object(image="mine"))["nodes"] == [
        {"role": "control-plane", "image": "mine", "labels": mark}
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"config": {"networking": {}}, "networking": {"ipFamily": "ipv4"}}, ""),
        (
            {"config": {"nodes": [{}]}, "nodes": [{"role": "control-plane"}]},
            "spec.nodes and spec.config.nodes are both set: set only one of them",
        ),
        (
            {"config": {"networking": {"ipFamily": "dual"}}, "networking": {"ipFamily": "ipv4"}},
            "spec.networking and spec.config.networking are both set: set only one of them",
        ),
        ({"config": {"name": "b"}}, "spec.config.name is 'b' and spec.clusterName 'a': leave out spec.config.name"),
        ({"config": {"apiVersion": "v1"}}, "spec.config has to be a Cluster of kind.x-k8s.io/v1alpha4"),
        ({"config": {"nodes": ["x"]}}, "spec.config.nodes has to be a list of objects"),
        ({"nodes": [{"role": "worker"}]}, "no node has the role control-plane"),
        ({"config": {"nodes": [{}]}, "networking": {"ipFamily": "ipv4"}}, ""),
        (
            {"config": {"containerdConfigPatches": ['[plugins."x".registry]\nconfig_path = "/etc/certs.d"']}},
            "",
        ),
        (
            {"config": {"containerdConfigPatches": ["[x]", "config_path /etc"]}},
            (
                "spec.config.containerdConfigPatches[1] is not TOML: Expected '=' after a key in a key/value pair "
                "(at line 1, column 13)"
            ),
        ),
        (
            {"config": {"containerdConfigPatches": ["x = " + "[" * 50_000]}},
            "spec.config.containerdConfigPatches[0] is not TOML: it is nested too deeply",
        ),
        (
            {"config": {"containerdConfigPatches": ["x" * 70_000]}},
            "spec.config.containerdConfigPatches[0] has more than 65536 characters",
        ),
        (
            {"config": {"containerdConfigPatches": "[x]"}},
            "spec.config.containerdConfigPatches has to be a list of strings",
        ),
        (
            {"nodes": [{"role": "control-plane", "extraMounts": [{"hostPath": "data", "containerPath": "/data"}]}]},
            "spec.nodes[0].extraMounts[0].hostPath has to be an absolute path, not 'data'",
        ),
        (
            {"config": {"nodes": [{"extraMounts": [{"hostPath": "/data"}]}]}},
            "spec.config.nodes[0].extraMounts[0].containerPath has to be an absolute path, not None",
        ),
        (
            {"config": {"nodes": [{"extraMounts": [{"hostPath": "/a:b", "containerPath": "/data"}]}]}},
            "spec.config.nodes[0].extraMounts[0].hostPath must not contain a colon: '/a:b'",
        ),
        (
            {"config": {"nodes": [{"extraMounts": [{"hostPath": "/a", "containerPath": "/data"}] * 2}]}},
            "spec.config.nodes[0].extraMounts[1].containerPath '/data' is mounted twice in this node",
        ),
        (
            {
                "config": {
                    "nodes": [{"extraMounts": [{"hostPath": "/a", "containerPath": "/b", "propagation": "Both"}]}]
                }
            },
            "spec.config.nodes[0].extraMounts[0].propagation has to be one of None, HostToContainer, Bidirectional",
        ),
        (
            {"config": {"nodes": [{"extraMounts": "/data"}]}},
            "spec.config.nodes[0].extraMounts has to be a list of objects",
        ),
    ],
)
def test_what_no_config_can_be_made_of(spec: Object, message: str) -> None:
    assert kindcluster.spec_error(an_object(**spec)) == message


def test_what_differs_is_named() -> None:
    made = kindcluster.immutable_fields(an_object())
    assert kindcluster.drift_message(an_object(replacePolicy="Replace"), made) == ""
    assert kindcluster.drift_message(an_object(image="x"), made) == "image is 'x', the cluster was created with 'none'"
    workers = an_object(nodes=[{"role": "control-plane"}, {"role": "worker", "count": 2}])
    message = "nodes are 1 control-plane, 2 worker, the cluster was created with 1 control-plane"
    assert kindcluster.drift_message(workers, made) == message
    # One that was created before the nodes were recorded.
    old = {key: value for key, value in made.items() if key != "nodes"}
    assert kindcluster.drift_message(an_object(), old) == ""
    assert "nodes, networking or config differ" in kindcluster.drift_message(workers, old)
    assert "nodes, networking or config differ" in kindcluster.drift_message(an_object(config={"nodes": "x"}), made)
    changed = kindcluster.drift_message(an_object(networking={"ipFamily": "dual"}), made)
    assert changed == "nodes, networking or config differ from those the cluster was created with"
