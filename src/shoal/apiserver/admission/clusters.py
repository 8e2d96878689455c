"""LogicalClusters exist in root only, root cannot be deleted, and a terminating cluster accepts no new objects."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.apiserver.paths import ROOT
from shoal.kinds.logicalcluster import GROUP, PLURAL
from shoal.objects.errors import Forbidden

RESOURCE = (GROUP, PLURAL)


def admit(core: Core, call: Call, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    if call.target.cluster != ROOT:
        raise Forbidden("logicalclusters.core.shoal.dev is forbidden: logical clusters are declared in root only")


def admit_creation(call: Call, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Rejects creations in a terminating logical cluster."""
    if old is None and call.cluster.terminating:
        why = f"unable to create new content in logical cluster {call.cluster.name} because it is being terminated"
        raise call.resource.forbidden(new, why)


def admit_delete(call: Call) -> None:
    if call.name == ROOT:
        raise Forbidden(
            'logicalclusters.core.shoal.dev "root" is forbidden: root always exists',
            name=ROOT,
            group=GROUP,
            kind=PLURAL,
        )
