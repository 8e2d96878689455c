"""The identity that all servers of one store share: certificate authority, key of cluster keys, administrator's token.

The first server creates it and keeps it in the store. The next one with an empty data directory takes it from there,
and one with another identity is refused: certificates and tokens of one would be invalid at the other. The certificate
authority may be replaced (`shared_ca`): a server with the same token and key takes the new one. Anybody who can read
etcd can read every Secret in it anyway.

An identity from before clusters had keys of their own is retired (`former_ca`) by the first server that starts.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from shoal.apiserver.pki.ca import CROSS_CERTIFICATE, CertificateAuthority
from shoal.apiserver.pki.cluster_keys import KEY_ENCRYPTION_FILE, load_key_encryption_key
from shoal.apiserver.pki.former_ca import (
    FORMER_CA,
    FORMER_SERVING,
    FORMER_TOKEN_KEY,
    SHARED_TOKEN_KEY,
    has_shared_ca,
    retire_shared_ca,
)
from shoal.assemble.storage.config import StoreMetadata
from shoal.assemble.storage.datadir import DataDir, DataDirError, serving_certificate_names, write_private_file
from shoal.clock import SystemClock

log = logging.getLogger("shoal")

Identity = dict[str, str]

IDENTITY_METADATA = "identity"
CA_FILES = ("pki/ca.key", "pki/ca.crt")
"""The certificate last, because other processes check for it."""
KEY_FILES = (f"pki/{KEY_ENCRYPTION_FILE}", "admin-token")
_CLUSTER_KEYS, _SHARED_KEY, _FORMER_CA = f"pki/{KEY_ENCRYPTION_FILE}", f"pki/{SHARED_TOKEN_KEY}", f"pki/{FORMER_CA}"
FORMER_FILES = (_FORMER_CA, f"pki/{FORMER_TOKEN_KEY}", _SHARED_KEY)
"""Of an identity that was retired, or is still to be."""
_CROSS = f"pki/{CROSS_CERTIFICATE}"
IDENTITY_FILES = (_CROSS, *CA_FILES, *KEY_FILES, *FORMER_FILES)


async def share_identity(directory: DataDir, metadata: StoreMetadata) -> None:
    own = read_identity(directory.path)
    stored = await metadata.get_metadata(IDENTITY_METADATA)
    if stored is None:
        CertificateAuthority(directory.path / "pki")
        load_key_encryption_key(directory.path / "pki")
        directory.admin_token()
        is_new, own = own is None, read_identity(directory.path)
        stored = await metadata.put_metadata_if_absent(IDENTITY_METADATA, json.dumps(own).encode())
        if is_new and json.loads(stored) != own:
            own = None  # another server was faster: its keys are kept
    if _CLUSTER_KEYS not in json.loads(stored):
        stored = await _retire_stored_identity(directory, metadata, own, stored)
        own = read_identity(directory.path)
    shared: Identity = json.loads(stored)
    if own is None:
        write_identity(directory.path, shared)
    elif own["pki/ca.crt"] == shared.get(_FORMER_CA) and own["admin-token"] == shared["admin-token"]:
        log.warning("another server has retired the shared certificate authority: using its new one")
        _keep_former_serving(directory.path / "pki")
        write_identity(directory.path, shared)
    elif own != shared and differ_only_in_ca(own, shared):
        log.warning("the shared certificate authority was replaced: using the one of the other servers")
        write_ca(directory.path, shared)
    elif own != shared:
        raise DataDirError(
            f"the keys in {directory.path} differ from those of the servers that share this store",
            "give an empty --data-dir to use the keys in the store, or another --etcd-prefix",
        )


async def _retire_stored_identity(
    directory: DataDir, metadata: StoreMetadata, own: Identity | None, stored: bytes
) -> bytes:
    """Returns the identity that is in the store afterwards, which may be that of a faster server."""
    shared: Identity = json.loads(stored)
    if own is None or not has_shared_ca(directory.path / "pki"):
        write_identity(directory.path, shared)
    elif own != shared:
        return stored
    retire_shared_ca(directory.path / "pki", serving_certificate_names(), SystemClock())
    new = json.dumps(read_identity(directory.path)).encode()
    if await metadata.compare_and_swap_metadata(IDENTITY_METADATA, new, stored):
        return new
    write_identity(directory.path, shared)  # the faster server's identity follows it
    return await metadata.get_metadata(IDENTITY_METADATA) or stored


def _keep_former_serving(pki: Path) -> None:
    """Clients of this server may trust only the former authority, whose key is gone."""
    if (pki / "serving.pem").exists() and not (pki / FORMER_SERVING).exists():
        (pki / "serving.pem").rename(pki / FORMER_SERVING)


def differ_only_in_ca(own: Identity, others: Identity) -> bool:
    """Returns whether only the certificate authority differs."""
    return all(own.get(name) == others.get(name) for name in KEY_FILES)


def read_identity(path: Path) -> Identity | None:
    """Returns None unless there is an authority and a token."""
    if not all((path / name).exists() for name in (*CA_FILES, "admin-token")):
        return None
    return {name: (path / name).read_text() for name in IDENTITY_FILES if (path / name).exists()}


def write_identity(path: Path, files: Identity) -> None:
    (path / "pki").mkdir(mode=0o700, exist_ok=True)
    for name in IDENTITY_FILES:
        if name in files:
            write_private_file(path / name, files[name])
        else:
            (path / name).unlink(missing_ok=True)
    for derived in ("serving.pem", "serving.json"):
        (path / "pki" / derived).unlink(missing_ok=True)


def write_ca(path: Path, files: Identity) -> None:
    """Issued certificates stay and are replaced when they are no longer valid."""
    if _CROSS in files:
        write_private_file(path / _CROSS, files[_CROSS])
    else:
        (path / _CROSS).unlink(missing_ok=True)
    for name in CA_FILES:
        write_private_file(path / name, files[name])
