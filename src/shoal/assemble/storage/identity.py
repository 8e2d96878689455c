"""The identity that all servers of one store share: certificate authority, service account key, administrator's token.

The first server creates it and keeps it in the store. The next one with an empty data directory takes it from there,
and one with another identity is refused: certificates and tokens of one would be invalid at the other. The certificate
authority may be replaced (`shared_ca`): a server with the same token and key takes the new one. Anybody who can read
etcd can read every Secret in it anyway.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from shoal.apiserver.authn.serviceaccount_token import load_or_create_key
from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.assemble.storage.config import StoreMetadata
from shoal.assemble.storage.datadir import DataDir, DataDirError, write_private_file

log = logging.getLogger("shoal")

IDENTITY_METADATA = "identity"
CA_FILES = ("pki/ca.key", "pki/ca.crt")
"""The certificate last, because other processes check for it."""
IDENTITY_FILES = (*CA_FILES, "pki/service-account.key", "admin-token")


async def share_identity(directory: DataDir, metadata: StoreMetadata) -> None:
    own = read_identity(directory.path)
    stored = await metadata.get_metadata(IDENTITY_METADATA)
    if stored is None:
        CertificateAuthority(directory.path / "pki")
        load_or_create_key(directory.path / "pki" / "service-account.key")
        directory.admin_token()
        is_new, own = own is None, read_identity(directory.path)
        stored = await metadata.put_metadata_if_absent(IDENTITY_METADATA, json.dumps(own).encode())
        if is_new and json.loads(stored) != own:
            own = None  # another server was faster: its keys are kept
    shared = json.loads(stored)
    if own is None:
        write_identity(directory.path, shared)
    elif own != shared and differ_only_in_ca(own, shared):
        log.warning("the shared certificate authority was replaced: using the one of the other servers")
        write_ca(directory.path, shared)
    elif own != shared:
        raise DataDirError(
            f"the keys in {directory.path} differ from those of the servers that share this store",
            "give an empty --data-dir to use the keys in the store, or another --etcd-prefix",
        )


def differ_only_in_ca(own: dict[str, str], others: dict[str, str]) -> bool:
    """Returns whether only the certificate authority differs."""
    return all(own[name] == others[name] for name in IDENTITY_FILES if name not in CA_FILES)


def read_identity(path: Path) -> dict[str, str] | None:
    """Returns None unless all files exist."""
    if not all((path / name).exists() for name in IDENTITY_FILES):
        return None
    return {name: (path / name).read_text() for name in IDENTITY_FILES}


def write_identity(path: Path, files: dict[str, str]) -> None:
    (path / "pki").mkdir(mode=0o700, exist_ok=True)
    for name in IDENTITY_FILES:
        write_private_file(path / name, files[name])
    for derived in ("serving.pem", "serving.json"):
        (path / "pki" / derived).unlink(missing_ok=True)


def write_ca(path: Path, files: dict[str, str]) -> None:
    """Issued certificates stay and are replaced when they are no longer valid."""
    for name in CA_FILES:
        write_private_file(path / name, files[name])
