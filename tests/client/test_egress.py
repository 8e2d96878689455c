"""Which addresses objects may name: by the policy of their logical cluster, judged when the connection is made."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from shoal.client.egress import AddressInfo, Egress, EgressDenied, EgressPolicy, OwnEndpoints
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import rest_config_of
from shoal.client.transport import Unreachable
from shoal.objects.egress import EgressSettings, parse_networks

pytestmark = pytest.mark.anyio

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2002:808:808::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]
PRIVATE = [
    *("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::ffff:10.0.0.1"),
    *("100.64.0.1", "100.127.255.255", "fc00::1", "fd12:3456::1", "fec0::1"),
    *("2002:7f00:1::", "2002:a00:1::", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "::127.0.0.1"),
    *("192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "240.0.0.1", "2001:db8::1", "2001::1", "100::1"),
]
NOWHERE = [
    *("169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"),
    *("2002:a9fe:a9fe::", "64:ff9b::169.254.169.254"),
    *("0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "224.0.0.1", "239.1.1.1", "ff02::1", "255.255.255.255"),
]


def is_denied(policy: EgressPolicy, address: str, port: int = 443) -> bool:
    try:
        policy.check(address, port)
    except EgressDenied:
        return True
    return False


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE, *NOWHERE])
def test_who_may_name_an_address(address: str) -> None:
    egress = Egress(EgressSettings())
    assert is_denied(egress.policy_for("default.east"), address) is (address not in PUBLIC)
    assert is_denied(egress.policy_for("root"), address) is (address in NOWHERE)


def test_networks_that_are_opened() -> None:
    allowed = parse_networks("10.1.0.0/16, 127.0.0.0/8,169.254.169.254,fd00::/8")
    tenant, root = (Egress(EgressSettings(allowed)).policy_for(name) for name in ("t", "root"))
    for address in ("10.1.2.3", "127.0.0.1", "::ffff:10.1.2.3", "2002:a01:203::", "169.254.169.254", "fd00::1"):
        assert not is_denied(tenant, address), address
        assert not is_denied(root, address), address
    for address in ("10.2.0.1", "169.254.169.253", "::1", "2002:a02:1::", "fc00::1"):
        assert is_denied(tenant, address), address
    for wrong in ("10.0.0.1/8", "ten", "10.0.0.0/33"):
        with pytest.raises(ValueError, match=r"10\.0\.0|ten"):
            parse_networks(wrong)


async def test_what_belongs_to_the_server_is_not_opened() -> None:
    own = OwnEndpoints()
    own.ports |= {6443, 20000}
    own.add("10.0.0.7", 2379)
    own.add("localhost", 4222)
    resolving = asyncio.create_task(own.run())
    egress = Egress(EgressSettings(parse_networks("0.0.0.0/0,::/0")), own)
    tenant = egress.policy_for("t")
    try:
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if is_denied(tenant, "127.0.0.1", 4222):
                break
        assert is_denied(tenant, "127.0.0.1", 4222), "by its name"
    finally:
        resolving.cancel()
    for address in ("127.0.0.1", "127.0.0.2"):
        assert is_denied(tenant, address, 6443)
        assert is_denied(tenant, address, 20000)
        assert not is_denied(tenant, address, 6444)
    assert not is_denied(tenant, "8.8.8.8", 6443), "the same port of another machine"
    for address in ("10.0.0.7", "::ffff:10.0.0.7", "64:ff9b::10.0.0.7"):
        assert is_denied(tenant, address, 2379), address
    assert is_denied(tenant, "::ffff:127.0.0.1", 6443)
    assert not is_denied(tenant, "10.0.0.7", 2380)
    assert not is_denied(egress.policy_for("root"), "127.0.0.1", 6443)


def test_no_socket_is_made_for_a_denied_address() -> None:
    made: list[AddressInfo] = []

    def record(address: AddressInfo) -> socket.socket:
        made.append(address)
        return socket.socket(*address[:3])

    factory = Egress(EgressSettings()).policy_for("t").socket_factory(record)
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", 443)),
        (socket.AF_INET6, ("::1", 443, 0, 0)),
        (socket.AF_UNIX, ("/run/x", 0)),
    ):
        with pytest.raises(EgressDenied):
            factory((family, socket.SOCK_STREAM, 0, "", address))
    assert made == []


async def test_a_kubeconfig_that_names_a_link_local_address() -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://169.254.169.254"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    endpoint = rest_config_of(config, source="test")
    policy = Egress(EgressSettings()).policy_for("root")
    transport = HttpsTransport(endpoint.server, endpoint.tls_context, 5.0, policy)
    try:
        with pytest.raises(Unreachable, match=r"connections to 169\.254\.169\.254 port 443 are not allowed"):
            await transport.request("GET", "/api", "", {}, b"")
        with pytest.raises(Unreachable, match="are not allowed"):
            await transport.stream("GET", "/api", "", {})
    finally:
        await transport.close()


async def test_a_server_that_redirects_is_not_followed() -> None:
    asked: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        where = f"http://127.0.0.1:{port}/elsewhere"
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport: Any = HttpsTransport(f"http://127.0.0.1:{port}", None)
    try:
        status, _, _ = await transport.request("GET", "/api", "", {}, b"")
        assert (status, len(asked)) == (302, 1)
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()
