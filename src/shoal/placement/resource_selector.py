"""Selectors of objects by kind, name and labels, as Placements have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_EVERYTHING, LabelSelector, from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceSelector:
    kind: str
    group: str | None
    """None: any. An object is the same in all versions of its group."""
    name: str = ""
    selector: LabelSelector = SELECT_EVERYTHING

    def matches(self, kind: str, group: str, name: str, labels: Mapping[str, str]) -> bool:
        return (
            self.kind == kind
            and self.group in (None, group)
            and self.name in ("", name)
            and self.selector.matches(labels)
        )

    def matches_object(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        group = group_of(obj.get("apiVersion", ""))
        return self.matches(obj.get("kind", ""), group, metadata["name"], metadata.get("labels") or {})

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.name, str(self.selector))))


def parse_resource_selector(one: Object, path: str) -> ResourceSelector:
    """Raises BadRequest, with the path, if the labelSelector is invalid."""
    api_version = one.get("apiVersion")
    return ResourceSelector(
        one["kind"],
        group_of(api_version) if api_version else None,
        one.get("name") or "",
        parse_selector(one.get("labelSelector"), f"{path}.labelSelector"),
    )


def parse_selector(value: Object | None, path: str, default: LabelSelector = SELECT_EVERYTHING) -> LabelSelector:
    """Raises BadRequest, with the path, if the selector is invalid."""
    try:
        return default if value is None else from_label_selector(value)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error}") from None


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]
