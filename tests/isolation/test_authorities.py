"""The authority of a cluster speaks for that cluster alone: what it signs deceives nobody elsewhere."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from shoal.assemble.workers.join import HubTarget, ensure_membership
from shoal.assemble.workers.join_tokens import ca_cert_hash
from shoal.client.kubeconfig import load_rest_config, new_client
from shoal.client.transport import Unreachable
from shoal.clock import SystemClock
from shoal.objects.errors import ShoalError
from tests.isolation.attempts import ALPHA, LOGICAL
from tests.isolation.tenants import MANAGED, People, eventually

Object = dict[str, Any]

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODES = "/api/v1/nodes"
CLUSTERS = {
    "root": ("root-admin", ""),
    "a logical cluster": ("alpha-admin", f"/clusters/{ALPHA}"),
    "a managed cluster": ("west-admin", "/managedclusters/default/west"),
}
TENANTS = [each for each in CLUSTERS if each != "root"]
SERVING = ["digital signature", "server auth"]


class Tenant:
    """The administrator of a cluster, who approves what suits him."""

    def __init__(self, people: People, which: str) -> None:
        self._people, (self._who, self._prefix) = people, CLUSTERS[which]

    def call(self, method: str, path: str, body: object = None) -> Any:
        return self._people.ask(self._who, method, self._prefix + path, body).ok()

    def certificate(self, name: str, csr: Object) -> str:
        """Empty while it is not signed."""
        self.call("POST", CSRS, {"metadata": {"name": name}, "spec": csr})
        approved = {"type": "Approved", "status": "True", "reason": "Mine"}
        request = self.call("GET", f"{CSRS}/{name}")
        request["status"] = {"conditions": [approved]}
        self.call("PUT", f"{CSRS}/{name}/approval", request)
        return name

    def issued(self, name: str) -> bytes:
        return base64.b64decode(self.call("GET", f"{CSRS}/{name}").get("status", {}).get("certificate", ""))


def csr(key: ec.EllipticCurvePrivateKey, signer: str, common_name: str, usages: list[str], *addresses: str) -> Object:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if addresses:
        names = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": usages}


@contextmanager
def impostor(chain: Path, hub_ca: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A TLS server with that certificate, which hands out the hub's real CA, and what it was told."""
    told: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(hub_ca) + hub_ca

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                told.append(connection.recv(4096))
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield int(listener.getsockname()[1]), told
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_hub_without_nodes_signs_for_none(people: People) -> None:
    tenant, key = Tenant(people, "root"), ec.generate_private_key(ec.SECP256R1())
    spec = csr(key, "kubernetes.io/kubelet-serving", "system:node:evil", SERVING, "127.0.0.1")
    tenant.certificate("evil", spec)
    tenant.certificate("other", csr(key, "kubernetes.io/kubelet-serving", "evil", SERVING, "127.0.0.1"))
    eventually(lambda: "Failed" in str(tenant.call("GET", f"{CSRS}/other")["status"]))
    assert not tenant.issued("evil")


@pytest.mark.parametrize("which", TENANTS)
def test_a_serving_certificate_of_a_tenant_does_not_pass_for_the_hub(
    people: People, which: str, tmp_path: Path
) -> None:
    tenant, key = Tenant(people, which), ec.generate_private_key(ec.SECP256R1())
    spec = csr(key, "kubernetes.io/kubelet-serving", "system:node:evil", SERVING, "127.0.0.1")
    tenant.certificate("evil", spec)
    # A tenant can declare a Node with any address, too.
    tenant.call("POST", NODES, {"metadata": {"name": "evil"}})
    node = tenant.call("GET", f"{NODES}/evil")
    node["status"] = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    tenant.call("PUT", f"{NODES}/evil/status", node)
    certificate = eventually(lambda: tenant.issued("evil"))
    (tmp_path / "worker").mkdir()
    chain = tmp_path / "evil.pem"
    chain.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
    with impostor(chain, people.hub.authority) as (port, told):
        kubeconfig = (people.hub.shoal.directory.path / "kubeconfig").read_text()
        (tmp_path / "kubeconfig").write_text(kubeconfig.replace(str(people.hub.port), str(port)))
        asyncio.run(_list_namespaces(tmp_path / "kubeconfig"))
        target = HubTarget(
            address=f"https://127.0.0.1:{port}",
            token="abcdef.0123456789abcdef",
            ca_cert_hash=ca_cert_hash(people.hub.authority.decode()),
        )
        with pytest.raises(ShoalError):
            asyncio.run(ensure_membership(tmp_path / "worker", "w", target, "store", SystemClock()))
        assert not [each for each in told if b"Bearer" in each or b"abcdef" in each]


