"""RoleGetter over the watch cache: roles and bindings of a cluster, and a generation that changes with them.

Bindings are found by their subjects. The index of a cluster is built when it is first asked for and follows every
change. Decoded roles are kept as long as all of them are small together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.apiserver.authn.authenticator import SERVICE_ACCOUNT_PREFIX, User
from shoal.apiserver.authz.role_rules import RoleRules
from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, ObjectTable, WatchCache
from shoal.apiserver.cache.trigger import EventHandler

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
CLUSTER_ROLES, ROLES = "clusterroles", "roles"
CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS = "clusterrolebindings", "rolebindings"
MAX_CACHED_BYTES = 16 * 1024 * 1024
"""Bytes of the roles that are kept decoded. Decoded they take about ten times as much."""
_Subject = tuple[str, str, str]
"""Namespace of the binding, kind (a ServiceAccount is a user), name."""


class _BindingHeader(msgspec.Struct):
    """Several times faster than decoding the whole binding."""

    subjects: Any = None


_HEADER_DECODER = msgspec.json.Decoder(_BindingHeader)


class BindingIndex:
    """The keys of the bindings of one cluster by subject."""

    def __init__(self, table: ObjectTable) -> None:
        self._keys: dict[_Subject, dict[str, None]] = {}
        for entry in table.entries.values():
            self._add(entry)

    def update(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if old is not None:
            for subject in _subjects(old):
                keys = self._keys.get(subject)
                if keys is not None:
                    keys.pop(old.key, None)
                    if not keys:
                        del self._keys[subject]
        if new is not None:
            self._add(new)

    def _add(self, entry: CachedObject) -> None:
        for subject in _subjects(entry):
            self._keys.setdefault(subject, {})[entry.key] = None

    def keys(self, user: User, namespace: str) -> list[str]:
        """Keys of the bindings that name the user or one of its groups, sorted."""
        found = dict(self._keys.get((namespace, "User", user.name), ()))
        for group in user.groups:
            found.update(self._keys.get((namespace, "Group", group), ()))
        return sorted(found)


def _subjects(entry: CachedObject) -> list[_Subject]:
    """Never raises: it runs in the delivery of the store."""
    found: list[_Subject] = []
    subjects = _HEADER_DECODER.decode(entry.data).subjects
    for subject in subjects if isinstance(subjects, list) else ():
        kind, name = (str(subject.get(field, "")) for field in ("kind", "name"))
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or entry.namespace
            kind, name = "User", f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"
        found.append((entry.namespace, kind, name))
    return found


class CachedRoleGetter:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._generations: dict[str, int] = {}
        self._indexes: dict[str, dict[str, BindingIndex]] = {}
        """By cluster and plural."""
        self._roles: dict[str, dict[tuple[str, str], tuple[CachedObject, RoleRules]]] = {}
        """By cluster, plural and key."""
        self._cached_bytes = 0
        for plural in (CLUSTER_ROLES, ROLES):
            cache.resource_cache(GROUP, plural).add_event_handler("*", self._on_role)
        for plural in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            cache.resource_cache(GROUP, plural).add_event_handler("*", self._binding_handler(plural))

    def _on_role(self, event: CacheEvent) -> None:
        self._generations[event.cluster] = event.revision

    def _binding_handler(self, plural: str) -> EventHandler:
        def on_binding(event: CacheEvent) -> None:
            self._generations[event.cluster] = event.revision
            indexes = self._indexes.get(event.cluster)
            if indexes is not None and plural in indexes:
                indexes[plural].update(event.old, event.new)

        return on_binding

    def generation(self, cluster: str) -> int:
        return self._generations.get(cluster, 0)

    def forget(self, cluster: str) -> None:
        """Forgets a deleted cluster. A new cluster of the same name starts from the beginning."""
        self._generations.pop(cluster, None)
        self.drop_derived(cluster)

    def drop_derived(self, cluster: str) -> None:
        """Drops what the next request rebuilds."""
        self._indexes.pop(cluster, None)
        for entry, _ in self._roles.pop(cluster, {}).values():
            self._cached_bytes -= len(entry.data)

    def cluster_role_bindings(self, cluster: str, user: User) -> Iterator[Object]:
        return self._bindings(CLUSTER_ROLE_BINDINGS, cluster, "", user)

    def role_bindings(self, cluster: str, namespace: str, user: User) -> Iterator[Object]:
        return self._bindings(ROLE_BINDINGS, cluster, namespace, user)

    def cluster_role(self, cluster: str, name: str) -> RoleRules | None:
        return self._role(CLUSTER_ROLES, cluster, f"/{name}")

    def role(self, cluster: str, namespace: str, name: str) -> RoleRules | None:
        return self._role(ROLES, cluster, f"{namespace}/{name}")

    def _bindings(self, plural: str, cluster: str, namespace: str, user: User) -> Iterator[Object]:
        table = self._cache.resource_cache(GROUP, plural).table(cluster)
        indexes = self._indexes.setdefault(cluster, {})
        index = indexes.get(plural)
        if index is None:
            index = indexes[plural] = BindingIndex(table)
        entries = [table.entries.get(key) for key in index.keys(user, namespace)]
        return (entry.object() for entry in entries if entry is not None)

    def _role(self, plural: str, cluster: str, key: str) -> RoleRules | None:
        entry = self._cache.resource_cache(GROUP, plural).table(cluster).entries.get(key)
        if entry is None:
            return None
        roles = self._roles.setdefault(cluster, {})
        cached = roles.get((plural, key))
        if cached is not None and cached[0] is entry:
            return cached[1]
        self._cached_bytes += len(entry.data) - (len(cached[0].data) if cached is not None else 0)
        if self._cached_bytes > MAX_CACHED_BYTES:
            self._roles, self._cached_bytes = {}, len(entry.data)
            roles = self._roles[cluster] = {}
        role = RoleRules(entry.data)
        roles[plural, key] = entry, role
        return role
