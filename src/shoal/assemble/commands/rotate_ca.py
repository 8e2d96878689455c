"""`shoal rotate-ca --server`: replaces the certificate authority of a server in its data directory.

A running server reads the files again within a minute. An authority from before clusters had their own is replaced by
the upgrade (`apiserver.pki.former_ca`); here its use is ended.
"""

from __future__ import annotations

import base64
from pathlib import Path

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.apiserver.pki.ca_rotation import begin_rotation, finish_rotation
from shoal.apiserver.pki.former_ca import FORMER_CA, FORMER_SERVING, has_shared_ca
from shoal.assemble.storage.datadir import DataDirError, write_private_file
from shoal.clock import SystemClock


def begin(data_dir: Path) -> None:
    pki = _pki_directory(data_dir)
    if has_shared_ca(pki) or (pki / FORMER_CA).exists():
        raise DataDirError(
            "the certificate authority is being replaced after an upgrade",
            "run first: shoal rotate-ca --server --finish",
        )
    authority = CertificateAuthority(pki)
    trusted = authority.certificate
    begin_rotation(authority, SystemClock())
    _update_files(data_dir, authority, trusted)


def finish(data_dir: Path) -> list[str]:
    """Returns the names of the files whose former authority is no longer trusted."""
    pki = _pki_directory(data_dir)
    removed = [name for name in (FORMER_SERVING, FORMER_CA) if (pki / name).exists()]
    for name in removed:
        (pki / name).unlink()
    authority = CertificateAuthority(pki)
    trusted = authority.certificate
    if finish_rotation(authority):
        _update_files(data_dir, authority, trusted)
        removed.append("the former certificate in ca.crt")
    return removed


def _pki_directory(data_dir: Path) -> Path:
    pki = data_dir / "pki"
    if not (pki / "ca.crt").exists():
        raise DataDirError(f"{data_dir} has no certificate authority", "give the --data-dir of the server")
    return pki


def _update_files(data_dir: Path, authority: CertificateAuthority, formerly_trusted: bytes) -> None:
    """Issues the serving certificate, and lets the kubeconfig of the data directory trust what is in `ca.crt`."""
    authority.ensure_serving_certificate(authority.serving_names())
    kubeconfig = data_dir / "kubeconfig"
    if kubeconfig.exists():
        before, after = (base64.b64encode(each).decode() for each in (formerly_trusted, authority.certificate))
        write_private_file(kubeconfig, kubeconfig.read_text().replace(before, after))
