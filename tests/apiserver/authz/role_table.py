"""RBAC objects in plain dicts, as the authorizer reads them, and helpers to build them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes
from shoal.apiserver.authz.role_rules import RoleRules

Object = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"


class RoleTable:
    """A RoleSource that counts how often it was read."""

    def __init__(self) -> None:
        self.objects: defaultdict[str, dict[tuple[str, str, str], Object]] = defaultdict(dict)
        self.generations: defaultdict[str, int] = defaultdict(int)
        self.reads = 0

    def put(self, kind: str, name: str, *, namespace: str = "", cluster: str = "root", **body: Any) -> None:
        self.objects[cluster][kind, namespace, name] = {"metadata": {"name": name, "namespace": namespace}, **body}
        self.generations[cluster] += 1

    def drop(self, kind: str, name: str, *, namespace: str = "", cluster: str = "root") -> None:
        del self.objects[cluster][kind, namespace, name]
        self.generations[cluster] += 1

    def cluster_role_bindings(self, cluster: str, user: User) -> Sequence[Object]:
        return self._all(cluster, "ClusterRoleBinding", "")

    def role_bindings(self, cluster: str, namespace: str, user: User) -> Sequence[Object]:
        return self._all(cluster, "RoleBinding", namespace)

    def cluster_role(self, cluster: str, name: str) -> RoleRules | None:
        return self._role(cluster, ("ClusterRole", "", name))

    def role(self, cluster: str, namespace: str, name: str) -> RoleRules | None:
        return self._role(cluster, ("Role", namespace, name))

    def _role(self, cluster: str, key: tuple[str, str, str]) -> RoleRules | None:
        found = self.objects[cluster].get(key)
        return None if found is None else RoleRules(orjson.dumps(found))

    def drop_derived(self, cluster: str) -> None:
        """Nothing is derived."""

    def generation(self, cluster: str) -> int:
        return self.generations[cluster]

    def _all(self, cluster: str, kind: str, namespace: str) -> Sequence[Object]:
        self.reads += 1
        return [obj for (k, ns, _), obj in self.objects[cluster].items() if k == kind and ns == namespace]


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Object:
    """Each a comma-separated list; the core group is an empty entry."""
    out: Object = {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(",")}
    if names:
        out["resourceNames"] = names.split(",")
    return out


def url_rule(urls: str, verbs: str) -> Object:
    return {"nonResourceURLs": urls.split(","), "verbs": verbs.split(",")}


def to(kind: str, name: str, namespace: str = "") -> Object:
    subject = {"kind": kind, "name": name}
    if kind == "ServiceAccount":
        return {**subject, "namespace": namespace} if namespace else subject
    return {**subject, "apiGroup": GROUP}


def ref(kind: str, name: str) -> Object:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def person(name: str = "alice", *groups: str, cluster: str = "root") -> User:
    return User(name, (*groups, "system:authenticated"), cluster=cluster)


def resource(verb: str, what: str, namespace: str = "", name: str = "", cluster: str = "root") -> Attributes:
    """`what` is `pods`, `deployments.apps` or `deployments.apps/scale`."""
    title, _, subresource = what.partition("/")
    plural, _, group = title.partition(".")
    return Attributes(cluster, verb, group, "v1", plural, subresource, namespace, name)


def path(verb: str, url: str, cluster: str = "root") -> Attributes:
    return Attributes(cluster, verb, path=url)


def grant(table: RoleTable, rules: Sequence[Mapping[str, Any]], namespace: str = "", user: str = "alice") -> None:
    """The user holds the rules: by a ClusterRoleBinding, or in one namespace by a RoleBinding."""
    kind, role_kind = ("RoleBinding", "Role") if namespace else ("ClusterRoleBinding", "ClusterRole")
    table.put(role_kind, "granted", namespace=namespace, rules=list(rules))
    subjects = [to("User", user)]
    table.put(kind, "grants", namespace=namespace, roleRef=ref(role_kind, "granted"), subjects=subjects)
