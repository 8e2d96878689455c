"""A RESTMapper: finds the resource for `Deployment`, `deploy`, `deployments.apps`, or an apiVersion and kind, in the
server's discovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.objects.errors import ShoalError

Object = dict[str, Any]


class UnknownKind(ShoalError):
    """The server serves no such kind."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Served:
    """A served resource and the names it may be referred to by."""

    kind: Kind
    name: str
    """`Deployment`."""
    aliases: frozenset[str]
    """Lower case: kind, plural, singular and short names."""
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        return f"{self.kind.group}/{self.kind.version}" if self.kind.group else self.kind.version

    @property
    def title(self) -> str:
        """`deployment.apps`, as kubectl prints it."""
        return f"{self.name.lower()}.{self.kind.group}" if self.kind.group else self.name.lower()


async def served(client: Client) -> list[Served]:
    """All resources of a server in discovery order: the preferred version of each group first."""
    return [one for group in await client.groups() for one in _of_group(group)]


def named(kinds: Iterable[Served], word: str) -> Served:
    """Finds a resource by any alias, with or without `.group`. If several groups match, the server's first wins."""
    wanted, _, group = word.lower().partition(".")
    for one in kinds:
        if wanted in one.aliases and (not group or one.kind.group == group):
            return one
    raise UnknownKind(
        f"the server has no kind {word!r}", "kinds are named as for kubectl: deployment, deployments.apps"
    )


def of_object(kinds: Iterable[Served], obj: Object) -> Served | None:
    """Finds the resource by the exact apiVersion and kind of a manifest."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    return next((one for one in kinds if one.api_version == api_version and one.name == kind), None)


def preferred(kinds: Iterable[Served]) -> list[Served]:
    """One version of each resource."""
    found: dict[tuple[str, str], Served] = {}
    for one in kinds:
        found.setdefault((one.kind.group, one.kind.plural), one)
    return list(found.values())


def _of_group(group: Object) -> Iterable[Served]:
    name = group["metadata"].get("name", "")
    for version in group["versions"]:
        for item in version["resources"]:
            title = (item.get("responseKind") or {}).get("kind") or item["resource"]
            called = (title, item["resource"], item.get("singularResource"), *(item.get("shortNames") or ()))
            yield Served(
                Kind(name, version["version"], item["resource"], item["scope"] == "Namespaced"),
                title,
                frozenset(each.lower() for each in called if each),
                frozenset(item.get("verbs") or ()),
            )
