"""Which certificates of workers are accepted, from the server's cache.

A certificate is bound to the uid of the Worker it was issued for. It opens nothing once that Worker is expelled or
deleted, whoever creates another Worker of the same name.
"""

from __future__ import annotations

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet import infrav1, worker_join

MAX_CACHED_WORKERS = 16_384


class WorkerCertificates:
    def __init__(self, cache: WatchCache) -> None:
        self._workers = cache.resource_cache(infrav1.GROUP, "workers")
        self._accepted: dict[str, tuple[int, frozenset[str]]] = {}
        """By name: the revision of the Worker, and the uids that it accepts in certificates; empty: none is named."""

    def is_accepted(self, worker: str, uid: str) -> bool:
        """`uid` is the one the certificate is bound to; empty: it was issued before hubs bound certificates."""
        entry = self._workers.get(ROOT, infrav1.NAMESPACE, worker)
        if entry is None:
            return False
        accepted = self._accepted.get(worker)
        if accepted is None or accepted[0] != entry.revision:
            if len(self._accepted) >= MAX_CACHED_WORKERS:
                self._accepted.clear()
            accepted = self._accepted[worker] = entry.revision, _accepted_uids(entry.object())
        return uid in accepted[1]


def _accepted_uids(worker: infrav1.Object) -> frozenset[str]:
    if worker_join.is_expelled(worker):
        return frozenset()
    unbound = [""] if worker_join.accepts_unbound_certificates(worker) else []
    return frozenset([worker["metadata"]["uid"], *unbound])
