"""The keys of a cluster in every phase of a rotation: handshakes with clients that trust the former or the new one."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path

import pytest
from cryptography import x509

from shoal.apiserver.pki import key_rotation
from shoal.apiserver.pki.ca import LEAF_LIFETIME, tls_context
from shoal.apiserver.pki.key_rotation import CA, SERVICE_ACCOUNT, Keys
from shoal.apiserver.pki.sign import CertificateSigner
from tests.apiserver.pki.test_ca import handshake
from tests.certificates import issue_client


@pytest.fixture
def now() -> float:
    """Handshakes take the time of this machine."""
    return time.time()


def signer_of(keys: Keys) -> CertificateSigner:
    return CertificateSigner(keys[0]["certificate"].encode(), keys[0]["key"].encode())


def bundle(keys: Keys) -> str:
    return "".join(each["certificate"] for each in keys)


def chain_file(directory: Path, keys: Keys, now: float) -> Path:
    leaf, key = signer_of(keys).issue_serving(["cluster.example"], now, now + LEAF_LIFETIME)
    file = directory / "serving.pem"
    file.write_bytes(key + leaf + keys[0].get("cross", "").encode())
    return file


def strict_client(authorities: str, directory: Path, certificate: bytes = b"") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if certificate:
        file = directory / "client.pem"
        file.write_bytes(certificate)
        context.load_cert_chain(file)
    return context


def test_clients_of_the_former_authority_verify_the_new_chain_until_the_end(tmp_path: Path, now: float) -> None:
    former = key_rotation.new_keys(CA, 1, now)
    both = key_rotation.rotated_keys(CA, former, 2, now)
    new = key_rotation.without_former(both)
    during = tls_context(chain_file(tmp_path, both, now), bundle(both))
    for trusted in (bundle(former), bundle(both), bundle(new)):
        handshake(during, strict_client(trusted, tmp_path), "cluster.example")
    after = tls_context(chain_file(tmp_path, new, now), bundle(new))
    for trusted in (bundle(both), bundle(new)):
        handshake(after, strict_client(trusted, tmp_path), "cluster.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate in certificate chain"):
        handshake(after, strict_client(bundle(former), tmp_path), "cluster.example")


def test_client_certificates_of_both_authorities_are_valid_until_the_end(tmp_path: Path, now: float) -> None:
    former = key_rotation.new_keys(CA, 1, now)
    both = key_rotation.rotated_keys(CA, former, 2, now)
    new = key_rotation.without_former(both)
    old_client, new_client = (issue_client(signer_of(each), "jane", now=now) for each in (former, both))
    for keys, accepted in ((former, [True, False]), (both, [True, True]), (new, [False, True])):
        server = tls_context(chain_file(tmp_path, keys, now), bundle(keys))
        for issued, is_accepted in zip((old_client, new_client), accepted, strict=True):
            client = strict_client(bundle(both), tmp_path, issued.key + issued.certificate)
            if is_accepted:
                assert handshake(server, client, "cluster.example").getpeercert() is not None
            else:
                with pytest.raises(ssl.SSLError):
                    handshake(server, client, "cluster.example")


def test_openssl_verifies_the_cross_certificate_strictly(tmp_path: Path, now: float) -> None:
    former = key_rotation.new_keys(CA, 1, now)
    both = key_rotation.rotated_keys(CA, former, 2, now)
    leaf, _ = signer_of(both).issue_serving(["cluster.example"], now, now + LEAF_LIFETIME)
    for name, content in (("former", former[0]["certificate"]), ("cross", both[0]["cross"]), ("leaf", leaf.decode())):
        (tmp_path / name).write_text(content)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "former", "leaf"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode != 0
    command[-1:] = ["-untrusted", "cross", "leaf"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "leaf: OK\n"), run.stderr


def test_a_new_authority_can_be_replaced_again(tmp_path: Path, now: float) -> None:
    """It allows one authority below it; its cross certificate allows none."""
    first = key_rotation.new_keys(CA, 1, now)
    second = key_rotation.rotated_keys(CA, first, 2, now)
    third = key_rotation.rotated_keys(CA, second, 3, now)
    assert [each["generation"] for each in third] == [3, 2]
    handshake(
        tls_context(chain_file(tmp_path, third, now), bundle(third)),
        strict_client(second[0]["certificate"], tmp_path),
        "cluster.example",
    )
    lengths = [
        x509.load_pem_x509_certificate(pem.encode())
        .extensions.get_extension_for_class(x509.BasicConstraints)
        .value.path_length
        for pem in (second[0]["certificate"], second[0]["cross"])
    ]
    assert lengths == [1, 0]


def test_the_key_of_the_former_authority_is_destroyed(now: float) -> None:
    former = key_rotation.new_keys(CA, 1, now)
    both = key_rotation.rotated_keys(CA, former, 2, now)
    assert both[1] == {"certificate": former[0]["certificate"], "generation": 1}
    tokens = key_rotation.new_keys(SERVICE_ACCOUNT, 1, now)
    assert key_rotation.rotated_keys(SERVICE_ACCOUNT, tokens, 2, now)[1] == tokens[0]


def test_an_authority_that_allows_none_below_it_signs_no_cross_certificate(now: float) -> None:
    both = key_rotation.rotated_keys(CA, key_rotation.new_keys(CA, 1, now), 2, now)
    crossed = CertificateSigner(both[0]["cross"].encode(), both[0]["key"].encode())
    with pytest.raises(ValueError, match="its path length allows no other certificate authority below it"):
        crossed.cross_sign(key_rotation.new_keys(CA, 3, now)[0]["certificate"].encode(), now)
