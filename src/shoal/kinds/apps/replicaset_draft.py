"""A draft of a Deployment's ReplicaSets between their current and their desired state. Pure.

Rollout steps change `ReplicaSetDraft`; afterwards it lists the ReplicaSets that differ from the existing ones.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.apps.deployment import (
    DESIRED_REPLICAS,
    LAST_APPLIED,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    TEMPLATE_HASH,
    max_surge,
    replica_set_name,
    replicas_of,
    revision_of,
    template_hash,
    template_without_hash,
)
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

MAX_HISTORY_LENGTH = 2000
"""Maximum length of the annotation that lists earlier revisions."""
ANNOTATIONS_NOT_COPIED = frozenset(
    {
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
        "shoal.dev/cluster",
    }
)


class ReplicaSetDraft:
    def __init__(self, deployment: Object, replica_sets: list[Object]) -> None:
        self._deployment = deployment
        self._existing = {one["metadata"]["name"]: one for one in replica_sets}
        self._draft = {one["metadata"]["name"]: one for one in sorted(replica_sets, key=age_key)}
        template = template_without_hash(deployment["spec"]["template"])
        self._new = next(
            (n for n, one in self._draft.items() if template_without_hash(one["spec"]["template"]) == template), ""
        )
        self.creates_new = False

    @property
    def new(self) -> Object | None:
        """The one with the Deployment's template; the oldest if there are several."""
        return self._draft.get(self._new)

    @property
    def old(self) -> list[Object]:
        """All but the new one, oldest first."""
        return [one for name, one in self._draft.items() if name != self._new]

    @property
    def all(self) -> list[Object]:
        return list(self._draft.values())

    @property
    def active(self) -> list[Object]:
        return [one for one in self._draft.values() if replicas_of(one)]

    @property
    def total_replicas(self) -> int:
        """Sum of spec.replicas over all templates."""
        return sum(map(replicas_of, self._draft.values()))

    def updates(self) -> list[Object]:
        """Returns the existing ones that must be updated."""
        return [one for name, one in self._draft.items() if name in self._existing and one is not self._existing[name]]

    def scale(self, replica_set: Object, size: int, *, annotate: bool = False) -> bool:
        """Returns whether the size changes. With `annotate`, the Deployment's size is recorded even if it does not."""
        size_changes = replicas_of(replica_set) != size
        if size_changes or annotate:
            annotations = {**(replica_set["metadata"].get("annotations") or {}), **self._size_annotations()}
            if size_changes or annotations != replica_set["metadata"].get("annotations"):
                self._replace(replica_set, annotations, replicas=size)
        return size_changes

    def sync_new(self) -> None:
        """Copies annotations and minReadySeconds from the Deployment to the new ReplicaSet and gives it the highest
        revision.
        """
        new = self.new
        if new is None:
            return
        min_ready = self._deployment["spec"].get("minReadySeconds") or 0
        annotations = self._new_annotations(new)
        if annotations != (new["metadata"].get("annotations") or {}):
            new = self._replace(new, annotations)
        if (new["spec"].get("minReadySeconds") or 0) != min_ready:
            self._replace(new, annotations, minReadySeconds=min_ready)

    def create_new(self, size: int) -> None:
        """Adds the ReplicaSet for the Deployment's template, which does not exist yet."""
        metadata, spec = self._deployment["metadata"], self._deployment["spec"]
        pod_template_hash = template_hash(
            spec["template"], (self._deployment.get("status") or {}).get("collisionCount")
        )
        template = spec["template"]
        labels = {**((template.get("metadata") or {}).get("labels") or {}), TEMPLATE_HASH: pod_template_hash}
        match = {**(spec["selector"].get("matchLabels") or {}), TEMPLATE_HASH: pod_template_hash}
        new: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": replica_set_name(metadata["name"], pod_template_hash),
                "namespace": metadata["namespace"],
                "labels": labels,
                "ownerReferences": [controller_reference(self._deployment, "apps/v1", "Deployment")],
            },
            "spec": {
                "replicas": size,
                "selector": {**spec["selector"], "matchLabels": match},
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        if spec.get("minReadySeconds"):
            new["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        new["metadata"]["annotations"] = {**self._new_annotations(new), **self._size_annotations()}
        self._new = new["metadata"]["name"]
        self._draft[self._new] = new
        self.creates_new = True

    def _size_annotations(self) -> dict[str, str]:
        replicas = replicas_of(self._deployment)
        return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(self._deployment))}

    def _new_annotations(self, new: Object) -> dict[str, str]:
        annotations = dict(new["metadata"].get("annotations") or {})
        inherited = self._deployment["metadata"].get("annotations") or {}
        annotations |= {key: value for key, value in inherited.items() if key not in ANNOTATIONS_NOT_COPIED}
        before = annotations.get(REVISION, "")
        revision = max((revision_of(one) for one in self.old), default=0) + 1
        if (before and not before.isdecimal()) or int(before or 0) >= revision:
            return annotations
        annotations[REVISION] = str(revision)
        if before:
            annotations[REVISION_HISTORY] = _append_history(annotations.get(REVISION_HISTORY, ""), before)
        return annotations

    def _replace(self, replica_set: Object, annotations: dict[str, str], **spec: object) -> Object:
        name = replica_set["metadata"]["name"]
        replacement = {
            **replica_set,
            "metadata": {**replica_set["metadata"], "annotations": annotations},
            "spec": {**replica_set["spec"], **spec},
        }
        self._draft[name] = replacement
        return replacement


def age_key(one: Object) -> tuple[str, str]:
    return one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"]


def _append_history(before: str, revision: str) -> str:
    """Appends an earlier revision of the ReplicaSet and drops the oldest ones when the list is too long."""
    revisions = [*filter(None, before.split(",")), revision]
    while len(",".join(revisions)) > MAX_HISTORY_LENGTH:
        revisions.pop(0)
    return ",".join(revisions)
