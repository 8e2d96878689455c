"""Warns when certificate and key of a `kubernetes.io/tls` Secret do not match. Go's words; pure.

`cryptography` is imported on the first Secret with two PEMs.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from shoal.kinds.certificates.pem import find_blocks

Object = dict[str, Any]

TLS_SECRET_TYPE = "kubernetes.io/tls"


def warn_secret(obj: Object, old: Object | None) -> list[str]:
    if obj.get("type") != TLS_SECRET_TYPE:
        return []
    data = obj.get("data") or {}
    try:
        certificate, key = (b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    except (binascii.Error, ValueError):
        return []
    error = _certificate_error(certificate) or _key_error(key) or _key_pair_error(certificate, key)
    return [error] if error else []


def _pem_types(pem: bytes) -> list[str]:
    return [block.type for block in find_blocks(pem)]


def _is_key(kind: str) -> bool:
    return kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY")


def _certificate_error(pem: bytes) -> str:
    kinds = _pem_types(pem)
    if "CERTIFICATE" in kinds:
        return ""
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and _is_key(kinds[0]):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _key_error(pem: bytes) -> str:
    kinds = _pem_types(pem)
    if any(map(_is_key, kinds)):
        return ""
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'


def _key_pair_error(certificate: bytes, key: bytes) -> str:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        # It takes seconds to tell whether the factors of a long RSA key are primes, and only its public part is used.
        own = serialization.load_pem_private_key(key, None, unsafe_skip_rsa_key_validation=True).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    same = own.public_bytes(*form) == public.public_bytes(*form)
    return "" if same else "tls: private key does not match public key"
