"""The TLS contexts of the clusters' own addresses: a serving certificate of the cluster's authority, and client
certificates of that authority only.
"""

from __future__ import annotations

import ssl
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from shoal.apiserver.keyed_locks import KeyedLocks
from shoal.apiserver.pki.ca import LEAF_LIFETIME, RENEW_BEFORE, IssuedCertificate, tls_context
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.apiserver.pki.key_rotation import CA
from shoal.clock import Clock

MAX_CONTEXTS = 512
SHORTEST_USE = 3600.0
"""Seconds for which a context is used even if the authority itself is about to expire."""


@dataclass(frozen=True, slots=True)
class _ClusterContext:
    uid: str
    names: tuple[str, ...]
    context: ssl.SSLContext
    renew_at: float


class ClusterTLSContexts:
    """Contexts of the clusters that were used last. A context is built anew when the authority of its cluster or its
    names change, and 30 days before its certificate expires.
    """

    def __init__(self, keys: ClusterKeys, directory: Path, clock: Clock) -> None:
        """`directory` is private to the server."""
        self._keys, self._directory, self._clock = keys, directory, clock
        self._contexts: OrderedDict[str, _ClusterContext] = OrderedDict()
        self._locks = KeyedLocks()
        keys.add_change_handler(self._on_keys_changed)

    async def context(self, cluster: str, uid: str, names: tuple[str, ...]) -> ssl.SSLContext:
        """`uid` tells the cluster from an earlier one of the same name."""
        cached = self._cached_context(cluster, uid, names)
        if cached is not None:
            return cached
        await self._locks.acquire((cluster, ""))
        try:  # Many clients connect at once: one certificate is issued.
            return self._cached_context(cluster, uid, names) or await self._build(cluster, uid, names)
        finally:
            self._locks.release((cluster, ""))

    def forget(self, cluster: str) -> None:
        self._contexts.pop(cluster, None)

    def _cached_context(self, cluster: str, uid: str, names: tuple[str, ...]) -> ssl.SSLContext | None:
        found = self._contexts.get(cluster)
        if found is None or (found.uid, found.names) != (uid, names) or self._clock.now() >= found.renew_at:
            return None
        self._contexts.move_to_end(cluster)
        return found.context

    async def _build(self, cluster: str, uid: str, names: tuple[str, ...]) -> ssl.SSLContext:
        issued = await self._keys.issue_serving(cluster, names, LEAF_LIFETIME)
        context = _load(issued, self._keys.ca_bundle(cluster), self._directory)
        renew_at = max(issued.not_after - RENEW_BEFORE, self._clock.now() + SHORTEST_USE)
        self._contexts[cluster] = _ClusterContext(uid, names, context, renew_at)
        self._contexts.move_to_end(cluster)
        if len(self._contexts) > MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return context

    def _on_keys_changed(self, cluster: str, name: str) -> None:
        if name == CA:
            self.forget(cluster)


def _load(issued: IssuedCertificate, client_ca: str, directory: Path) -> ssl.SSLContext:
    """The ssl module reads a certificate chain from a file only. The file is private and exists during this call."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".cluster-serving-") as file:
        file.write(issued.key + issued.certificate)
        file.flush()
        return tls_context(Path(file.name), client_ca)
