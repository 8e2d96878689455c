"""Tests of CertificateSigningRequests: signers, certificates and deletion of requests."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.csrsigning.decide import (
    API_CLIENT_SIGNER,
    HOUR,
    KUBELET_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    duration_of,
    needs_signing,
    removal_time,
    validation_error,
    worker_error,
)
from shoal.kinds.certificates.pem import CSRSubject
from tests.certificates import signer_in
from tests.controlplane.world import World, world

Object = dict[str, Any]

REQUESTS = GroupVersionResource("certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False)
NODE = ("system:node:n", ("system:nodes",))
AS_CLIENT = ["digital signature", "client auth"]
AS_SERVER = ["digital signature", "key encipherment", "server auth"]


@pytest.mark.parametrize(
    ("signer", "asked", "usages", "expected"),
    [
        (API_CLIENT_SIGNER, CSRSubject("ann", ("devs",)), AS_CLIENT, ""),
        (
            API_CLIENT_SIGNER,
            CSRSubject("ann", ()),
            ["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (API_CLIENT_SIGNER, CSRSubject("ann", ()), AS_SERVER, "invalid usage for client certificate: server auth"),
        (
            API_CLIENT_SIGNER,
            CSRSubject("ann", ("system:masters",)),
            AS_CLIENT,
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
        ),
        (KUBELET_CLIENT_SIGNER, CSRSubject(*NODE), AS_CLIENT, ""),
        (KUBELET_CLIENT_SIGNER, CSRSubject(*NODE), [*AS_CLIENT, "key encipherment"], ""),
        (
            KUBELET_CLIENT_SIGNER,
            CSRSubject(*NODE),
            AS_SERVER,
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (KUBELET_CLIENT_SIGNER, CSRSubject(*NODE, dns_names=("n",)), AS_CLIENT, "DNS subjectAltNames are not allowed"),
        (
            KUBELET_CLIENT_SIGNER,
            CSRSubject(*NODE, ip_addresses=("1.2.3.4",)),
            AS_CLIENT,
            "IP subjectAltNames are not allowed",
        ),
        (
            KUBELET_CLIENT_SIGNER,
            CSRSubject(*NODE, email_addresses=("a@b",)),
            AS_CLIENT,
            "Email subjectAltNames are not allowed",
        ),
        (
            KUBELET_CLIENT_SIGNER,
            CSRSubject(*NODE, uris=("shoal://root",)),
            AS_CLIENT,
            "URI subjectAltNames are not allowed",
        ),
        (
            KUBELET_CLIENT_SIGNER,
            CSRSubject("n", ("system:nodes",)),
            AS_CLIENT,
            "subject common name does not begin with system:node:",
        ),
        (KUBELET_CLIENT_SIGNER, CSRSubject("system:node:n", ()), AS_CLIENT, "subject organization is not system:nodes"),
        (KUBELET_SERVING_SIGNER, CSRSubject(*NODE, dns_names=("n",)), AS_SERVER, ""),
        (KUBELET_SERVING_SIGNER, CSRSubject(*NODE), AS_SERVER, "DNS or IP subjectAltName is required"),
        (
            KUBELET_SERVING_SIGNER,
            CSRSubject(*NODE, dns_names=("n",)),
            AS_CLIENT,
            "usages did not match [digital signature key encipherment server auth]",
        ),
    ],
)
def test_what_a_signer_signs(signer: str, asked: CSRSubject, usages: list[str], expected: str) -> None:
    assert validation_error(signer, asked, usages) == expected


def csr_with(*types: str, certificate: str = "", signer: str = API_CLIENT_SIGNER) -> Object:
    conditions = [{"type": each, "status": "True", "lastUpdateTime": "1970-01-01T01:00:00Z"} for each in types]
    status = {"conditions": conditions} | ({"certificate": certificate} if certificate else {})
    metadata = {"name": "c", "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"signerName": signer}, "status": status}


@pytest.mark.parametrize(
    ("given", "signs", "goes"),
    [
        (csr_with(), False, 24 * HOUR),
        (csr_with("Approved"), True, 25 * HOUR),
        (csr_with("Approved", certificate="x"), False, 2 * HOUR),
        (csr_with("Denied"), False, 2 * HOUR),
        (csr_with("Approved", "Failed"), False, 2 * HOUR),
        (csr_with("Approved", signer="example.com/other"), False, 25 * HOUR),
    ],
)
def test_what_is_signed_and_when_it_goes(given: Object, signs: bool, goes: float) -> None:
    assert needs_signing(given) is signs
    assert removal_time(given, None) == goes


def test_a_request_goes_with_its_certificate() -> None:
    assert removal_time(csr_with("Approved", certificate="x"), 1.5 * HOUR) == 1.5 * HOUR


@pytest.mark.parametrize(("asked", "expected"), [(None, 8760 * HOUR), (60, 600), (HOUR, HOUR), (1e9, 8760 * HOUR)])
def test_how_long_a_certificate_lives(asked: float | None, expected: float) -> None:
    given = csr_with()
    if asked is not None:
        given["spec"]["expirationSeconds"] = asked
    assert duration_of(given) == expected


def test_a_request_must_be_signed_by_its_own_key(tmp_path: Path) -> None:
    pem = base64.b64decode(request("ann"))
    given = x509.load_pem_x509_csr(pem)
    broken = bytearray(given.public_bytes(serialization.Encoding.DER))
    at = broken.index(b"ann")
    broken[at : at + 3] = b"eve"
    CertificateAuthority(tmp_path)
    signer = signer_in(tmp_path)
    forged = b"-----BEGIN CERTIFICATE REQUEST-----\n%b-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(ValueError, match="it is not signed by its own key"):
        signer.sign_csr(forged % base64.encodebytes(bytes(broken)), ("shoal://one",), AS_CLIENT, 0.0, HOUR)


# --- the world ---


def request(name: str, *organizations: str, alternatives: tuple[x509.GeneralName, ...] = ()) -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


async def create_approved(
    given: World, client: Client, name: str, body: str, usages: list[str], **spec: object
) -> None:
    wanted = {"request": body, "signerName": API_CLIENT_SIGNER, "usages": usages, **spec}
    await client.create(REQUESTS, {"metadata": {"name": name}, "spec": wanted})
    await set_condition(client, name, "Approved")


async def set_condition(client: Client, name: str, kind: str) -> None:
    csr = await client.get(REQUESTS, name)
    time = csr["metadata"]["creationTimestamp"]
    condition = {"type": kind, "status": "True", "reason": "Test", "message": "", "lastUpdateTime": time}
    csr["status"] = {"conditions": [condition]}
    await client.update(REQUESTS, csr, "approval")


async def status(client: Client, name: str) -> Object:
    found: Object = (await client.get(REQUESTS, name)).get("status") or {}
    return found


@pytest.mark.anyio
async def test_an_approved_request_is_signed_for_its_cluster_only(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("one")
        elsewhere = x509.UniformResourceIdentifier("shoal://root")
        body = request("ann", "devs", alternatives=(elsewhere, x509.DNSName("ann.example.com")))
        await create_approved(given, client, "c", body, AS_CLIENT, expirationSeconds=3600)

        async def issued() -> str:
            return str((await status(client, "c")).get("certificate", ""))

        pem = base64.b64decode(await given.eventually(issued))
        certificate = x509.load_pem_x509_certificate(pem)
        authority = x509.load_pem_x509_certificate(given.server.core.keys.ca_bundle("one").encode())
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        home = given.server.core.clusters.get("one")
        assert home is not None
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"shoal://one#{home.uid}"]
        assert names.get_values_for_type(x509.DNSName) == ["ann.example.com"]
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert [name.value for name in certificate.subject] == ["devs", "ann"]
        assert certificate.not_valid_after_utc.timestamp() == given.clock.now() + 3600
        given.clock.step(3601)
        await given.eventually(lambda: given.is_gone(client, REQUESTS, "c"))


@pytest.mark.anyio
async def test_what_is_not_approved_is_not_signed_and_goes_in_time(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("one")
        spec = {"request": request("ann"), "signerName": API_CLIENT_SIGNER, "usages": AS_CLIENT}
        for name in ("pending", "denied"):
            await client.create(REQUESTS, {"metadata": {"name": name}, "spec": spec})
        await set_condition(client, "denied", "Denied")
        await create_approved(given, client, "bad", request("ann"), ["digital signature"])

        async def failed() -> str:
            found = (await status(client, "bad")).get("conditions") or ()
            return next((each["message"] for each in found if each["type"] == "Failed"), "")

        assert await given.eventually(failed) == "missing required usage for client certificate: client auth"
        assert not (await status(client, "pending")).get("certificate")
        assert not (await status(client, "denied")).get("certificate")
        given.clock.step(3601)
        await given.eventually(lambda: given.is_gone(client, REQUESTS, "denied"))
        await given.eventually(lambda: given.is_gone(client, REQUESTS, "bad"))
        assert not await given.is_gone(client, REQUESTS, "pending")
        given.clock.step(23 * 3600)
        await given.eventually(lambda: given.is_gone(client, REQUESTS, "pending"))


@pytest.mark.parametrize(
    ("uid", "worker", "said"),
    [
        ("u", {"metadata": {"uid": "u"}}, ""),
        ("", {"metadata": {"uid": "u"}}, ""),
        ("u", None, 'worker "w" does not exist'),
        ("u", {"metadata": {"uid": "v"}}, 'the request is of an earlier worker "w"'),
        ("u", {"metadata": {"uid": "u", "annotations": {"shoal.dev/expelled": "x"}}}, 'worker "w" was expelled'),
    ],
)
def test_a_certificate_is_for_the_worker_that_asked(uid: str, worker: Object | None, said: str) -> None:
    request = {"spec": {"username": "system:worker:w", "groups": ["system:workers"], "uid": uid}}
    assert worker_error(request, CSRSubject("system:worker:w", ("system:workers",)), worker) == said
