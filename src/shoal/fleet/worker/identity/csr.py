"""Requests a client certificate from the hub and waits for it: first with a join token, later with the current
certificate.
"""

from __future__ import annotations

import base64
from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import CSRS
from shoal.fleet.worker.identity.keys import csr_name, new_csr
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.errors import AlreadyExists, Forbidden, ShoalError

Object = dict[str, Any]

FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0
"""Seconds between polls of the request; each twice the one before."""
APPROVAL_TIMEOUT_SECONDS = 30.0
"""A hub decides at once. A hub whose controllers do not run is not waited for forever."""


class CertificateDenied(ShoalError):
    """The hub has denied the request and would again."""


class CSRConflict(CertificateDenied):
    """There is a request for this key that was made with another token."""


class ApprovalTimeout(ShoalError):
    """The hub has not decided in time."""


async def request_certificate(
    hub: Client, clock: Clock, key: bytes, worker: str, store: str, approval_timeout: float = APPROVAL_TIMEOUT_SECONDS
) -> str:
    """Returns a certificate, as PEM, for the key and the worker's user. Raises CertificateDenied, ApprovalTimeout, or
    an error of the client.
    """
    csr = await _create_csr(hub, key, worker, store)
    started, pause = clock.monotonic(), FIRST_POLL_SECONDS
    while True:
        status = csr.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] in ("Denied", "Failed"):
                raise CertificateDenied(
                    condition.get("message") or f"the certificate request was {condition['type'].lower()}"
                )
        if status.get("certificate"):
            return base64.b64decode(status["certificate"]).decode()
        if clock.monotonic() - started > approval_timeout:
            raise ApprovalTimeout(f"certificate request {csr['metadata']['name']} is neither approved nor denied yet")
        await clock.sleep(pause)
        pause = min(pause * 2, MAX_POLL_SECONDS)
        csr = await hub.get(CSRS, csr["metadata"]["name"])


async def _create_csr(hub: Client, key: bytes, worker: str, store: str) -> Object:
    name = csr_name(key, worker)
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "annotations": {infrav1.STORE_ANNOTATION: store}},
        "spec": {
            "signerName": worker_join.SIGNER_NAME,
            "usages": list(worker_join.KEY_USAGES),
            "request": base64.b64encode(new_csr(key, worker)).decode(),
        },
    }
    try:
        return await hub.create(CSRS, body)
    except AlreadyExists:  # Created before, by a process that was killed before the certificate was issued.
        pass
    try:
        return await hub.get(CSRS, name)
    except Forbidden:
        raise CSRConflict("the worker has a certificate request made with another token") from None
