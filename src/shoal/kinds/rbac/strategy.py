"""Strategies and printer columns of the kinds of rbac.authorization.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import AGE, CREATED, Cell, Column
from shoal.kinds.rbac import rbac
from shoal.kinds.strategy import Strategy
from shoal.objects.errors import Cause
from shoal.objects.names import is_path_segment_name

Object = dict[str, Any]


def _strategy_of(kind: str) -> Strategy:
    def default(obj: Object) -> None:
        rbac.default_rbac_object(kind, obj)

    def validate(obj: Object, old: Object | None) -> list[Cause]:
        return rbac.validate_rbac_object(kind, obj, old)

    return Strategy(
        name_rule=is_path_segment_name,
        allow_create_on_update=True,
        default=default,
        prepare_for_create=rbac.canonicalize_rules,
        prepare_for_update=lambda new, old: rbac.canonicalize_rules(new),
        validate=validate,
    )


STRATEGIES: dict[str, Strategy] = {
    "roles.rbac.authorization.k8s.io": _strategy_of("Role"),
    "clusterroles.rbac.authorization.k8s.io": _strategy_of("ClusterRole"),
    "rolebindings.rbac.authorization.k8s.io": _strategy_of("RoleBinding"),
    "clusterrolebindings.rbac.authorization.k8s.io": _strategy_of("ClusterRoleBinding"),
}


def _role_ref(obj: Object, now: float) -> object:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, now: float) -> object:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        spaced = kind == "ServiceAccount"
        return ", ".join(f"{s.get('namespace', '')}/{s['name']}" if spaced else s["name"] for s in found)

    return cell


_BINDING = (
    Column("Role", cell=_role_ref),
    AGE,
    Column("Users", priority=1, cell=_subjects("User")),
    Column("Groups", priority=1, cell=_subjects("Group")),
    Column("ServiceAccounts", priority=1, cell=_subjects("ServiceAccount")),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "roles.rbac.authorization.k8s.io": (CREATED,),
    "clusterroles.rbac.authorization.k8s.io": (CREATED,),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
}
