"""Replaces the authority of a data directory by a new one that it has cross-signed.

During a rotation `ca.crt` has the certificates of the new and of the former authority, in this order, and `cross.crt`
is served with the leaf, so that clients verify it that trust only the former one. The key of the former is destroyed.
All files are written to one file first: a rotation that was interrupted is completed by the next start or command.
"""

from __future__ import annotations

import json
from pathlib import Path

from shoal.apiserver.pki.ca import (
    CA_LIFETIME,
    CROSS_CERTIFICATE,
    CertificateAuthority,
    CertificateError,
    apply_staged_files,
    directory_lock,
    stage_files,
    write_atomically,
)
from shoal.clock import Clock


def is_rotating(directory: Path) -> bool:
    """True from the beginning of a rotation until it is finished."""
    return (directory / CROSS_CERTIFICATE).exists()


def begin_rotation(authority: CertificateAuthority, clock: Clock) -> None:
    """Raises CertificateError if a rotation is under way, or if the authority cannot be replaced."""
    from shoal.apiserver.pki.sign import CertificateSigner, new_ca  # noqa: PLC0415

    directory = authority.directory
    with directory_lock(directory):
        apply_staged_files(directory)
        if is_rotating(directory):
            raise CertificateError("the certificate authority is being rotated already: finish that first")
        authority.check_usable()
        former, now = authority.certificate, clock.now()
        certificate, key = new_ca(now, now + CA_LIFETIME)
        try:
            cross = CertificateSigner(former, (directory / "ca.key").read_bytes()).cross_sign(certificate, now)
        except ValueError as error:
            raise CertificateError(f"the certificate authority in {directory} cannot be rotated: {error}") from error
        files = {"ca.key": key, CROSS_CERTIFICATE: cross, "ca.crt": certificate + former}
        stage_files(directory, json.dumps({name: content.decode() for name, content in files.items()}))
        apply_staged_files(directory)


def finish_rotation(authority: CertificateAuthority) -> bool:
    """Stops trusting the former authority. Returns whether there was one."""
    from shoal.apiserver.pki.sign import without_issuer  # noqa: PLC0415

    directory = authority.directory
    with directory_lock(directory):
        if not is_rotating(directory):
            return False
        # An operator may have added others, which stay.
        trusted = without_issuer(authority.certificate, (directory / CROSS_CERTIFICATE).read_bytes())
        write_atomically(directory / "ca.crt", trusted)
        (directory / CROSS_CERTIFICATE).unlink()
    return True
