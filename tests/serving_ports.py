"""Clients of a cluster at its own address: connections with and without a client certificate."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATIENCE = 20.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def new_request(common_name: str, organization: str = "") -> tuple[bytes, bytes]:
    """Returns a PKCS #10 request and its key as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        names.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return request.public_bytes(serialization.Encoding.PEM), private


def trust(authority: str, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """The context of a client that trusts the authority only, perhaps with a certificate of its own."""
    context = ssl.create_default_context(cadata=authority)
    if certificate:
        with tempfile.NamedTemporaryFile() as file:
            file.write(key + certificate)
            file.flush()
            context.load_cert_chain(Path(file.name))
    return context


async def request(
    port: int,
    tls: ssl.SSLContext,
    path: str,
    token: str = "",
    *,
    name: str = "127.0.0.1",
    host: str = "127.0.0.1",
) -> tuple[int, Any]:
    """Returns status and JSON body of a GET."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    try:
        content = json.loads(body)
    except ValueError:
        content = body
    return int(head.split()[1]), content
