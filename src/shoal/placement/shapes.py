"""Resource interpreters: how many replicas an object of some kind requests, what one replica requests, and its current
share. Pure.

A kind with replicas is divided; any other is duplicated in every selected cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from shoal.fit.resources import Resources, pod_requests
from shoal.kinds.leaves import AWAY, content_of, share_of
from shoal.placement.sites import Part

Object = dict[str, Any]


class Shape(Protocol):
    divides: bool

    def total(self, root: Object) -> int: ...

    def asks(self, root: Object) -> Resources:
        """Returns what one replica requests of a cluster."""

    def part(self, leaf: Object) -> Part: ...

    def first(self, root: Object) -> int | None:
        """Returns the first ordinal; None if replicas are interchangeable."""

    def content(self, root: Object, share: int, start: int = 0) -> Object:
        """Returns the content of the leaf with that share, from that ordinal on."""


class Replicated:
    """Divided by its scale subresource: Deployments, and any other kind that has one. The paths are a CRD's, such as
    `.spec.replicas`.
    """

    divides = True

    def __init__(self, path: str = ".spec.replicas", status_path: str = ".status.replicas") -> None:
        self._path, self._status_path = _steps(path), _steps(status_path)

    def total(self, root: Object) -> int:
        asked = _at(root, self._path)
        return asked if isinstance(asked, int) else 1

    def asks(self, root: Object) -> Resources:
        template = _template(root)
        return pod_requests(template) if template is not None else {}

    def part(self, leaf: Object) -> Part:
        """Kinds with pods omit a count of zero; the others only have one count."""
        status = leaf.get("status") or {}
        available = status.get("availableReplicas", status.get("readyReplicas"))
        if available is None and _template(leaf) is None:
            available = _at(leaf, self._status_path)
        ready = available if isinstance(available, int) else 0
        share = share_of(leaf)
        replicas = share if share is not None else self.total(leaf)
        return Part(replicas, ready, away=AWAY in (leaf["metadata"].get("annotations") or {}))

    def first(self, root: Object) -> int | None:
        return None

    def content(self, root: Object, share: int, start: int = 0) -> Object:
        return _with(content_of(root), self._path, share)


class Numbered(Replicated):
    """A StatefulSet: each cluster has a range of its ordinals."""

    def first(self, root: Object) -> int | None:
        return int((root["spec"].get("ordinals") or {}).get("start", 0))

    def part(self, leaf: Object) -> Part:
        return replace(super().part(leaf), start=self.first(leaf) or 0)

    def content(self, root: Object, share: int, start: int = 0) -> Object:
        made = super().content(root, share)
        return {**made, "spec": {**made["spec"], "ordinals": {"start": start}}} if start else made


class Batch(Replicated):
    """A Job: its parallelism is divided, and its completions with it. It is divided only once, by splitter/jobs.py."""

    def __init__(self) -> None:
        super().__init__(".spec.parallelism", ".status.active")

    def completions(self, job: Object) -> int | None:
        """None: its pods share a work queue, and one success completes all."""
        found: int | None = job["spec"].get("completions")
        return found

    def parallelism(self, job: Object) -> int:
        return int(job["spec"].get("parallelism", 1))

    def total(self, root: Object) -> int:
        completions, parallelism = self.completions(root), self.parallelism(root)
        return parallelism if completions is None else min(parallelism, completions)

    def part(self, leaf: Object) -> Part:
        active = (leaf.get("status") or {}).get("active") or 0
        share = share_of(leaf)
        return Part(share if share is not None else self.parallelism(leaf), active)


class Copied:
    """The same in every cluster; its share is 1."""

    divides = False

    def total(self, root: Object) -> int:
        return 1

    def asks(self, root: Object) -> Resources:
        return {}

    def part(self, leaf: Object) -> Part:
        return Part(1, 1)

    def first(self, root: Object) -> int | None:
        return None

    def content(self, root: Object, share: int, start: int = 0) -> Object:
        return content_of(root)


def _template(obj: Object) -> Object | None:
    """Returns the pod template."""
    template = (obj.get("spec") or {}).get("template")
    return template if isinstance(template, dict) and template.get("spec") else None


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _at(obj: Object, path: tuple[str, ...]) -> object:
    found: object = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _with(obj: Object, path: tuple[str, ...], value: int) -> Object:
    first, *rest = path
    inner = obj.get(first) or {}
    return {**obj, first: _with(inner, tuple(rest), value) if rest else value}


REPLICATED, NUMBERED, BATCH, COPIED = Replicated(), Numbered(), Batch(), Copied()
