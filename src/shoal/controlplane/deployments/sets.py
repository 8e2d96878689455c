"""A draft of a Deployment's ReplicaSets between their current and their desired state. Pure.

Rollout steps change `ReplicaSetDraft`; afterwards it lists the ReplicaSets that differ from the existing ones.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.deployments import (
    DESIRED_REPLICAS,
    LAST_APPLIED,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    TEMPLATE_HASH,
    bare_template,
    max_surge,
    replicas_of,
    revision_of,
    set_name,
    template_hash,
)
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

LONGEST_HISTORY = 2000
"""Maximum length of the annotation that lists earlier revisions."""
NOT_COPIED = frozenset(
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


class Sets:
    def __init__(self, deployment: Object, found: list[Object]) -> None:
        self._deployment = deployment
        self._found = {one["metadata"]["name"]: one for one in found}
        self._draft = {one["metadata"]["name"]: one for one in sorted(found, key=by_age)}
        wanted = bare_template(deployment["spec"]["template"])
        self._new = next((n for n, one in self._draft.items() if bare_template(one["spec"]["template"]) == wanted), "")
        self.created = False

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
    def pods(self) -> int:
        """Sum of spec.replicas over all templates."""
        return sum(map(replicas_of, self._draft.values()))

    def changed(self) -> list[Object]:
        """Returns the existing ones that must be updated."""
        return [one for name, one in self._draft.items() if name in self._found and one is not self._found[name]]

    def scale(self, one: Object, size: int, *, annotate: bool = False) -> bool:
        """Returns whether the size changes. With `annotate`, the Deployment's size is recorded even if it does not."""
        scaled = replicas_of(one) != size
        if scaled or annotate:
            annotations = {**(one["metadata"].get("annotations") or {}), **self._sizes()}
            if scaled or annotations != one["metadata"].get("annotations"):
                self._put(one, annotations, replicas=size)
        return scaled

    def renew(self) -> None:
        """Copies annotations and minReadySeconds from the Deployment to the new ReplicaSet and gives it the highest
        revision.
        """
        new = self.new
        if new is None:
            return
        min_ready = self._deployment["spec"].get("minReadySeconds") or 0
        annotations = self._annotations(new)
        if annotations != (new["metadata"].get("annotations") or {}):
            new = self._put(new, annotations)
        if (new["spec"].get("minReadySeconds") or 0) != min_ready:
            self._put(new, annotations, minReadySeconds=min_ready)

    def create(self, size: int) -> None:
        """Adds the ReplicaSet for the Deployment's template, which does not exist yet."""
        metadata, spec = self._deployment["metadata"], self._deployment["spec"]
        hashed = template_hash(spec["template"], (self._deployment.get("status") or {}).get("collisionCount"))
        template = spec["template"]
        labels = {**((template.get("metadata") or {}).get("labels") or {}), TEMPLATE_HASH: hashed}
        match = {**(spec["selector"].get("matchLabels") or {}), TEMPLATE_HASH: hashed}
        new: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": set_name(metadata["name"], hashed),
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
        new["metadata"]["annotations"] = {**self._annotations(new), **self._sizes()}
        self._new = new["metadata"]["name"]
        self._draft[self._new] = new
        self.created = True

    def _sizes(self) -> dict[str, str]:
        replicas = replicas_of(self._deployment)
        return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(self._deployment))}

    def _annotations(self, new: Object) -> dict[str, str]:
        annotations = dict(new["metadata"].get("annotations") or {})
        given = self._deployment["metadata"].get("annotations") or {}
        annotations |= {key: value for key, value in given.items() if key not in NOT_COPIED}
        before = annotations.get(REVISION, "")
        revision = max((revision_of(one) for one in self.old), default=0) + 1
        if (before and not before.isdecimal()) or int(before or 0) >= revision:
            return annotations
        annotations[REVISION] = str(revision)
        if before:
            annotations[REVISION_HISTORY] = _history(annotations.get(REVISION_HISTORY, ""), before)
        return annotations

    def _put(self, one: Object, annotations: dict[str, str], **spec: object) -> Object:
        name = one["metadata"]["name"]
        changed = {**one, "metadata": {**one["metadata"], "annotations": annotations}, "spec": {**one["spec"], **spec}}
        self._draft[name] = changed
        return changed


def by_age(one: Object) -> tuple[str, str]:
    return one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"]


def _history(before: str, revision: str) -> str:
    """Appends an earlier revision of the ReplicaSet and drops the oldest ones when the list is too long."""
    revisions = [*filter(None, before.split(",")), revision]
    while len(",".join(revisions)) > LONGEST_HISTORY:
        revisions.pop(0)
    return ",".join(revisions)
