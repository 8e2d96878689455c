"""The worker graph of `authz.worker` from the watch cache: who owns the ManagedClusters, kubeconfigs, logs and
CertificateSigningRequests of root.
"""

from __future__ import annotations

from shoal.apiserver.cache import Cache
from shoal.apiserver.paths import ROOT
from shoal.kinds import fleet, joining, moving

_EXPELLED = joining.EXPELLED.encode()


class CachedHoldings:
    def __init__(self, cache: Cache) -> None:
        self._clusters = cache.kind(fleet.GROUP, "managedclusters")
        self._workers = cache.kind(fleet.GROUP, "workers")
        self._secrets = cache.kind("", "secrets")
        self._requests = cache.kind("certificates.k8s.io", "certificatesigningrequests")

    def is_expelled(self, worker: str) -> bool:
        entry = self._workers.get(ROOT, fleet.NAMESPACE, worker)
        # Rare, and the bytes show it without decoding.
        return entry is not None and _EXPELLED in entry.data and joining.is_expelled(entry.object())

    def worker_of(self, namespace: str, name: str) -> str:
        entry = self._clusters.get(ROOT, namespace, name)
        return fleet.assigned_worker(entry.object()) if entry is not None else ""

    def had(self, worker: str, namespace: str, name: str) -> bool:
        entry = self._clusters.get(ROOT, namespace, name)
        return entry is not None and worker in moving.former_workers(entry.object())

    def is_somebody_elses(self, namespace: str, secret: str) -> bool:
        entry = self._secrets.get(ROOT, namespace, secret)
        if entry is None:
            return False
        found, segment = entry.object(), moving.segment_of(secret)
        if segment is not None:
            return not moving.is_log_of(found, segment[0])
        return not fleet.is_kubeconfig_of(found, fleet.cluster_of_secret(secret))

    def requester_of(self, request: str) -> str:
        entry = self._requests.get(ROOT, "", request)
        return str(entry.object()["spec"].get("username") or "") if entry is not None else ""
