"""Where a server connects for webhooks of its tenants, and what they learn from it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from shoal.client.egress import AddressInfo
from shoal.client.webhook_transport import WebhookTransport
from shoal.objects.egress import LOOPBACK, EgressSettings
from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, Receiver, Reply, allow, deny, patch, reviewed
from tests.apiserver.webhooks.test_conversion import definition
from tests.serving import DEFINITIONS, Cluster, Server, config_map, fresh_cluster

Object = dict[str, Any]
HIDDEN = "the webhook cannot be reached or does not answer as a webhook"


class Names(AbstractResolver):
    """Resolves names of tests; `next` is what the following lookup finds."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = self.known.get(host)
        if not found:
            raise OSError(f"no such host: {host}")
        address = found.pop(0) if len(found) > 1 else found[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [{"hostname": host, "host": address, "port": port, "family": kind, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        pass


class Watched:
    """A server with the given policy whose sockets for webhooks are recorded."""

    def __init__(self, directory: Path, egress: EgressSettings) -> None:
        self.server = Server(directory, root_profile="cluster", egress=egress)
        self.sockets: list[tuple[str, int]] = []
        self.names = Names()
        api = self.server.shoal.server
        api.core.webhooks.client._transport = WebhookTransport(
            api.settings.egress, resolver=self.names, new_socket=self._record
        )

    def _record(self, address: AddressInfo) -> socket.socket:
        self.sockets.append((str(address[4][0]), int(address[4][1])))
        assert str(address[4][0]) in ("127.0.0.1", "::1"), "no test dials another address"
        return socket.socket(*address[:3])

    def stop(self) -> None:
        transport = self.server.shoal.server.core.webhooks.client._transport
        assert transport is not None
        self.server.call(transport.close())
        self.server.call(asyncio.sleep(0.2))  # TLS connections close in later turns of the loop
        self.server.stop()

    def told(self, hooks: Hooks, hook: Object) -> str:
        """Registers the webhook, creates a ConfigMap, and returns what the client is told."""
        hooks.register("validating", hook)
        answer = hooks.cluster.post(CONFIG_MAPS, config_map("a"))
        hooks.cluster.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks").ok()
        assert answer.status == 500, answer.body
        assert hooks.cluster.get(f"{CONFIG_MAPS}/a").status == 404
        return str(answer["message"])


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """As people start it."""
    made = Watched(tmp_path_factory.mktemp("strict"), EgressSettings())
    yield made
    made.stop()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """With --allow-egress for loopback."""
    made = Watched(tmp_path_factory.mktemp("opened"), EgressSettings(LOOPBACK))
    yield made
    made.stop()


@pytest.fixture
def tenant(strict: Watched, receiver: Receiver) -> Iterator[Hooks]:
    cluster = fresh_cluster(strict.server, "cluster")
    yield Hooks(cluster, receiver)
    cluster.close()


@pytest.fixture
def open_tenant(opened: Watched, receiver: Receiver) -> Iterator[Hooks]:
    cluster = fresh_cluster(opened.server, "cluster")
    yield Hooks(cluster, receiver)
    cluster.close()


def at(hooks: Hooks, url: str, **more: object) -> Object:
    hook = hooks.hook("probe", allow, **more)
    hook["clientConfig"]["url"] = url
    return hook


INSIDE = [
    "127.0.0.1",
    "127.0.0.2",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",
    "169.254.169.254",
    "[fe80::1]",
    "10.0.0.1",
    "192.168.0.1",
    "172.16.0.1",
    "100.64.0.1",
    "[fd00::1]",
    "224.0.0.1",
    "240.0.0.1",
]


@pytest.mark.parametrize("host", INSIDE)
def test_a_tenant_does_not_reach_inside(strict: Watched, tenant: Hooks, host: str) -> None:
    strict.sockets.clear()
    before = len(tenant.receiver.asked)
    url = f"https://{host}:{tenant.receiver.port}/x"
    said = strict.told(tenant, at(tenant, url))
    expected = f'failed calling webhook "probe.example.com": failed to call webhook: Post "{url}?timeout=10s": {HIDDEN}'
    assert said == f"Internal error occurred: {expected}"
    assert (strict.sockets, len(tenant.receiver.asked)) == ([], before)


@pytest.mark.parametrize("name", ["localhost", "metadata.internal", "2130706433", "0x7f000001", "127.1"])
def test_names_are_judged_by_what_they_resolve_to(strict: Watched, tenant: Hooks, name: str) -> None:
    strict.sockets.clear()
    strict.names.known = {"localhost": ["127.0.0.1"], "metadata.internal": ["169.254.169.254"]} | {
        name: ["127.0.0.1"] for name in ("2130706433", "0x7f000001", "127.1")
    }
    assert HIDDEN in strict.told(tenant, at(tenant, f"https://{name}:{tenant.receiver.port}/x"))
    assert strict.sockets == []


def test_a_name_that_resolves_to_another_address_later(opened: Watched, open_tenant: Hooks) -> None:
    """What is judged is what is connected to, at every connection."""
    opened.sockets.clear()
    opened.names.known = {"rebound.example.com": ["10.0.0.1", "169.254.169.254", "10.0.0.2"]}
    for _ in range(3):
        assert HIDDEN in opened.told(open_tenant, at(open_tenant, "https://rebound.example.com/x"))
    assert opened.sockets == []


@pytest.mark.parametrize("ports", ["api", "clusters"])
def test_the_server_itself_is_out_of_reach_even_if_loopback_is_open(
    opened: Watched, open_tenant: Hooks, ports: str
) -> None:
    opened.sockets.clear()
    port = opened.server.port if ports == "api" else 20_000
    for host in ("127.0.0.1", "[::ffff:127.0.0.1]"):
        assert HIDDEN in opened.told(open_tenant, at(open_tenant, f"https://{host}:{port}/version"))
    assert opened.sockets == []


def test_a_service_is_not_a_way_around(strict: Watched, tenant: Hooks) -> None:
    strict.sockets.clear()
    cluster = tenant.cluster
    service = {"metadata": {"name": "hooks"}, "spec": {"ports": [{"port": 443}]}}
    cluster.post("/api/v1/namespaces/default/services", service).ok()
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    for address in ("10.9.9.9", "192.168.1.1"):
        body = {
            "metadata": {"name": "hooks", "labels": {"kubernetes.io/service-name": "hooks"}},
            "addressType": "IPv4",
            "ports": [{"port": tenant.receiver.port}],
            "endpoints": [{"addresses": [address]}],
        }
        cluster.post(slices, body).ok()
        hook = tenant.hook("probe", allow)
        reference = {"name": "hooks", "namespace": "default", "path": "/x"}
        hook["clientConfig"] = {"service": reference, "caBundle": tenant.receiver.bundle}
        said = strict.told(tenant, hook)
        assert said.endswith(f'Post "https://hooks.default.svc:443/x?timeout=10s": {HIDDEN}')
        cluster.delete(f"{slices}/hooks").ok()
    assert strict.sockets == []


def test_what_is_opened_is_called(opened: Watched, open_tenant: Hooks) -> None:
    details = {"kind": "x", "secret": "y", "causes": [{"field": "f"}]}
    open_tenant.register("validating", open_tenant.hook("fine", deny(message="no", details=details)))
    answer = open_tenant.cluster.post(CONFIG_MAPS, config_map("a"))
    assert answer["message"] == 'admission webhook "fine.example.com" denied the request: no'
    assert answer["details"] == {"kind": "x", "causes": [{"field": "f"}]}, "nothing else is passed on"


def test_a_long_answer_is_cut(opened: Watched, open_tenant: Hooks) -> None:
    open_tenant.register("validating", open_tenant.hook("chatty", deny(message="n" * 3_000_000)))
    answer = open_tenant.cluster.post(CONFIG_MAPS, config_map("a"))
    assert (answer.status, len(answer.body) < 40_000) == (400, True)


def test_many_warnings_are_cut_as_upstream_does(opened: Watched, open_tenant: Hooks) -> None:
    warnings = ["short\r\nX: y", *(f"{number}-" + "w" * 100_000 for number in range(50))]
    open_tenant.register("validating", open_tenant.hook("warns", lambda review: reviewed(review, warnings=warnings)))
    connection = opened.server.connect()
    headers = {"Authorization": f"Bearer {opened.server.token}", "Content-Type": "application/json"}
    try:
        body = json.dumps(config_map("warned"))
        connection.request("POST", f"/clusters/{open_tenant.cluster.name}{CONFIG_MAPS}", body, headers)
        answer = connection.getresponse()
        told = answer.headers.get_all("Warning") or []
        answer.read()
    finally:
        connection.close()
    assert (answer.status, told[0], len(told)) == (201, '299 - "short  X: y"', 17)
    assert all(len(each) <= 256 + len('299 - ""') for each in told)


ANSWERS: dict[str, tuple[Reply, int]] = {
    "server error": (lambda review: b"SECRET", 500),
    "not found": (lambda review: b"SECRET", 404),
    "redirect": (lambda review: b"SECRET", 302),
    "forbidden": (lambda review: b"SECRET", 403),
    "text": (lambda review: b"SSH-2.0 SECRET", 200),
    "list": (lambda review: b"[]", 200),
    "nothing": (lambda review: b"", 200),
    "other object": (lambda review: {"kind": "Secret", "data": "SECRET"}, 200),
    "other uid": (lambda review: reviewed(review, uid="SECRET"), 200),
    "other kind": (lambda review: {**reviewed(review), "kind": "SECRET"}, 200),
}


def test_all_failures_have_one_wording(opened: Watched, open_tenant: Hooks) -> None:
    receiver, name = open_tenant.receiver, open_tenant.cluster.name
    path, said = f"/{name}/probe", {}
    for what, (reply, status) in ANSWERS.items():
        receiver.statuses[path] = status
        said[what] = opened.told(open_tenant, open_tenant.hook("probe", reply, timeoutSeconds=1))
    receiver.statuses.pop(path)
    distrusted = open_tenant.hook("probe", allow, timeoutSeconds=1)
    del distrusted["clientConfig"]["caBundle"]
    said["certificate"] = opened.told(open_tenant, distrusted)
    with socket.socket() as closed, socket.socket() as silent:
        closed.bind(("127.0.0.1", 0))
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        others = {
            "refused": f"https://127.0.0.1:{closed.getsockname()[1]}",
            "timeout": f"https://127.0.0.1:{silent.getsockname()[1]}",
            "denied": "https://10.0.0.1:443",
            "link-local": "https://169.254.169.254",
            "unresolvable": "https://nowhere.example.com",
            "own": f"https://127.0.0.1:{opened.server.port}",
        }
        for what, url in others.items():
            told = opened.told(open_tenant, at(open_tenant, url + path, timeoutSeconds=1))
            said[what] = told.replace(url + path, receiver.url(path))
    failed = 'Internal error occurred: failed calling webhook "probe.example.com": failed to call webhook: '
    assert set(said.values()) == {f'{failed}Post "{receiver.url(path)}?timeout=1s": {HIDDEN}'}, said


def test_the_operator_finds_the_reason(
    strict: Watched, tenant: Hooks, caplog: pytest.LogCaptureFixture, receiver: Receiver
) -> None:
    url = f"https://127.0.0.1:{receiver.port}/{tenant.cluster.name}"
    strict.told(tenant, at(tenant, url))
    strict.told(tenant, at(tenant, url))
    reason = f"connections to 127.0.0.1 port {receiver.port} are not allowed"
    lines = [each.getMessage() for each in caplog.records if tenant.cluster.name in each.getMessage()]
    assert len(lines) == 1, "not for every write"
    assert reason in lines[0]
    root = Cluster(strict.server, "root")
    try:
        assert "shoal_webhook_undisclosed_failures_total" in root.get("/metrics").body.decode()
        assert "undisclosed" not in tenant.cluster.get("/metrics").body.decode()
    finally:
        root.close()


def test_a_webhook_that_answers_is_told_its_mistake(opened: Watched, open_tenant: Hooks) -> None:
    said = opened.told(open_tenant, open_tenant.hook("probe", patch()))
    assert said.endswith("received invalid webhook response: validating webhook may not return response.patch")


def test_conversion_has_one_wording_too(opened: Watched, open_tenant: Hooks) -> None:
    cluster, receiver = open_tenant.cluster, open_tenant.receiver
    path = f"/{cluster.name}/convert"
    config: Object = {"url": receiver.url(path), "caBundle": receiver.bundle}
    cluster.post(DEFINITIONS, definition(config)).ok()
    hosts = "/apis/example.com/v1/namespaces/default/hosts"
    body = {"apiVersion": "example.com/v1", "kind": "Host", "metadata": {"name": "h"}, "spec": {"hostPort": "a:1"}}
    cluster.post(hosts, body).ok()
    said: set[str] = set()
    for reply, status in ANSWERS.values():
        receiver.replies[path], receiver.statuses[path] = reply, status
        answer = cluster.get(hosts.replace("/v1/", "/v2/") + "/h")
        assert answer.status == 500
        said.add(answer["message"])
    for url in ("https://10.0.0.1", "https://169.254.169.254", f"https://127.0.0.1:{opened.server.port}"):
        change = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": url + path}}}}}
        cluster.patch(f"{DEFINITIONS}/hosts.example.com", change).ok()
        answer = cluster.get(hosts.replace("/v1/", "/v2/") + "/h")
        said.add(answer["message"].replace(url + path, receiver.url(path)))
    title = "conversion webhook for example.com/v1, Kind=Host failed: "
    assert said == {f'{title}Post "{receiver.url(path)}?timeout=30s": {HIDDEN}'}


def test_root_belongs_to_the_operator(strict: Watched, receiver: Receiver) -> None:
    """Its webhooks may be on loopback, and failures are explained. Its connections serve nobody else."""
    root = Cluster(strict.server, "root")
    hooks = Hooks(root, receiver)
    tenant = Hooks(fresh_cluster(strict.server, "cluster"), receiver)
    strict.sockets.clear()
    try:
        hooks.register("validating", hooks.hook("fine", allow))
        root.post(CONFIG_MAPS, config_map("kept-alive")).ok()
        assert strict.sockets == [("127.0.0.1", receiver.port)]
        same = at(tenant, receiver.url("/root/fine"))
        assert HIDDEN in strict.told(tenant, same)
        assert len(hooks.asked("fine")) == 1
        root.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks").ok()
        said = strict.told(hooks, at(hooks, "https://169.254.169.254/latest"))
        assert "connections to 169.254.169.254 port 443 are not allowed" in said
        assert strict.sockets == [("127.0.0.1", receiver.port)]
    finally:
        tenant.cluster.close()
        root.close()


def test_proxies_of_the_environment_are_not_used(
    strict: Watched, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    root = Cluster(strict.server, "root")
    hooks = Hooks(root, receiver)
    strict.sockets.clear()
    try:
        hooks.register("validating", hooks.hook("direct", allow))
        root.post(CONFIG_MAPS, config_map("direct")).ok()
        assert {port for _, port in strict.sockets} <= {receiver.port}
        root.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks").ok()
    finally:
        root.close()
