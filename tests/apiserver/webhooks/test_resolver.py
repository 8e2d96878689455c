"""Webhooks behind a Service: called at a reachable address, rejected with a clear message otherwise."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache.storage_form import encode
from tests.apiserver.webhooks.receiver import CONFIG_MAPS, SERVICE, Hooks, allow
from tests.serving import config_map

Object = dict[str, Any]
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def register(hooks: Hooks, **more: object) -> None:
    hook = hooks.hook("served", allow, **more)
    path = f"/{hooks.cluster.name}/served"
    reference = {"namespace": "default", "name": "hooks", "path": path, "port": 8443}
    hook["clientConfig"] = {"service": reference, "caBundle": hooks.receiver.bundle}
    hooks.register("validating", hook)


def service(hooks: Hooks, port: int = 8443) -> None:
    spec = {"ports": [{"name": "https", "port": port}]}
    hooks.cluster.post("/api/v1/namespaces/default/services", {"metadata": {"name": "hooks"}, "spec": spec}).ok()


def slice_of(hooks: Hooks, *, ready: bool = True, node: str = "", named: str = "https") -> None:
    endpoint: Object = {"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}
    if node:
        endpoint["nodeName"] = node
    body = {
        "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
        "addressType": "IPv4",
        "ports": [{"name": named, "port": hooks.receiver.port}],
        "endpoints": [endpoint],
    }
    store(
        hooks, "discovery.k8s.io/endpointslices", {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **body}
    )


def store(hooks: Hooks, kind: str, body: Object) -> None:
    """Loopback is no address of an endpoint to upstream's validation, and is what a test has."""
    name = body["metadata"]["name"]
    whole = {**body, "metadata": {**body["metadata"], "namespace": "default", "uid": "u"}}
    server, key = hooks.cluster.server, f"{kind}/{hooks.cluster.name}/default/{name}"

    async def put() -> None:
        await server.shoal.server.core.store.put(key, encode(whole), 0)

    server.call(put())


def test_the_ready_endpoint_is_called_by_the_name_of_the_service(hooks: Hooks) -> None:
    service(hooks)
    slice_of(hooks)
    register(hooks)
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert len(hooks.asked("served")) == 1
    assert hooks.receiver.hosts[-1] == f"{SERVICE}:8443"


def test_endpoints_will_do(hooks: Hooks) -> None:
    service(hooks)
    ports = [{"name": "https", "port": hooks.receiver.port}]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": ports}
    body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hooks"}, "subsets": [subset]}
    store(hooks, "core/endpoints", body)
    register(hooks)
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert len(hooks.asked("served")) == 1


def refused(hooks: Hooks) -> str:
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer.status == 500
    assert hooks.asked("served") == []
    where = f"https://{SERVICE}:8443/{hooks.cluster.name}/served?timeout=10s"
    begin = f'failed calling webhook "served.example.com": failed to call webhook: Post "{where}": '
    begin = f"Internal error occurred: {begin}"
    assert answer["message"].startswith(begin)
    return str(answer["message"].removeprefix(begin))


def test_a_service_that_is_not_there(hooks: Hooks) -> None:
    register(hooks)
    assert refused(hooks) == 'service "hooks" not found'


def test_a_service_without_that_port(hooks: Hooks) -> None:
    service(hooks, port=443)
    register(hooks)
    assert refused(hooks) == 'no service port 8443 found for service "hooks"'


def test_a_service_without_endpoints(hooks: Hooks) -> None:
    service(hooks)
    register(hooks)
    assert refused(hooks) == 'no endpoints available for service "hooks"'


def test_an_endpoint_that_is_not_ready(hooks: Hooks) -> None:
    service(hooks)
    slice_of(hooks, ready=False)
    register(hooks)
    assert refused(hooks) == 'no endpoints available for service "hooks"'


def test_pods_on_simulated_nodes_are_never_called(hooks: Hooks) -> None:
    node = {"metadata": {"name": "n", "labels": {"shoal.dev/simulated": "true"}}}
    hooks.cluster.post("/api/v1/nodes", node).ok()
    service(hooks)
    slice_of(hooks, node="n")
    register(hooks)
    assert refused(hooks).startswith('service "hooks" has pods on simulated nodes only, where nothing listens: ')


def test_where_failures_are_ignored_nothing_has_to_be_there(hooks: Hooks) -> None:
    register(hooks, failurePolicy="Ignore")
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
