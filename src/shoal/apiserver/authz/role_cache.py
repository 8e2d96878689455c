"""RoleGetter over the watch cache: roles and bindings of a cluster, and a generation that changes with them."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache.cacher import CacheEvent, WatchCache

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


class CachedRoleGetter:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._generations: dict[str, int] = {}
        for plural in PLURALS:
            cache.resource_cache(GROUP, plural).add_event_handler("*", self._on_change)

    def _on_change(self, event: CacheEvent) -> None:
        self._generations[event.cluster] = event.revision

    def generation(self, cluster: str) -> int:
        return self._generations.get(cluster, 0)

    def forget(self, cluster: str) -> None:
        """Forgets a deleted cluster. A new cluster of the same name starts from the beginning."""
        self._generations.pop(cluster, None)

    def cluster_role_bindings(self, cluster: str) -> list[Object]:
        return self._list("clusterrolebindings", cluster, "")

    def role_bindings(self, cluster: str, namespace: str) -> list[Object]:
        return self._list("rolebindings", cluster, namespace)

    def cluster_role(self, cluster: str, name: str) -> Object | None:
        return self._get("clusterroles", cluster, "", name)

    def role(self, cluster: str, namespace: str, name: str) -> Object | None:
        return self._get("roles", cluster, namespace, name)

    def _list(self, plural: str, cluster: str, namespace: str) -> list[Object]:
        return [entry.object() for entry in self._cache.resource_cache(GROUP, plural).table(cluster).select(namespace)]

    def _get(self, plural: str, cluster: str, namespace: str, name: str) -> Object | None:
        entry = self._cache.resource_cache(GROUP, plural).get(cluster, namespace, name)
        return entry.object() if entry is not None else None
