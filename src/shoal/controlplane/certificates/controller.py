"""Signs approved CertificateSigningRequests of the Kubernetes signers and of the worker signer. Deletes old
requests.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.certificates.decide import (
    failed,
    is_issued,
    is_to_be_signed,
    lifetime,
    problem,
    removal,
    signed,
)
from shoal.kinds.certificate_requests import not_after, read_request
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]
Sign = Callable[[bytes, str, str, float, Sequence[str]], bytes]
"""Arguments: CSR as PEM, logical cluster, its uid, seconds, usages. Returns the certificate as PEM. Raises ValueError
for an unsound request.
"""

CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)
REQUESTS = Kind("certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False)


def certificate_controller(client: Client, clock: Clock, sign: Sign) -> Controller:
    loop = CertificateLoop(client, clock, sign)
    return Controller("certificates", client.at("*"), REQUESTS, clock, lambda csr: True, loop.reconcile)


class CertificateLoop:
    def __init__(self, client: Client, clock: Clock, sign: Sign) -> None:
        self._client, self._clock, self._sign = client, clock, sign

    async def reconcile(self, key: Key, seen: Object) -> float | None:
        cluster, _, name = key
        client = self._client.at(cluster)
        try:
            csr = await client.get(REQUESTS, name)
            if is_to_be_signed(csr):
                home = await self._client.at("root").get(CLUSTERS, cluster)
                csr = await client.update(REQUESTS, self._answered(csr, cluster, home["metadata"]["uid"]), "status")
            end = removal(csr, self._end(csr))
            if end is None:
                return None
            if end > self._clock.now():
                return end - self._clock.now()
            await client.delete(REQUESTS, name, uid=csr["metadata"]["uid"])
        except NotFound:
            pass
        return None

    def _answered(self, csr: Object, cluster: str, uid: str) -> Object:
        spec = csr["spec"]
        usages = spec.get("usages") or []
        try:
            request = base64.b64decode(spec["request"])
            wrong = problem(spec["signerName"], read_request(request), usages)
            if not wrong:
                certificate = self._sign(request, cluster, uid, lifetime(csr), usages)
                return signed(csr, base64.b64encode(certificate).decode())
        except ValueError as error:
            wrong = f"the request cannot be signed: {error}"
        return failed(csr, wrong, rfc3339(self._clock.now()))

    @staticmethod
    def _end(csr: Object) -> float | None:
        return not_after(base64.b64decode(csr["status"]["certificate"])) if is_issued(csr) else None
