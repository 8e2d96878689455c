"""Client certificates of any authority, with any names: also those that a server would not sign."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from shoal.apiserver.pki.ca import LEAF_LIFETIME, IssuedCertificate, cluster_uri
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.apiserver.pki.key_rotation import CA
from shoal.apiserver.pki.sign import CertificateSigner


def signer_in(directory: Path) -> CertificateSigner:
    """The authority of a data directory."""
    return CertificateSigner((directory / "ca.crt").read_bytes(), (directory / "ca.key").read_bytes())


def signer_of(keys: ClusterKeys, cluster: str) -> CertificateSigner:
    """The authority of a logical cluster, which must have one."""
    authority = keys._read(cluster, CA)[0]
    return CertificateSigner(authority["certificate"].encode(), authority["key"].encode())


def issue_client(
    signer: CertificateSigner,
    common_name: str,
    organizations: Iterable[str] = (),
    *,
    cluster: str = "",
    uid: str = "",
    ttl: float = LEAF_LIFETIME,
    now: float | None = None,
) -> IssuedCertificate:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    uris: list[x509.GeneralName] = [x509.UniformResourceIdentifier(cluster_uri(cluster, uid))] if cluster else []
    now = time.time() if now is None else now
    end = min(now + ttl, signer.not_after)
    certificate, key = signer._issue_with_new_key(x509.Name(subject), uris, "client auth", now, end)
    return IssuedCertificate(certificate, key, end)
