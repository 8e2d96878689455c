"""Text and lists that once took seconds of the loop: the cost of a request grows with its size, not with its square."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.stalls import STALL, stalls
from tests.serving import DEFINITIONS, Cluster, Object, Server, config_map, fresh_cluster, widget_definition

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@contextmanager
def no_stall(cluster: Cluster) -> Iterator[None]:
    with stalls(cluster.server) as found:
        yield
    assert found.longest < STALL


def define(cluster: Cluster, plural: str, schema: Object, **version: object) -> str:
    """Serves a kind; returns the path of its objects."""
    kind = plural.removesuffix("s").title()
    definition = widget_definition(schema={"openAPIV3Schema": {"type": "object", "properties": schema}}, **version)
    definition["metadata"]["name"] = f"{plural}.example.com"
    definition["spec"]["names"] = {"plural": plural, "singular": kind.lower(), "kind": kind}
    cluster.post(DEFINITIONS, definition).ok()
    return f"/apis/example.com/v1/namespaces/default/{plural}"


@pytest.mark.parametrize("text", [" " * 300_000, "a " * 150_000 + "<", '"' + "\\" * 300_000, "a." * 150_000])
def test_email_of_any_length_is_checked_once_through(cluster: Cluster, text: str) -> None:
    path = define(cluster, "letters", {"to": {"type": "array", "items": {"type": "string", "format": "email"}}})
    letter = {"apiVersion": "example.com/v1", "kind": "Letter", "metadata": {"name": "a"}}
    with no_stall(cluster):
        answer = cluster.post(path, {**letter, "to": [text, *[text[:1000]] * 100]})
    assert answer.status == 422
    assert "must be of type email" in answer["message"]
    assert cluster.post(path, {**letter, "to": ["A B <a@b.c>"]}).status == 201


@pytest.mark.parametrize("line", ["-----BEGIN A-----", "-----BEGIN A-----\n", "-----BEGIN A{0}-----\n"])
def test_pem_without_ends_is_read_once_through(cluster: Cluster, line: str) -> None:
    pem = b64encode("".join(line.format(number) for number in range(20_000)).encode()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "kubernetes.io/tls"}
    with no_stall(cluster):
        answer = cluster.post(SECRETS, {**secret, "data": {"tls.crt": pem, "tls.key": pem}})
    assert answer.status == 201
    assert "tls: failed to find any PEM data in certificate input" in answer.headers["warning"]


@pytest.mark.parametrize("name", ["iqn.2001-01.", "iqn.2001-01.a:"])
def test_iscsi_name_of_any_length_is_checked_once_through(server: Server, name: str) -> None:
    cluster = fresh_cluster(server, "cluster")
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "iscsi": {"targetPortal": "p", "lun": 0, "iqn": name * 20_000 + ","},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": spec}
    with no_stall(cluster):
        answer = cluster.post("/api/v1/persistentvolumes", volume)
    assert answer.status == 422
    assert "spec.iscsi.iqn" in answer["message"]
    cluster.close()


def test_printer_column_that_finds_every_way_to_a_value_is_left_empty(cluster: Cluster) -> None:
    columns = [
        {"name": "Deep", "type": "string", "jsonPath": "..a..a..a..a..a..missing"},
        {"name": "Kind", "type": "string", "jsonPath": ".kind"},
    ]
    tree: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = define(cluster, "trees", {"root": tree}, additionalPrinterColumns=columns)
    root: Object = {}
    for _ in range(60):
        root = {"a": root}
    tree = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": "a"}, "root": root}
    cluster.post(path, tree).ok()
    with no_stall(cluster):
        rows = cluster.get(path, Accept=TABLE).ok()["rows"]
    assert rows[0]["cells"] == ["a", None, "Tree"]


def test_blanks_in_the_path_of_a_printer_column_are_read_once(cluster: Cluster) -> None:
    blanks = " " * 40_000
    columns = [{"name": "Odd", "type": "string", "jsonPath": f".list[?(@.a=='x{blanks}y')]"}]
    path = define(cluster, "oddities", {}, additionalPrinterColumns=columns)
    with no_stall(cluster):
        assert cluster.get(path, Accept=TABLE).ok()["rows"] == []


@pytest.mark.parametrize("controller", [False, True])
def test_ten_thousand_owners_are_compared_once(cluster: Cluster, controller: bool) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "controller": controller}
    owners = [{**owner, "uid": str(number % 9_500)} for number in range(10_000)]
    with no_stall(cluster):
        answer = cluster.post(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "ownerReferences": owners}})
    if controller:
        assert answer.status == 422
        assert "Only one reference can have Controller set to true" in answer["message"]
    else:
        assert len(answer.ok()["metadata"]["ownerReferences"]) == 9_500
        assert "contains duplicate entries" in answer.headers["warning"]
        # The garbage collector looks for each owner, but not of an object that is gone.
        cluster.delete(f"{CONFIG_MAPS}/a").ok()


def test_json_patch_that_moves_a_long_list_again_and_again_is_refused(cluster: Cluster) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = define(cluster, "queues", {"data": anything})
    queue = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "a"}}
    cluster.post(path, {**queue, "data": {"list": [0] * 400_000}}).ok()
    moves = [{"op": "move", "from": "/data/list/0", "path": "/data/list/399999"}] * 9_990
    with no_stall(cluster):
        answer = cluster.patch(f"{path}/a", moves, "json")
    assert (answer.status, answer["reason"]) == (413, "RequestEntityTooLarge")
    first = cluster.patch(f"{path}/a", [{"op": "add", "path": "/data/list/0", "value": 1}, *moves[:3]], "json").ok()
    assert (len(first["data"]["list"]), first["data"]["list"].index(1)) == (400_001, 399_997)


def test_role_of_many_combinations_is_refused_in_few_words(cluster: Cluster) -> None:
    group, alice = "rbac.authorization.k8s.io", {"Impersonate_User": "alice"}

    def role(name: str, **rule: list[str]) -> Object:
        return {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}

    cluster.post(ROLES, role("writer", apiGroups=[group], resources=["clusterroles"], verbs=["create"])).ok()
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
    cluster.post(f"/apis/{group}/v1/clusterrolebindings", binding).ok()
    values = [chr(0x4E00 + number) for number in range(70)]
    with no_stall(cluster):
        answer = cluster.post(ROLES, role("a", apiGroups=values, resources=values, verbs=values), **alice)
    assert answer.status == 403
    assert "is attempting to grant RBAC permissions not currently held:\n{APIGroups:" in answer["message"]
    assert len(answer.body) < 200_000
    held = role("b", apiGroups=[group] * 70, resources=["clusterroles"] * 70, verbs=["create"] * 70)
    with no_stall(cluster):
        assert cluster.post(ROLES, held, **alice).status == 201
    assert json.loads(cluster.get(f"{ROLES}/a").body)["reason"] == "NotFound"


def test_selector_of_many_labels_compares_each_once(server: Server) -> None:
    cluster = fresh_cluster(server, "cluster")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {f"key-{number}": "a" for number in range(4_000)}},
        },
    }
    with no_stall(cluster):
        answer = cluster.post("/api/v1/namespaces/default/persistentvolumeclaims", claim)
        cluster.eventually(lambda: cluster.get("/api/v1/namespaces/default/events").ok()["items"])
    assert answer.status == 201
    cluster.close()


def test_refusal_lists_a_limited_number_of_errors_and_warnings(server: Server) -> None:
    cluster = fresh_cluster(server, "cluster")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}}
    spec = {"hard": {f"Not a name {number}": "1" for number in range(4_000)}, "scopes": ["Odd"] * 4_000}
    with no_stall(cluster):
        answer = cluster.post("/api/v1/namespaces/default/resourcequotas", {**quota, "spec": spec})
    assert answer.status == 422
    assert len(answer.body) < 500_000
    assert answer["message"].endswith("more errors]")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    env = [{"name": f"A{number % 1000}", "value": "x"} for number in range(2_000)]
    containers = [{"name": "a", "image": "a", "env": env}]
    answer = cluster.post("/api/v1/namespaces/default/pods", {**pod, "spec": {"containers": containers}})
    assert answer.status == 201
    # Python's client reads at most 100 headers.
    assert "hides previous definition" in answer.headers["warning"]
    cluster.close()
