"""Signs approved CertificateSigningRequests of the Kubernetes signers and of the worker signer. Deletes old
requests.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.csrsigning.decide import (
    KUBELET_SERVING_SIGNER,
    approval_time,
    duration_of,
    is_issued,
    needs_signing,
    node_of,
    removal_time,
    serving_names_error,
    validation_error,
    with_certificate,
    with_failed_condition,
    worker_error,
    worker_name,
)
from shoal.kinds.certificates.pem import not_after, parse_request
from shoal.kinds.fleet import infrav1, worker_join
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]
CertificateSigner = Callable[[bytes, str, str, float, Sequence[str], Sequence[str]], Awaitable[bytes]]
"""Arguments: CSR as PEM, logical cluster, its uid, seconds, usages, URIs. Returns a certificate of the cluster's
authority as PEM. Raises ValueError for an unsound request.
"""

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
WORKERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "workers")
ROOT = "root"
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
NODE_GRACE_SECONDS, NODE_POLL_SECONDS = 300.0, 5.0
"""How long a serving certificate waits for the addresses of its Node, and how often they are read."""
CSRS = GroupVersionResource("certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False)


def new_csr_signing_controller(client: Client, clock: Clock, sign: CertificateSigner) -> Controller[Key]:
    reconciler = CSRSigningReconciler(client, clock, sign)
    csrs = Informer(client.in_cluster("*"), CSRS, clock)
    return new_kind_controller("certificates", csrs, clock, lambda csr: True, reconciler.reconcile)


class CSRSigningReconciler:
    def __init__(self, client: Client, clock: Clock, sign: CertificateSigner) -> None:
        self._client, self._clock, self._sign = client, clock, sign

    async def reconcile(self, key: Key, cached: Object) -> float | None:
        cluster, _, name = key
        client = self._client.in_cluster(cluster)
        try:
            csr = await client.get(CSRS, name)
            if needs_signing(csr):
                logical_cluster = await self._client.in_cluster(ROOT).get(LOGICAL_CLUSTERS, cluster)
                signed = await self._sign_or_fail(csr, cluster, logical_cluster["metadata"]["uid"])
                if signed is None:
                    return NODE_POLL_SECONDS
                csr = await client.update(CSRS, signed, "status")
            expires_at = removal_time(csr, self._certificate_expiry(csr))
            if expires_at is None:
                return None
            if expires_at > self._clock.now():
                return expires_at - self._clock.now()
            await client.delete(CSRS, name, uid=csr["metadata"]["uid"])
        except NotFound:
            pass
        return None

    async def _sign_or_fail(self, csr: Object, cluster: str, uid: str) -> Object | None:
        """Returns None while the Node of a serving certificate may still report its addresses."""
        spec = csr["spec"]
        usages = spec.get("usages") or []
        try:
            request = base64.b64decode(spec["request"])
            subject = parse_request(request)
            reject_reason = validation_error(spec["signerName"], subject, usages)
            if not reject_reason and spec["signerName"] == KUBELET_SERVING_SIGNER:
                reject_reason = serving_names_error(subject, await self._get_node(cluster, node_of(subject)))
                if reject_reason and self._clock.now() < approval_time(csr) + NODE_GRACE_SECONDS:
                    return None
            uris: list[str] = []
            if not reject_reason and spec["signerName"] == worker_join.SIGNER_NAME and cluster == ROOT:
                worker = await self._get_worker(worker_name(subject))
                reject_reason = worker_error(csr, subject, worker)
                uris += [worker_join.worker_uri(worker["metadata"]["uid"])] if worker is not None else []
            if not reject_reason:
                certificate = await self._sign(request, cluster, uid, duration_of(csr), usages, uris)
                return with_certificate(csr, base64.b64encode(certificate).decode())
        except ValueError as error:
            reject_reason = f"the request cannot be signed: {error}"
        return with_failed_condition(csr, reject_reason, rfc3339(self._clock.now()))

    async def _get_node(self, cluster: str, name: str) -> Object | None:
        try:
            return await self._client.in_cluster(cluster).get(NODES, name)
        except NotFound:
            return None

    async def _get_worker(self, name: str) -> Object | None:
        try:
            return await self._client.in_cluster(ROOT).get(WORKERS, name, infrav1.NAMESPACE)
        except NotFound:
            return None

    @staticmethod
    def _certificate_expiry(csr: Object) -> float | None:
        return not_after(base64.b64decode(csr["status"]["certificate"])) if is_issued(csr) else None
