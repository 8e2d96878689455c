"""What a PEM says: the request in a CSR, the end of a certificate. `cryptography` is imported at the first CSR."""

from __future__ import annotations

from shoal.controlplane.certificates.decide import Asked


def read_request(pem: bytes) -> Asked:
    """Raises ValueError when it is none."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    request = x509.load_pem_x509_csr(pem)
    names = {
        oid: tuple(str(each.value) for each in request.subject.get_attributes_for_oid(oid))
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    try:
        san = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        san = x509.SubjectAlternativeName([])
    return Asked(
        common_name=next(iter(names[NameOID.COMMON_NAME]), ""),
        organizations=names[NameOID.ORGANIZATION_NAME],
        dns=tuple(san.get_values_for_type(x509.DNSName)),
        addresses=tuple(str(address) for address in san.get_values_for_type(x509.IPAddress)),
        emails=tuple(san.get_values_for_type(x509.RFC822Name)),
        uris=tuple(san.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def not_after(pem: bytes) -> float | None:
    """None when it cannot be read."""
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return None
