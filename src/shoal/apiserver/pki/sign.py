"""Issues certificates: PEM in, PEM out.

Imports `cryptography`, which is slow to import. Callers import this module late.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = 300.0
"""Certificates are valid this many seconds early, for clients whose clock is behind."""
_EXTENDED_KEY_USAGES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}


class KeyMismatch(ValueError):
    """The CA key does not belong to the CA certificate."""


def new_ca(now: float, end: float) -> tuple[bytes, bytes]:
    """Returns certificate and key. One authority may stand below it: the one that replaces it."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities of one name confuse clients that trust both.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"shoal-ca-{os.urandom(4).hex()}")])
    certificate = (
        _builder(name, name, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


class CertificateSigner:
    """A loaded CA. Raises ValueError if certificate or key is unusable."""

    def __init__(self, certificate: bytes, key: bytes) -> None:
        self._ca = x509.load_pem_x509_certificate(certificate)
        private_key = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private_key, ec.EllipticCurvePrivateKey) or private_key.public_key() != self._ca.public_key():
            raise KeyMismatch
        self._key = private_key
        self.not_after = self._ca.not_valid_after_utc.timestamp()

    def issue_serving(self, names: Iterable[str], now: float, end: float) -> tuple[bytes, bytes]:
        """Returns certificate and key."""
        addresses = {name: _address(name) for name in names}
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(address) if address else x509.DNSName(name) for name, address in addresses.items()
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shoal")])
        return self._issue_with_new_key(subject, alternatives, "server auth", now, end)

    def inspect_serving(self, chain: bytes) -> tuple[list[str], float]:
        """Returns the names and the expiry of a serving certificate of this CA, given with its key. Raises ValueError
        for anything else, such as a certificate of another CA.
        """
        certificate = x509.load_pem_x509_certificate(chain)
        key = serialization.load_pem_private_key(chain, password=None)
        try:
            certificate.verify_directly_issued_by(self._ca)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (InvalidSignature, TypeError, x509.ExtensionNotFound) as error:
            raise ValueError("it was not issued by this certificate authority") from error
        if key.public_key() != certificate.public_key():
            raise ValueError("its key does not match")
        covered_names = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
        return covered_names, certificate.not_valid_after_utc.timestamp()

    def cross_sign(self, certificate: bytes, now: float) -> bytes:
        """Returns a certificate of this CA for the subject and the key of the CA that replaces it. Sent with a leaf of
        that CA, it lets clients verify the leaf that trust only this CA. Raises ValueError if this CA allows no other
        below it.
        """
        other = x509.load_pem_x509_certificate(certificate)
        path_length = self._ca.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length
        if path_length is not None and path_length < 1:
            raise ValueError("its path length allows no other certificate authority below it")
        end = min(self.not_after, other.not_valid_after_utc.timestamp())
        cross = (
            _builder(other.subject, self._ca.subject, other.public_key(), now, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(self._key_identifier(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return cross.public_bytes(serialization.Encoding.PEM)

    def sign_csr(self, request: bytes, uris: Sequence[str], usages: Sequence[str], now: float, end: float) -> bytes:
        """Returns a certificate for the key and names of a PKCS #10 request. Raises ValueError for an unsound request.

        `uris` replace the URIs among its alternative names.
        """
        csr = x509.load_pem_x509_csr(request)
        if not csr.is_signature_valid:
            raise ValueError("it is not signed by its own key")
        try:
            names = list(csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except x509.ExtensionNotFound:
            names = []
        alternatives: list[x509.GeneralName] = [
            name for name in names if isinstance(name, x509.DNSName | x509.IPAddress | x509.RFC822Name)
        ]
        alternatives += [x509.UniformResourceIdentifier(uri) for uri in uris]
        return self._sign(csr.subject, csr.public_key(), alternatives, usages, now, end)

    def _issue_with_new_key(
        self, subject: x509.Name, alternatives: list[x509.GeneralName], usage: str, now: float, end: float
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        return self._sign(subject, key.public_key(), alternatives, (usage,), now, end), _pem(key)

    def _sign(
        self,
        subject: x509.Name,
        key: CertificatePublicKeyTypes,
        alternatives: list[x509.GeneralName],
        usages: Sequence[str],
        now: float,
        end: float,
    ) -> bytes:
        usage = _key_usage(signs_certificates=False, encrypts_keys="key encipherment" in usages)
        extended = x509.ExtendedKeyUsage(
            [_EXTENDED_KEY_USAGES[each] for each in usages if each in _EXTENDED_KEY_USAGES]
        )
        builder = (
            _builder(subject, self._ca.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(extended, critical=False)
            .add_extension(self._key_identifier(), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        key_id = self._ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)


def without_issuer(bundle: bytes, certificate: bytes) -> bytes:
    """Returns the certificates of the bundle without that of the authority that has issued the given one."""
    issuer = x509.load_pem_x509_certificate(certificate).issuer
    kept = [each for each in x509.load_pem_x509_certificates(bundle) if each.subject != issuer]
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in kept)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, now: float, end: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now, UTC) - timedelta(seconds=_SKEW))
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool, encrypts_keys: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=encrypts_keys,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
