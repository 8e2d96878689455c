"""TLS contexts of clients. A separate module, because a command's help must not load ssl."""

from __future__ import annotations

import ssl
from typing import Any


class ServerNameContext(ssl.SSLContext):
    """Asks the server for a certificate of that name, and verifies it, whatever address is dialled: kubeconfig's
    `tls-server-name`.
    """

    server_name: str = ""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        if self.server_name:
            kwargs["server_hostname"] = self.server_name
        return super().wrap_bio(*args, **kwargs)


def client_context(ca_pem: str = "", server_name: str = "") -> ssl.SSLContext:
    """`ca_pem` holds the trusted authorities; empty: those of the system."""
    context = ServerNameContext(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = server_name
    if ca_pem:
        context.load_verify_locations(cadata=ca_pem)
    else:
        context.load_default_certs()
    return context