async def _list_namespaces(kubeconfig: Path) -> None:
    client = new_client(load_rest_config(kubeconfig), "test")
    try:
        with pytest.raises(Unreachable):
            await client.request("GET", "/api/v1/namespaces")
    finally:
        await client.close()


@pytest.mark.parametrize("which", TENANTS)
@pytest.mark.parametrize("strange", ["10.1.2.3", "127.0.0.1", "::1"])
def test_a_kubelet_gets_no_certificate_for_addresses_that_its_node_does_not_have(
    people: People, which: str, strange: str
) -> None:
    tenant, key = Tenant(people, which), ec.generate_private_key(ec.SECP256R1())
    name = f"strange-{strange.replace('.', '-').replace(':', '')}"
    tenant.call("POST", NODES, {"metadata": {"name": name}})
    node = tenant.call("GET", f"{NODES}/{name}")
    node["status"] = {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}
    tenant.call("PUT", f"{NODES}/{name}/status", node)
    signer = "kubernetes.io/kubelet-serving"
    tenant.certificate(name, csr(key, signer, f"system:node:{name}", SERVING, "10.9.9.9", strange))
    tenant.certificate(f"{name}-own", csr(key, signer, f"system:node:{name}", SERVING, "10.9.9.9"))
    assert eventually(lambda: tenant.issued(f"{name}-own"))
    assert not tenant.issued(name)


@pytest.mark.parametrize("which", TENANTS)
def test_a_client_certificate_of_a_tenant_does_not_open_the_server(people: People, which: str) -> None:
    """Nor does it open the tenant's own cluster by its path: client certificates are for a cluster's own address."""
    tenant, key = Tenant(people, which), ec.generate_private_key(ec.SECP256R1())
    usages = ["digital signature", "client auth"]
    spec = csr(key, "kubernetes.io/kube-apiserver-client-kubelet", "system:node:evil", usages)
    tenant.certificate("client", spec)
    certificate = eventually(lambda: tenant.issued("client"))
    people.wears(which, certificate, key)
    for path in ("", CLUSTERS[which][1], f"/clusters/{ALPHA}", "/managedclusters/default/east"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            people.ask(which, "GET", f"{path}{NODES}")


def test_every_cluster_has_an_authority_of_its_own(people: People) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"
    bundles = [Tenant(people, which).call("GET", path)["data"]["ca.crt"] for which in TENANTS]
    assert len(set(bundles)) == len(bundles)
    assert all(people.hub.authority.decode() not in each for each in bundles)


def own_port(people: People, which: str) -> int:
    path = f"{LOGICAL}/{ALPHA}" if which == "a logical cluster" else f"{MANAGED}/west"
    status = people.root.get(path).ok().get("status") or {}
    return int((status.get("endpoint") or {}).get("port") or 0)


@pytest.mark.parametrize("which", CLUSTERS)
def test_the_issuer_of_tokens_is_the_address_of_their_cluster(people: People, which: str) -> None:
    """Discovery is served there, and its keys verify a token."""
    tenant, prefix = Tenant(people, which), CLUSTERS[which][1]
    tenant.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "issued"}})
    path = "/api/v1/namespaces/default/serviceaccounts/issued/token"
    token = tenant.call("POST", path, {"spec": {"audiences": ["vault"]}})["status"]["token"]
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    discovery = tenant.call("GET", "/.well-known/openid-configuration")
    address = f"127.0.0.1:{people.hub.port}{prefix}"
    if which != "root" and (port := own_port(people, which)):  # given to it by other tests
        address = f"127.0.0.1:{port}"
    assert claims["iss"] == discovery["issuer"] == f"https://{address}"
    assert discovery["jwks_uri"] == f"{discovery['issuer']}/openid/v1/jwks"
    keys = tenant.call("GET", "/openid/v1/jwks")["keys"]
    assert header["kid"] in [key["kid"] for key in keys]
