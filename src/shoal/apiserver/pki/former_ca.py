"""Retires the authority of a data directory from before clusters had authorities of their own.

That authority signed certificates for tenants, with names of their choice, so no client may go on trusting it. Its key
is destroyed. Its certificate stays as `former-ca.crt`: client certificates that it signed are accepted until they
expire. `former-serving.pem`, its last certificate, is served to clients that know no other authority, until an
operator removes both files (`shoal rotate-ca --server --finish`). The shared key of service account tokens is
destroyed as well; `former-service-account.pub` verifies the tokens that it signed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from shoal.apiserver.pki.ca import CA_LIFETIME, CertificateAuthority, directory_lock, write_atomically
from shoal.apiserver.pki.cluster_keys import KEY_ENCRYPTION_FILE, load_key_encryption_key
from shoal.clock import Clock

FORMER_CA, FORMER_SERVING, FORMER_TOKEN_KEY = "former-ca.crt", "former-serving.pem", "former-service-account.pub"
SHARED_TOKEN_KEY = "service-account.key"


def has_shared_ca(directory: Path) -> bool:
    """True if the authority in the directory signs for everybody: the key of cluster keys came with their own."""
    return (directory / "ca.key").exists() and not (directory / KEY_ENCRYPTION_FILE).exists()


def retire_shared_ca(directory: Path, names: Iterable[str], clock: Clock) -> None:
    """`names` are covered by its last serving certificate, besides those it covered before. Can be repeated if it was
    interrupted: the file that marks the end is written last.
    """
    from shoal.apiserver.authn.es256 import public_key_of_pem  # noqa: PLC0415

    former = CertificateAuthority(directory, clock)
    with directory_lock(directory):
        if not (directory / FORMER_CA).exists():
            serving = former.issue_serving([*names, *former.serving_names()], CA_LIFETIME)
            write_atomically(directory / FORMER_SERVING, serving.key + serving.certificate)
            write_atomically(directory / FORMER_CA, former.certificate)
        token_key = directory / SHARED_TOKEN_KEY
        if token_key.exists():
            public = base64.b64encode(public_key_of_pem(token_key.read_bytes()))
            write_atomically(directory / FORMER_TOKEN_KEY, public + b"\n")
            token_key.unlink()
        former.replace()
        for derived in ("serving.pem", "serving.json"):
            (directory / derived).unlink(missing_ok=True)
    load_key_encryption_key(directory)


def former_token_keys(directory: Path) -> tuple[str, ...]:
    """The public key (DER, base64) that verifies tokens from before clusters had keys of their own."""
    file = directory / FORMER_TOKEN_KEY
    return (file.read_text().strip(),) if file.exists() else ()
