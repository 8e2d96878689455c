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

from shoal.apiserver.certificates import Authority
from shoal.apiserver.tokens import signing_key
from shoal.assemble.datadir import DataDir, DataDirError, write_private
from shoal.assemble.store_settings import Notes

log = logging.getLogger("shoal")

NOTE = "identity"
AUTHORITY = ("pki/ca.key", "pki/ca.crt")
"""The certificate last, because other processes check for it."""
FILES = (*AUTHORITY, "pki/service-account.key", "admin-token")


async def share_identity(directory: DataDir, notes: Notes) -> None:
    own = read_identity(directory.path)
    kept = await notes.note(NOTE)
    if kept is None:
        Authority(directory.path / "pki")
        signing_key(directory.path / "pki" / "service-account.key")
        directory.admin_token()
        fresh, own = own is None, read_identity(directory.path)
        kept = await notes.keep_note(NOTE, json.dumps(own).encode())
        if fresh and json.loads(kept) != own:
            own = None  # another server was faster: its keys are kept
    others = json.loads(kept)
    if own is None:
        write_identity(directory.path, others)
    elif own != others and are_of_one(own, others):
        log.warning("the certificate authority was replaced meanwhile: that of the other servers is taken")
        write_authority(directory.path, others)
    elif own != others:
        raise DataDirError(
            f"the keys in {directory.path} are not those of the servers that share this store",
            "give an empty --data-dir: the server takes the keys from the store; or another --etcd-prefix",
        )


def are_of_one(own: dict[str, str], others: dict[str, str]) -> bool:
    """Returns whether only the certificate authority differs."""
    return all(own[name] == others[name] for name in FILES if name not in AUTHORITY)


def read_identity(path: Path) -> dict[str, str] | None:
    """Returns None unless all files exist."""
    if not all((path / name).exists() for name in FILES):
        return None
    return {name: (path / name).read_text() for name in FILES}


def write_identity(path: Path, files: dict[str, str]) -> None:
    (path / "pki").mkdir(mode=0o700, exist_ok=True)
    for name in FILES:
        write_private(path / name, files[name])
    for derived in ("serving.pem", "serving.json"):
        (path / "pki" / derived).unlink(missing_ok=True)


def write_authority(path: Path, files: dict[str, str]) -> None:
    """Issued certificates stay and are replaced when they are no longer valid."""
    for name in AUTHORITY:
        write_private(path / name, files[name])
