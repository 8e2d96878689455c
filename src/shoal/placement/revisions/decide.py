"""Decides the revisions of a workload on the hub: one for each pod template it has had, the newest with the highest
number. Pure.

Deployments have ReplicaSets with zero replicas, StatefulSets and DaemonSets have ControllerRevisions, as upstream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds.apps.deployment import LAST_APPLIED, REVISION, UNLIMITED, revision_of
from shoal.kinds.apps.replicaset_draft import ReplicaSetDraft
from shoal.kinds.apps.revision import (
    find_equal_revision,
    new_revision,
    next_revision_number,
    revision_number,
    sort_revisions,
)
from shoal.kinds.workload.rollout_history import HISTORY_LABEL
from shoal.kinds.workload.workloadcluster import CLUSTER_LABEL
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

DEFAULT_LIMIT = 10


@dataclass(frozen=True, slots=True)
class RevisionChanges:
    create: Object | None = None
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    annotation: str = ""
    """New value of the annotation `deployment.kubernetes.io/revision` of a Deployment; empty: it is current."""


def deployment_changes(deployment: Object, replica_sets: list[Object], collisions: int) -> RevisionChanges:
    """`replica_sets` are those it controls; `collisions` is how often the name of a new one was taken."""
    draft = ReplicaSetDraft({**deployment, "status": {"collisionCount": collisions}}, replica_sets)
    draft.sync_new()
    if draft.new is None and not deployment["spec"].get("paused"):
        draft.create_new(0)
    current = str(revision_of(draft.new)) if draft.new is not None else ""
    recorded = (deployment["metadata"].get("annotations") or {}).get(REVISION)
    return RevisionChanges(
        create=_as_history(draft.new) if draft.creates_new and draft.new is not None else None,
        update=tuple(draft.updates()),
        delete=_over_limit(deployment, sorted(draft.old, key=revision_of)),
        annotation="" if current == recorded else current,
    )


def set_changes(owner: Object, revisions: list[Object], collisions: int) -> RevisionChanges:
    """`owner` is a StatefulSet or a DaemonSet."""
    revisions = sort_revisions(revisions)
    existing, number = find_equal_revision(owner, revisions), next_revision_number(revisions)
    old = [one for one in revisions if one is not existing]
    if existing is None:
        reference = controller_reference(owner, "apps/v1", owner["kind"])
        new = new_revision(owner, reference, number, collisions)
        new["metadata"]["annotations"].pop(LAST_APPLIED, None)
        return RevisionChanges(create=_as_history(new), delete=_over_limit(owner, old))
    is_newest = revision_number(existing) == revision_number(revisions[-1])
    return RevisionChanges(
        update=() if is_newest else ({**existing, "revision": number},), delete=_over_limit(owner, old)
    )


def _as_history(revision: Object) -> Object:
    metadata = revision["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != CLUSTER_LABEL}
    return {**revision, "metadata": {**metadata, "labels": {**labels, HISTORY_LABEL: "true"}}}


def _over_limit(owner: Object, old: list[Object]) -> tuple[Object, ...]:
    """Returns the oldest of the former revisions, which are sorted, beyond `revisionHistoryLimit`."""
    limit = owner["spec"].get("revisionHistoryLimit")
    limit = DEFAULT_LIMIT if limit is None else limit
    return () if limit == UNLIMITED else tuple(old[: max(len(old) - limit, 0)])
