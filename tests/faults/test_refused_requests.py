"""A refused request is freed with its answer. The garbage collector counts objects: for a few large bodies it would
come after minutes, or never.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator

import pytest

from shoal.apiserver.server import RequestContext
from tests.faults.stalls import without_garbage_collector
from tests.faults.test_costly_expressions import MAPS, bind_policy, wide
from tests.faults.test_heavy_requests import YAML
from tests.serving import Answer, Cluster, Server, config_map, fresh_cluster

SECRETS = "/api/v1/namespaces/default/secrets"
BIG = "x" * 100_000
LONG = "YWFh" * 30_000
REPEATS = 5


@pytest.fixture
def whole(server: Server) -> Iterator[Cluster]:
    found = fresh_cluster(server, "cluster")
    yield found
    found.close()


def kept_requests(cluster: Cluster) -> int:
    contexts = (each for each in gc.get_objects() if isinstance(each, RequestContext))
    return sum(each.request.path.startswith(cluster.prefix) and each.request.method != "GET" for each in contexts)


def invalid(cluster: Cluster) -> Answer:
    body = {"metadata": {"name": "t"}, "type": "kubernetes.io/tls", "data": {"tls.crt": LONG}}
    return cluster.post(SECRETS, body)


def not_decodable(cluster: Cluster) -> Answer:
    return cluster.post(MAPS, json.dumps(config_map("m", {"a": BIG}))[:-1].encode())


def yaml_of_lists(cluster: Cluster) -> Answer:
    return cluster.post(MAPS, b"data: [" + b"[]," * 30_000 + b"]", Content_Type=YAML)


def gone(cluster: Cluster) -> Answer:
    return cluster.put(f"{SECRETS}/none", {"metadata": {"name": "none", "uid": "a"}, "data": {"a": LONG}})


def taken(cluster: Cluster) -> Answer:
    return cluster.post(MAPS, config_map("taken", {"a": BIG}))


def denied(cluster: Cluster) -> Answer:
    return cluster.post(f"{MAPS}?dryRun=All", wide("m", 1000))


def unauthenticated(cluster: Cluster) -> Answer:
    return cluster.post(MAPS, config_map("m", {"a": BIG}), Authorization="Bearer nobody")


@pytest.mark.parametrize(
    ("send", "status"),
    [
        (invalid, 422),
        (not_decodable, 400),
        (yaml_of_lists, 400),
        (gone, 404),
        (taken, 409),
        (denied, 422),
        (unauthenticated, 401),
    ],
)
def test_a_refused_request_is_freed(whole: Cluster, send: Callable[[Cluster], Answer], status: int) -> None:
    whole.post(MAPS, config_map("taken", {"a": "b"})).ok()
    if send is denied:
        bind_policy(whole, "costly", "object.data.all(a, object.data.all(b, a != b + 'c'))")
        whole.eventually(lambda: send(whole).status == status)
    with without_garbage_collector():
        for _ in range(REPEATS):
            assert send(whole).status == status
        assert kept_requests(whole) <= 1
