"""Which APIs a WorkloadCluster takes from the hub, and why not the others. Pure.

The facts are its `status.syncedResources` and its APIResourceImports. Placement reads them before it places anything,
and the syncer's side reports objects that were assigned by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.workload.apiresource import AVAILABLE, COMPATIBLE, GVR, PERMANENT_REASONS, gvr_of
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

NOT_SERVED, INCOMPATIBLE, NOT_PUBLISHED = "APINotServed", "APIIncompatible", "APINotPublished"
NEGOTIATING = "APINegotiating"
REFUSAL_REASONS = frozenset({NOT_SERVED, INCOMPATIBLE, NOT_PUBLISHED})
"""Reasons that only a change of the cluster or of its CRDs removes."""


@dataclass(frozen=True, slots=True)
class APIRefusal:
    reason: str
    message: str
    """Begins with a verb; the subject is the cluster."""


@dataclass(frozen=True, slots=True)
class ServedAPIs:
    """The APIs of one cluster. Without `synced_resources` nothing is known of it, and nothing is refused."""

    synced_resources: frozenset[str] | None = None
    refusals: Mapping[GVR, APIRefusal | None] = field(default_factory=dict)
    """By imported API; None: it is synced."""

    def refusal_of(self, api: GVR) -> APIRefusal | None:
        if self.synced_resources is None:
            return None
        if api in self.refusals:
            return self.refusals[api]
        others = sorted(each.version for each in self.refusals if each.group_resource == api.group_resource)
        title = f"{api.group_resource} {api.version}"
        if others:
            return APIRefusal(NOT_SERVED, f"does not serve {title}, only {', '.join(others)}")
        if api.group_resource in self.synced_resources:
            return None  # a kind of the hub itself, which every cluster takes
        return APIRefusal(NOT_SERVED, f"does not serve {title}")


UNKNOWN_APIS = ServedAPIs()


def served_apis(cluster: Object, imports: Iterable[Object]) -> ServedAPIs:
    """`imports` are the APIResourceImports of the cluster."""
    synced_resources = (cluster.get("status") or {}).get("syncedResources")
    return ServedAPIs(
        frozenset(synced_resources) if synced_resources is not None else None,
        {gvr_of(each): import_refusal(each) for each in imports},
    )


def import_refusal(api_import: Object) -> APIRefusal | None:
    """Returns why objects of an imported API are not synced to its cluster; None if they are."""
    api = gvr_of(api_import)
    title = f"{api.group_resource} {api.version}"
    compatible, available = (get_condition(api_import, each) or {} for each in (COMPATIBLE, AVAILABLE))
    if compatible.get("status") == "False":
        message = f"serves {title} with an incompatible schema: {compatible.get('message', '')}"
        return APIRefusal(INCOMPATIBLE, message.rstrip(": "))
    if compatible.get("status") == available.get("status") == "True":
        return None
    if available.get("status") == "False" and available.get("reason") in PERMANENT_REASONS:
        message = f"serves {title}, which the hub does not publish: {available.get('message', '')}"
        return APIRefusal(NOT_PUBLISHED, message.rstrip(": "))
    return APIRefusal(NEGOTIATING, f"serves {title}, which is being negotiated")
