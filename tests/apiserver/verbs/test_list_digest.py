"""`?digest=`: a list for a client that already holds most of it."""

from __future__ import annotations

from typing import Any

from shoal.objects import digest
from tests.serving import Cluster, config_map, fresh_cluster

MAPS = "/api/v1/namespaces/default/configmaps"


def asked(held: dict[str, int], buckets: int = 8) -> str:
    return digest.encode(digest.bucket_sums(held.items(), buckets))


def held(cluster: Cluster, query: str = "") -> dict[str, int]:
    items: list[dict[str, Any]] = cluster.get(f"{MAPS}{query}").ok()["items"]
    return {f"default/{obj['metadata']['name']}": int(obj["metadata"]["resourceVersion"]) for obj in items}


def test_only_what_differs_is_shown(cluster: Cluster) -> None:
    for number in range(30):
        cluster.post(MAPS, config_map(f"m{number}")).ok()
    known = held(cluster)
    same = cluster.get(f"{MAPS}?digest={asked(known)}").ok()
    assert (same["kind"], same["apiVersion"]) == ("Digest", "meta.shoal.dev/v1alpha1")
    assert (same["buckets"], same["items"], same["count"]) == ([], {}, len(known))
    changed = cluster.patch(f"{MAPS}/m3", {"data": {"a": "b"}}).ok()
    cluster.delete(f"{MAPS}/m4").ok()
    found = cluster.get(f"{MAPS}?digest={asked(known)}").ok()
    assert set(found["buckets"]) == {digest.bucket_of(f"default/{name}", 8) for name in ("m3", "m4")}
    assert found["items"]["default/m3"] == changed["metadata"]["resourceVersion"]
    assert "default/m4" not in found["items"]
    now = held(cluster)
    expected = {key: str(now[key]) for key in now if digest.bucket_of(key, 8) in found["buckets"]}
    assert found["items"] == expected
    assert int(found["metadata"]["resourceVersion"]) >= max(now.values())


def test_it_is_of_what_is_selected(cluster: Cluster) -> None:
    for name, team in (("a", "x"), ("b", "y")):
        cluster.post(MAPS, config_map(name, labels={"team": team})).ok()
    found = cluster.get(f"{MAPS}?labelSelector=team%3Dx&digest={asked({})}").ok()
    assert list(found["items"]) == ["default/a"]
    found = cluster.get(f"{MAPS}?fieldSelector=metadata.name%3Db&digest={asked({})}").ok()
    assert list(found["items"]) == ["default/b"]


def test_what_is_no_digest_is_refused(cluster: Cluster) -> None:
    answer = cluster.get(f"{MAPS}?digest=nonsense")
    assert answer.status == 400
    assert answer["message"] == "invalid digest: 6 bytes do not encode the sums of 1 to 128 buckets"
    everywhere = Cluster(cluster.server, "*")
    answer = everywhere.get(f"/api/v1/configmaps?digest={asked({})}")
    assert (answer.status, answer["message"]) == (400, "digest is not supported in the wildcard view")
    everywhere.close()


def test_rights_are_those_of_a_list(cluster: Cluster) -> None:
    other = fresh_cluster(cluster.server)
    answer = other.request("GET", f"{MAPS}?digest={asked({})}", token="")
    assert answer.status in (401, 403)
    other.close()
