"""Requests a client certificate from the hub and waits for it: first with a join token, later with the current
certificate.
"""

from __future__ import annotations

import base64
from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.resources import REQUESTS
from shoal.fleet.worker.identity.keys import certificate_request, request_name
from shoal.kinds import fleet, joining
from shoal.objects.errors import AlreadyExists, Forbidden, ShoalError

Object = dict[str, Any]

FIRST_LOOK, LONGEST_LOOK = 0.02, 1.0
"""Seconds between polls of the request; each twice the one before."""
PATIENCE = 30.0
"""A hub decides at once. A hub whose controllers do not run is not waited for forever."""


class Refused(ShoalError):
    """The hub has denied the request and would again."""


class AskedBefore(Refused):
    """There is a request for this key that was made with another token."""


class Undecided(ShoalError):
    """The hub has not decided in time."""


async def certified(hub: Client, clock: Clock, key: bytes, worker: str, store: str, patience: float = PATIENCE) -> str:
    """Returns a certificate, as PEM, for the key and the worker's user. Raises CertificateDenied, ApprovalTimeout, or
    an error of the client.
    """
    request = await _ask(hub, key, worker, store)
    began, pause = clock.monotonic(), FIRST_LOOK
    while True:
        status = request.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] in ("Denied", "Failed"):
                raise Refused(condition.get("message") or f"the request was {condition['type'].lower()}")
        if status.get("certificate"):
            return base64.b64decode(status["certificate"]).decode()
        if clock.monotonic() - began > patience:
            raise Undecided(f"nobody has decided on the request {request['metadata']['name']} yet")
        await clock.sleep(pause)
        pause = min(pause * 2, LONGEST_LOOK)
        request = await hub.get(REQUESTS, request["metadata"]["name"])


async def _ask(hub: Client, key: bytes, worker: str, store: str) -> Object:
    name = request_name(key, worker)
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "annotations": {fleet.STORE: store}},
        "spec": {
            "signerName": joining.SIGNER,
            "usages": list(joining.USAGES),
            "request": base64.b64encode(certificate_request(key, worker)).decode(),
        },
    }
    try:
        return await hub.create(REQUESTS, body)
    except AlreadyExists:  # Created before, by a process that was killed before the certificate was issued.
        pass
    try:
        return await hub.get(REQUESTS, name)
    except Forbidden:
        raise AskedBefore("the worker has asked with another token before") from None
