"""The keys of a logical cluster as they are created and rotated: lists, newest first.

An authority has a certificate and a key, and during a rotation a cross certificate: its subject and key, signed by the
former authority. The former authority keeps its certificate only. A token key is a secret number. `sign` and `es256`,
which import `cryptography`, are imported late.
"""

from __future__ import annotations

import base64
from typing import Any

from shoal.apiserver.pki.ca import CA_LIFETIME

Object = dict[str, Any]
Keys = list[Object]

CA, SERVICE_ACCOUNT = "ca", "service-account"
"""The names of a cluster's key objects."""


def new_keys(name: str, generation: int, now: float) -> Keys:
    return [_new_ca(generation, now) if name == CA else _new_signing_key(generation)]


def generation_of(keys: Keys) -> int:
    return int(keys[0].get("generation", 1))


def rotated_keys(name: str, keys: Keys, generation: int, now: float) -> Keys:
    """Returns new keys, followed by the current ones. Keys from before those are dropped."""
    former = keys[0]
    if name != CA:
        return [_new_signing_key(generation), former]
    from shoal.apiserver.pki.sign import CertificateSigner  # noqa: PLC0415

    signer = CertificateSigner(former["certificate"].encode(), former["key"].encode())
    authority = _new_ca(generation, now)
    cross = signer.cross_sign(authority["certificate"].encode(), now).decode()
    # Nothing is signed by the former authority any more: its key is destroyed.
    return [{**authority, "cross": cross}, {"certificate": former["certificate"], "generation": generation_of(keys)}]


def has_former(keys: Keys) -> bool:
    return len(keys) > 1


def without_former(keys: Keys) -> Keys:
    return [{field: value for field, value in keys[0].items() if field != "cross"}]


def _new_ca(generation: int, now: float) -> Object:
    from shoal.apiserver.pki.sign import new_ca  # noqa: PLC0415

    certificate, key = new_ca(now, now + CA_LIFETIME)
    return {"certificate": certificate.decode(), "key": key.decode(), "generation": generation}


def _new_signing_key(generation: int) -> Object:
    from shoal.apiserver.authn.es256 import generate_secret  # noqa: PLC0415

    return {"key": base64.b64encode(generate_secret()).decode(), "generation": generation}
