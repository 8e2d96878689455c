"""RoleGetter over the watch cache: roles and bindings of a cluster, and a generation that changes with them."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache import Cache, Change

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


class CachedRoles:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._generations: dict[str, int] = {}
        for plural in PLURALS:
            cache.kind(GROUP, plural).listen("*", self._changed)

    def _changed(self, change: Change) -> None:
        self._generations[change.cluster] = change.revision

    def generation(self, cluster: str) -> int:
        return self._generations.get(cluster, 0)

    def forget(self, cluster: str) -> None:
        """Forgets a deleted cluster. A new cluster of the same name starts from the beginning."""
        self._generations.pop(cluster, None)

    def cluster_role_bindings(self, cluster: str) -> list[Object]:
        return self._all("clusterrolebindings", cluster, "")

    def role_bindings(self, cluster: str, namespace: str) -> list[Object]:
        return self._all("rolebindings", cluster, namespace)

    def cluster_role(self, cluster: str, name: str) -> Object | None:
        return self._one("clusterroles", cluster, "", name)

    def role(self, cluster: str, namespace: str, name: str) -> Object | None:
        return self._one("roles", cluster, namespace, name)

    def _all(self, plural: str, cluster: str, namespace: str) -> list[Object]:
        return [entry.object() for entry in self._cache.kind(GROUP, plural).table(cluster).select(namespace)]

    def _one(self, plural: str, cluster: str, namespace: str, name: str) -> Object | None:
        entry = self._cache.kind(GROUP, plural).get(cluster, namespace, name)
        return entry.object() if entry is not None else None
