"""The worker graph of `authz.worker` from the watch cache: who owns the ManagedClusters, kubeconfigs, logs and
CertificateSigningRequests of root.
"""

from __future__ import annotations

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet import infrav1, migration, worker_join

_EXPELLED_MARKER = worker_join.EXPELLED_ANNOTATION.encode()


class CachedWorkerGraph:
    def __init__(self, cache: WatchCache) -> None:
        self._clusters = cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._workers = cache.resource_cache(infrav1.GROUP, "workers")
        self._secrets = cache.resource_cache("", "secrets")
        self._requests = cache.resource_cache("certificates.k8s.io", "certificatesigningrequests")

    def is_expelled(self, worker: str) -> bool:
        entry = self._workers.get(ROOT, infrav1.NAMESPACE, worker)
        # Rare, and the bytes show it without decoding.
        return entry is not None and _EXPELLED_MARKER in entry.data and worker_join.is_expelled(entry.object())

    def assigned_worker_of(self, namespace: str, name: str) -> str:
        entry = self._clusters.get(ROOT, namespace, name)
        return infrav1.assigned_worker(entry.object()) if entry is not None else ""

    def was_assigned(self, worker: str, namespace: str, name: str) -> bool:
        entry = self._clusters.get(ROOT, namespace, name)
        return entry is not None and worker in migration.former_workers(entry.object())

    def is_foreign_secret(self, namespace: str, secret: str) -> bool:
        entry = self._secrets.get(ROOT, namespace, secret)
        if entry is None:
            return False
        owner_secret, segment = entry.object(), migration.parse_log_secret_name(secret)
        if segment is not None:
            return not migration.is_log_secret_of(owner_secret, segment[0])
        return not infrav1.is_owned_by_cluster(owner_secret, infrav1.cluster_of_kubeconfig_secret(secret))

    def requester_of(self, request: str) -> str:
        entry = self._requests.get(ROOT, "", request)
        return str(entry.object()["spec"].get("username") or "") if entry is not None else ""
