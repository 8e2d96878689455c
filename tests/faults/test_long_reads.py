"""One read of everything in a large logical cluster holds nobody else up, whatever it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shoal.apiserver.cache.storage_form import strip_revision
from tests.faults.stalls import STALL, stalls
from tests.serving import Cluster, Server, config_map, fresh_cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
COUNT = 40_000
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def crowded(server: Server) -> Iterator[Cluster]:
    """A cluster with many ConfigMaps."""
    cluster = fresh_cluster(server)
    fill(cluster, COUNT)
    yield cluster
    cluster.close()


def fill(cluster: Cluster, count: int) -> None:
    data = {f"k{number}": "x" * 60 for number in range(8)}
    cluster.post(CONFIG_MAPS, config_map("m00000", data, labels={"n": "m00000"})).ok()
    copy(cluster, "core/configmaps", count)


def copy(cluster: Cluster, kind: str, count: int) -> None:
    """Writes copies of the object `m00000` to the store, each with its own name wherever the object has it."""
    shoal = cluster.server.shoal
    entry = shoal.server.core.cache.resource_cache_by_key(kind).get(cluster.name, "default", "m00000")
    assert entry is not None
    stored = strip_revision(entry.data)

    async def write() -> None:
        for start in range(1, count, 1000):
            names = [f"m{number:05}" for number in range(start, min(start + 1000, count))]
            key = f"{kind}/{cluster.name}/default"
            writes = [shoal.store.put(f"{key}/{name}", stored.replace(b"m00000", name.encode()), 0) for name in names]
            await asyncio.gather(*writes)

    cluster.server.call(write())


SELECTED_BY_LABEL = "labelSelector=" + ",".join(f"k{number}!%3Dv" for number in range(1000))
SELECTED_BY_FIELD = "fieldSelector=" + ",".join(f"metadata.name!%3Dx{number}" for number in range(2000))


@pytest.mark.parametrize(
    ("query", "headers", "count"),
    [
        ("includeObject=Object", {"User_Agent": "curl/8", "Accept": TABLE}, COUNT),
        ("limit=8000", {"Accept": "application/yaml"}, 8000),
        (SELECTED_BY_LABEL, {}, COUNT),
        (SELECTED_BY_FIELD, {}, COUNT),
        (f"{SELECTED_BY_LABEL}&pretty=1", {"Accept": TABLE}, COUNT),
    ],
    ids=["a table for curl", "yaml", "many labels", "many fields", "many labels and a table for curl"],
)
def test_a_list_does_not_hold_the_loop(crowded: Cluster, query: str, headers: dict[str, str], count: int) -> None:
    with stalls(crowded.server) as found:
        answer = crowded.get(f"{CONFIG_MAPS}?{query}", **headers)
    assert answer.status == 200
    assert f"m{count - 1:05}".encode() in answer.body
    assert answer.body.count(b"creationTimestamp") == count
    assert found.longest < STALL


ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


def test_a_user_with_thousands_of_roles_does_not_hold_the_loop(server: Server) -> None:
    """Each change of a role makes the next request of the user look through all of them again."""
    cluster = fresh_cluster(server, "cluster")
    cluster.eventually(lambda: cluster.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
    token = str(cluster.post(f"{ACCOUNT}/token", {"spec": {}}).ok()["status"]["token"])
    rules = [{"apiGroups": [f"g{number}"], "resources": ["*"], "verbs": ["get", "list"]} for number in range(100)]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "m00000"}}
    binding = {
        **role,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "m00000"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    cluster.post(f"{ROLES}/roles", {**role, "rules": rules}).ok()
    cluster.post(f"{ROLES}/rolebindings", binding).ok()
    for kind in ("roles", "rolebindings"):
        copy(cluster, f"rbac.authorization.k8s.io/{kind}", 5000)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    with stalls(server) as found:
        for number in range(2):
            assert cluster.request("GET", f"{CONFIG_MAPS}/x", token=token).status == 403
            cluster.post(f"{ROLES}/roles", {**role, "metadata": {"name": f"n{number}"}, "rules": []}).ok()
        answer = cluster.request("POST", reviews, review, token=token).ok()
        wanted = {"apiGroups": ["g99"], "resources": ["pods"], "verbs": ["list"]}
        last = {**role, "metadata": {"name": "m04999"}, "rules": [{**wanted, "apiGroups": [""]}]}
        cluster.put(f"{ROLES}/roles/m04999", last).ok()
        assert cluster.request("GET", "/api/v1/namespaces/default/pods", token=token).status == 200
    assert answer["status"]["incomplete"] is True
    assert len(answer["status"]["resourceRules"]) + len(answer["status"]["nonResourceRules"]) == 5000
    assert found.longest < STALL
    cluster.close()
