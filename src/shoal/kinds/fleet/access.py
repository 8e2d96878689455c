"""Access of the hub's users to a hosted cluster, by `spec.access` of its ManagedCluster. Pure.

A user of the hub is `hub:<user>` in the hosted cluster. Only users and groups that `spec.access` mentions become known
there, and the group system:masters of the hub, which has the role cluster-admin without being listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

HUB_PREFIX = "hub:"
"""Prefix of the names of the hub's users and groups in a hosted cluster."""
MASTERS = "system:masters"
MASTERS_ROLE = "cluster-admin"
BINDING_PREFIX = "shoal:access:"
ACCESS_LABEL = "shoal.dev/access"
"""Label of the ClusterRoleBindings that follow from `spec.access`."""
DESCRIPTION = "follows spec.access of the ManagedCluster; changes are reverted"


@dataclass(frozen=True, slots=True)
class HubUser:
    """A user of the hub as a hosted cluster knows it, without the prefix."""

    name: str
    groups: tuple[str, ...] = ()
    """Only groups that have a role."""

    @property
    def hosted_name(self) -> str:
        return HUB_PREFIX + self.name

    @property
    def hosted_groups(self) -> tuple[str, ...]:
        return tuple(HUB_PREFIX + group for group in self.groups)


@dataclass(frozen=True, slots=True)
class HubUserTokenRequest:
    """What the hub asks the worker of a ManagedCluster for."""

    namespace: str
    name: str
    uid: str
    """The uid of the ManagedCluster."""
    user: HubUser
    seconds: int


@dataclass(frozen=True, slots=True)
class HubUserToken:
    token: str
    expiry: float
    """Seconds since the epoch."""
    audience: str


def admitted_user(managed: Object, user: str, groups: Iterable[str]) -> HubUser | None:
    """Returns what the hosted cluster learns of a user of the hub; None if no entry mentions the user."""
    entries = access_entries(managed)
    roles_of_groups = {MASTERS, *(group for entry in entries for group in entry.get("groups") or ())}
    mentioned = tuple(group for group in groups if group in roles_of_groups)
    if not mentioned and not any(user in (entry.get("users") or ()) for entry in entries):
        return None
    return HubUser(user, mentioned)


def access_entries(managed: Object) -> list[Object]:
    entries: list[Object] = infrav1.spec_of(managed).get("access") or []
    return entries


def binding_name(role: str) -> str:
    return BINDING_PREFIX + role


def access_bindings(managed: Object) -> list[Object]:
    """Returns the ClusterRoleBindings of the hosted cluster, one for each role, that of cluster-admin always."""
    subjects: dict[str, list[Object]] = {MASTERS_ROLE: [_subject("Group", MASTERS)]}
    for entry in access_entries(managed):
        of_role = subjects.setdefault(str(entry["role"]), [])
        named = [_subject("User", user) for user in entry.get("users") or ()]
        named += [_subject("Group", group) for group in entry.get("groups") or ()]
        of_role += [subject for subject in named if subject not in of_role]
    return [_binding(role, each) for role, each in subjects.items()]


def mentions(binding: Mapping[str, Any], user: HubUser) -> bool:
    """Reports whether a ClusterRoleBinding has that user, or one of the groups, as a subject."""
    wanted = {("User", user.hosted_name), *(("Group", group) for group in user.hosted_groups)}
    return any((each.get("kind"), each.get("name")) in wanted for each in binding.get("subjects") or ())


def is_access_binding(binding: Mapping[str, Any]) -> bool:
    """Reports whether the ClusterRoleBinding was made from `spec.access`."""
    metadata = binding["metadata"]
    return str(metadata["name"]).startswith(BINDING_PREFIX) and ACCESS_LABEL in (metadata.get("labels") or {})


def _binding(role: str, subjects: list[Object]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": binding_name(role),
            "labels": {"app.kubernetes.io/managed-by": "shoal", ACCESS_LABEL: "true"},
            "annotations": {"kubernetes.io/description": DESCRIPTION},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def _subject(kind: str, name: str) -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": HUB_PREFIX + name}
