"""The certificate by which a client has authenticated its connection."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.objects.wire import ClientCertificate


def client_certificate(transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Returns the subject and URI SANs of the peer's certificate, which the TLS layer has verified."""
    tls: Any = transport.get_extra_info("ssl_object")
    peer_cert = tls.getpeercert() if tls is not None else None
    if not peer_cert:
        return None
    subject = [pair for names in peer_cert.get("subject", ()) for pair in names]
    return ClientCertificate(
        next((value for key, value in subject if key == "commonName"), ""),
        tuple(value for key, value in subject if key == "organizationName"),
        tuple(value for key, value in peer_cert.get("subjectAltName", ()) if key == "URI"),
    )
