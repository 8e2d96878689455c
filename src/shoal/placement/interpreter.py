"""Resource interpreters: how many replicas an object of some kind requests, what one replica requests, and its current
share. Pure.

A kind with replicas is divided; any other is duplicated in every selected cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from shoal.fit.resources import pod_requests
from shoal.fit.room import NO_DEMAND, PodDemand
from shoal.kinds.workload.leaf import EVACUATED_ANNOTATION, content_of, leaf_replicas
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.placement.cluster_info import CurrentShare

Object = dict[str, Any]


class ResourceInterpreter(Protocol):
    is_divided: bool

    def replicas_of(self, root: Object) -> int: ...

    def demand_of(self, root: Object) -> PodDemand:
        """Returns what one replica demands of a node."""

    def current_share_of(self, leaf: Object) -> CurrentShare: ...

    def first_ordinal_of(self, root: Object) -> int | None:
        """Returns the first ordinal; None if replicas are interchangeable."""

    def leaf_content(self, root: Object, share: int, start: int = 0) -> Object:
        """Returns the content of the leaf with that share, from that ordinal on."""


def shares_by_cluster(leaves: Iterable[Object], interpreter: ResourceInterpreter) -> dict[str, int]:
    """Returns the replicas that the leaves request; a cluster may have several leaves of a Job."""
    shares: dict[str, int] = {}
    for leaf in leaves:
        cluster = assigned_cluster(leaf)
        shares[cluster] = shares.get(cluster, 0) + interpreter.current_share_of(leaf).replicas
    return shares


class Divided:
    """Divided by its scale subresource: Deployments, and any other kind that has one. The paths are a CRD's, such as
    `.spec.replicas`.
    """

    is_divided = True

    def __init__(self, path: str = ".spec.replicas", status_path: str = ".status.replicas") -> None:
        self._path, self._status_path = _split_path(path), _split_path(status_path)

    def replicas_of(self, root: Object) -> int:
        replicas = _get_path(root, self._path)
        return replicas if isinstance(replicas, int) else 1

    def demand_of(self, root: Object) -> PodDemand:
        template = _pod_template(root)
        return PodDemand(pod_requests(template), template["spec"]) if template is not None else NO_DEMAND

    def current_share_of(self, leaf: Object) -> CurrentShare:
        """Kinds with pods omit a count of zero; the others only have one count."""
        status = leaf.get("status") or {}
        available = status.get("availableReplicas", status.get("readyReplicas"))
        if available is None and _pod_template(leaf) is None:
            available = _get_path(leaf, self._status_path)
        ready = available if isinstance(available, int) else 0
        share = leaf_replicas(leaf)
        replicas = share if share is not None else self.replicas_of(leaf)
        return CurrentShare(
            replicas,
            ready,
            pods=_pods_of(status, replicas) if _pod_template(leaf) is not None else 0,
            is_rolling_out=_is_rolling_out(leaf),
            was_evicted=EVACUATED_ANNOTATION in (leaf["metadata"].get("annotations") or {}),
        )

    def first_ordinal_of(self, root: Object) -> int | None:
        return None

    def leaf_content(self, root: Object, share: int, start: int = 0) -> Object:
        return _set_path(content_of(root), self._path, share)


class Ordinal(Divided):
    """A StatefulSet: each cluster has a range of its ordinals."""

    def first_ordinal_of(self, root: Object) -> int | None:
        return int((root["spec"].get("ordinals") or {}).get("start", 0))

    def current_share_of(self, leaf: Object) -> CurrentShare:
        pods = (leaf.get("status") or {}).get("replicas") or 0
        return replace(super().current_share_of(leaf), pods=pods, first_ordinal=self.first_ordinal_of(leaf) or 0)

    def leaf_content(self, root: Object, share: int, start: int = 0) -> Object:
        content = super().leaf_content(root, share)
        return {**content, "spec": {**content["spec"], "ordinals": {"start": start}}} if start else content


class JobInterpreter(Divided):
    """A Job: its parallelism is divided, and its completions with it. It is divided only once, by splitter/jobs.py."""

    def __init__(self) -> None:
        super().__init__(".spec.parallelism", ".status.active")

    def completions_of(self, job: Object) -> int | None:
        """None: its pods share a work queue, and one success completes all."""
        completions: int | None = job["spec"].get("completions")
        return completions

    def parallelism_of(self, job: Object) -> int:
        return int(job["spec"].get("parallelism", 1))

    def replicas_of(self, root: Object) -> int:
        completions, parallelism = self.completions_of(root), self.parallelism_of(root)
        return parallelism if completions is None else min(parallelism, completions)

    def current_share_of(self, leaf: Object) -> CurrentShare:
        active = (leaf.get("status") or {}).get("active") or 0
        share = leaf_replicas(leaf)
        return CurrentShare(share if share is not None else self.parallelism_of(leaf), active)


class Duplicated:
    """The same in every cluster; its share is 1."""

    is_divided = False

    def replicas_of(self, root: Object) -> int:
        return 1

    def demand_of(self, root: Object) -> PodDemand:
        return NO_DEMAND

    def current_share_of(self, leaf: Object) -> CurrentShare:
        return CurrentShare(1, 1)

    def first_ordinal_of(self, root: Object) -> int | None:
        return None

    def leaf_content(self, root: Object, share: int, start: int = 0) -> Object:
        return content_of(root)


def _pod_template(obj: Object) -> Object | None:
    """Returns the pod template."""
    template = (obj.get("spec") or {}).get("template")
    return template if isinstance(template, dict) and template.get("spec") else None


def _is_rolling_out(leaf: Object) -> bool:
    """Returns whether pods of a former template are left."""
    status = leaf.get("status") or {}
    return leaf.get("kind") == "Deployment" and (status.get("updatedReplicas") or 0) < (status.get("replicas") or 0)


def _pods_of(status: Object, share: int) -> int:
    """Returns how many pods exist, also those that terminate. The surge of a rollout does not count."""
    replicas: int = status.get("replicas") or 0
    if share and (status.get("updatedReplicas") or 0) < replicas:
        replicas = min(replicas, share)
    terminating: int = status.get("terminatingReplicas") or 0
    return replicas + terminating


def _split_path(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _get_path(obj: Object, path: tuple[str, ...]) -> object:
    value: object = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _set_path(obj: Object, path: tuple[str, ...], value: int) -> Object:
    key, *rest = path
    child = obj.get(key) or {}
    return {**obj, key: _set_path(child, tuple(rest), value) if rest else value}


DIVIDED, ORDINAL, JOB, DUPLICATED = Divided(), Ordinal(), JobInterpreter(), Duplicated()
