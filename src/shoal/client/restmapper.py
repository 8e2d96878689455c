"""A RESTMapper: finds the resource for `Deployment`, `deploy`, `deployments.apps`, or an apiVersion and kind, in the
server's discovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import ShoalError

Object = dict[str, Any]


class NoKindMatchError(ShoalError):
    """The server serves no such kind."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class APIResource:
    """A served resource and the names it may be referred to by."""

    gvr: GroupVersionResource
    kind: str
    """`Deployment`."""
    aliases: frozenset[str]
    """Lower case: kind, plural, singular and short names."""
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        return f"{self.gvr.group}/{self.gvr.version}" if self.gvr.group else self.gvr.version

    @property
    def display_name(self) -> str:
        """`deployment.apps`, as kubectl prints it."""
        return f"{self.kind.lower()}.{self.gvr.group}" if self.gvr.group else self.kind.lower()


async def server_resources(client: Client) -> list[APIResource]:
    """All resources of a server in discovery order: the preferred version of each group first."""
    return [resource for group in await client.api_groups() for resource in _group_resources(group)]


def resource_for(resources: Iterable[APIResource], name: str) -> APIResource:
    """Finds a resource by any alias, with or without `.group`. If several groups match, the server's first wins."""
    alias, _, group = name.lower().partition(".")
    for resource in resources:
        if alias in resource.aliases and (not group or resource.gvr.group == group):
            return resource
    raise NoKindMatchError(
        f"the server has no kind {name!r}", "name the kind as for kubectl: deployment, deployments.apps"
    )


def mapping_for(resources: Iterable[APIResource], obj: Object) -> APIResource | None:
    """Finds the resource by the exact apiVersion and kind of a manifest."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    return next(
        (resource for resource in resources if resource.api_version == api_version and resource.kind == kind), None
    )


def preferred_versions(resources: Iterable[APIResource]) -> list[APIResource]:
    """One version of each resource."""
    by_resource: dict[tuple[str, str], APIResource] = {}
    for resource in resources:
        by_resource.setdefault((resource.gvr.group, resource.gvr.resource), resource)
    return list(by_resource.values())


def _group_resources(group: Object) -> Iterable[APIResource]:
    name = group["metadata"].get("name", "")
    for version in group["versions"]:
        for item in version["resources"]:
            kind = (item.get("responseKind") or {}).get("kind") or item["resource"]
            names = (kind, item["resource"], item.get("singularResource"), *(item.get("shortNames") or ()))
            yield APIResource(
                GroupVersionResource(name, version["version"], item["resource"], item["scope"] == "Namespaced"),
                kind,
                frozenset(each.lower() for each in names if each),
                frozenset(item.get("verbs") or ()),
            )
