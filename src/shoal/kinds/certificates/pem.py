"""Reads PEM data: the request in a CertificateSigningRequest, and the validity of a certificate. Pure.

`cryptography` is imported on first use: most servers never need it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_match_begin = re.compile(rb"-----BEGIN ([^\n-]+)-----\r?\n").match
_match_end = re.compile(rb"-----END ([^\n-]+)-----").match


class PEMBlock(NamedTuple):
    type: str
    body: bytes
    pem: bytes
    """The block with its first and last line."""


def find_blocks(pem: bytes) -> Iterator[PEMBlock]:
    """Yields the blocks that have an end of their own type. Any other text is skipped.

    The ends are found once: a search for every beginning would read the rest of the data for each.
    """
    ends: dict[bytes, list[re.Match[bytes]]] = {}
    for end in _find_lines(pem, b"-----END ", _match_end):
        ends.setdefault(end[1], []).append(end)
    at = 0
    for begin in _find_lines(pem, b"-----BEGIN ", _match_begin):
        same_type = ends.get(begin[1], ())
        index = bisect_left(same_type, begin.end(), key=re.Match.start)
        if begin.start() >= at and index < len(same_type):
            end = same_type[index]
            at = end.end()
            kind = begin[1].decode(errors="replace")
            yield PEMBlock(kind, pem[begin.end() : end.start()], pem[begin.start() : at])


def _find_lines(
    pem: bytes, mark: bytes, match_line: Callable[[bytes, int], re.Match[bytes] | None]
) -> Iterator[re.Match[bytes]]:
    at = pem.find(mark)
    while at >= 0:
        if line := match_line(pem, at):
            yield line
        at = pem.find(mark, at + len(mark))


@dataclass(frozen=True, slots=True)
class CSRSubject:
    """Subject and subjectAltNames of the request in a CSR."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def parse_request(pem: bytes) -> CSRSubject:
    """Raises ValueError when the PEM is not a certificate request."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    request = x509.load_pem_x509_csr(pem)
    names = {
        oid: tuple(str(each.value) for each in request.subject.get_attributes_for_oid(oid))
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    if len(names[NameOID.COMMON_NAME]) > 1:
        raise ValueError("the subject has more than one common name")
    try:
        san = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        san = x509.SubjectAlternativeName([])
    return CSRSubject(
        common_name=next(iter(names[NameOID.COMMON_NAME]), ""),
        organizations=names[NameOID.ORGANIZATION_NAME],
        dns_names=tuple(san.get_values_for_type(x509.DNSName)),
        ip_addresses=tuple(str(address) for address in san.get_values_for_type(x509.IPAddress)),
        email_addresses=tuple(san.get_values_for_type(x509.RFC822Name)),
        uris=tuple(san.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def inspect_request(request: object) -> tuple[str, list[str]]:
    """Inspects `spec.request`: returns its error or an empty string, and the organizations of its subject."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    try:
        pem = b64decode(str(request or ""), validate=True)
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
            return "PEM block type must be CERTIFICATE REQUEST", []
        parsed = x509.load_pem_x509_csr(pem)
        if not parsed.is_signature_valid:
            return "the signature of the certificate request is invalid", []
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        return f"the certificate request cannot be read: {error}", []
    return "", [str(name.value) for name in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def certificate_error(certificate: str) -> str:
    """Returns the error of `status.certificate`, or an empty string."""
    from cryptography import x509  # noqa: PLC0415

    found = False
    for block in find_blocks(b64decode(certificate)):
        found = True
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if b":" in block.body:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block.pem)
        except ValueError:
            return "x509: malformed certificate"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def not_after(pem: bytes) -> float | None:
    """Returns None when the certificate cannot be read."""
    period = validity_period(pem)
    return period[1] if period is not None else None


def validity_period(pem: bytes) -> tuple[float, float] | None:
    """Returns notBefore and notAfter in seconds since the epoch, or None when the certificate cannot be read."""
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
