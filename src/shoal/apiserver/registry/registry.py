"""The resources a logical cluster serves: built-ins by profile, then its CRDs.

Pure tables without I/O. `Resource` is one served group/version/resource. Verbs, discovery, OpenAPI and tables all work
on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.apiserver.registry.schema import KindSchema
from shoal.kinds.admissionregistration.webhook_client import ConversionWebhook
from shoal.kinds.column import Column
from shoal.kinds.strategy import ScalePaths, Strategy
from shoal.objects.errors import Cause, Forbidden

Object = dict[str, Any]
DEFAULT_STRATEGY = Strategy()


def no_kind_schema() -> KindSchema:
    raise LookupError("this resource is not stored")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    storage_version: str = ""
    custom: bool = False
    """Defined by a CRD (JSON only, no strategic merge)."""
    status: bool = False
    scale: ScalePaths | None = None
    subresources: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = field(default_factory=dict)
    """Further subresources (token, finalize…): name -> (group, version, kind, verbs) of what they accept."""
    columns: tuple[Column, ...] = ()
    """Between Name and Age, as upstream. Empty: Name and Age only."""
    selectable_fields: tuple[str, ...] = ()
    """Field selectors besides metadata.name and metadata.namespace."""
    schema: Callable[[], Object | None] = lambda: None
    """The OpenAPI v3 schema of the kind: with `$ref`s into `#/components/schemas/` for built-ins, structural for custom
    kinds.
    """
    schema_hash: str = ""
    kind_schema: Callable[[], KindSchema] = no_kind_schema
    """The compiled schema."""
    strategy: Strategy = DEFAULT_STRATEGY
    conversion: ConversionWebhook | None = None
    """The webhook that converts objects of other versions to this one. None: versions differ in apiVersion only."""
    deprecation_warning: str = ""
    """Deprecation warning sent with every response, or empty."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_group(self) -> str:
        """The group the objects are stored under, which differs for a StorageAlias."""
        return self.group if self.strategy.storage_alias is None else self.strategy.storage_alias.group

    def normalise(self, obj: Object) -> bool:
        """Prunes and defaults an object read back under a newer schema. Returns whether it changed."""
        return self.kind_schema().normalise(obj)

    @property
    def group_resource(self) -> str:
        """`deployments.apps`, as in error messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def forbidden(self, obj: dict[str, Any], reason: str, causes: Iterable[Cause] = ()) -> Forbidden:
        """Builds the error for an object, which may have no name yet."""
        name = obj["metadata"].get("name") or ""
        message = f'{self.group_resource} "{name}" is forbidden: {reason}'
        return Forbidden(message, name=name, group=self.group, kind=self.plural, causes=causes)


class Registry:
    """The resources of one logical cluster. Immutable: replaced as a whole when its CRDs change."""

    def __init__(self, resources: Iterator[Resource] | list[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._versions: dict[str, list[str]] = {}
        for resource in resources:
            self._by_path[resource.group, resource.version, resource.plural] = resource
            versions = self._versions.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def groups(self) -> list[str]:
        """In discovery order."""
        return list(self._versions)

    def is_builtin_group(self, group: str) -> bool:
        """Reports whether the group is built in. A built-in group answers for all paths below it."""
        return any(resource.group == group and not resource.custom for resource in self)

    def versions(self, group: str) -> list[str]:
        """Preferred version first."""
        return self._versions.get(group, [])

    def resources(self, group: str, version: str) -> list[Resource]:
        return [r for (g, v, _), r in self._by_path.items() if g == group and v == version]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())
