"""Decides the next step of a StatefulSet: pods and claims to create, patch and delete, and its status. Pure.

Ordered sets stop at the first pod that is not as desired; parallel ones handle all pods at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.statefulsets.claims import claim_names, is_stale, new_claims, owners_patch
from shoal.controlplane.statefulsets.identity import (
    identity_patch,
    new_pod,
    ordinal_of,
    ordinal_start,
    ordinals_of,
    replicas_of,
    revision_of,
)
from shoal.kinds.apps.deployment import scaled_value
from shoal.kinds.apps.revision import apply_revision
from shoal.kinds.core.pod.status import is_available, is_ready, is_terminal


def is_created(pod: Object) -> bool:
    """Returns whether the pod exists on the server."""
    return bool((pod.get("status") or {}).get("phase"))


def status_of(snapshot: StatefulSetSnapshot, pods: list[Object], replaced_count: int, min_ready: int) -> Object:
    """As upstream. `pods` may contain placeholders of missing pods. `replaced_count` pods are about to be deleted and
    no longer count as current.
    """
    stateful_set = snapshot.stateful_set
    created = [pod for pod in pods if is_created(pod)]
    ready = [pod for pod in created if pod["status"]["phase"] == "Running" and is_ready(pod)]
    revisions = [revision_of(pod) for pod in created if "deletionTimestamp" not in pod["metadata"]]
    old, new = snapshot.current_revision["metadata"]["name"], snapshot.update_revision["metadata"]["name"]
    updated = revisions.count(new)
    at_current = max(revisions.count(old) - replaced_count, 0)
    if _is_complete(stateful_set, len(created), len(ready), updated):
        old, at_current = new, updated
    before = stateful_set.get("status") or {}
    counts = {"readyReplicas": len(ready), "currentReplicas": at_current, "updatedReplicas": updated}
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(created),
        **{name: count for name, count in counts.items() if count},
        "availableReplicas": sum(is_available(pod, min_ready, snapshot.now) for pod in ready),
        "currentRevision": old,
        "updateRevision": new,
        "collisionCount": snapshot.collision_count,
        **({"conditions": before["conditions"]} if before.get("conditions") else {}),
    }


def _is_complete(stateful_set: Object, created: int, ready: int, updated: int) -> bool:
    """A rolling update is complete when every pod exists, is ready and is updated."""
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
    return rolling and created == ready == updated == replicas_of(stateful_set)


Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StatefulSetSnapshot:
    stateful_set: Object
    pods: list[Object]
    """Pods it controls. Pods whose deletion was accepted carry a deletionTimestamp."""
    claims: Mapping[str, Object]
    """All claims of its namespace, by name."""
    current_revision: Object
    update_revision: Object
    """The current and the target revision of its pods."""
    collision_count: int
    now: float


@dataclass(slots=True)
class StatefulSetDecision:
    """Executed in this order."""

    create_claims: list[tuple[str, Object]] = field(default_factory=list)
    """Claims to create, with the names of their pods."""
    owner_patches: dict[str, tuple[Object, Object]] = field(default_factory=dict)
    """Claims by name, with the patch of their owner references."""
    create: list[Object] = field(default_factory=list)
    corrections: list[tuple[Object, Object]] = field(default_factory=list)
    """Pods with the patch that restores their identity."""
    delete: list[Object] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)
    """Pods that cannot be created, with the reason."""
    status: Object = field(default_factory=dict)


def decide(snapshot: StatefulSetSnapshot) -> StatefulSetDecision:
    return _StatefulSetSteps(snapshot).run()


def revisions_to_delete(
    stateful_set: Object, pods: list[Object], revisions: list[Object], live_names: set[str]
) -> list[Object]:
    """Returns revisions over the history limit that neither a pod nor the set uses."""
    limit = stateful_set["spec"].get("revisionHistoryLimit")
    live_names = live_names | {revision_of(pod) for pod in pods}
    past = [one for one in revisions if one["metadata"]["name"] not in live_names]
    return past[: max(len(past) - limit, 0)] if limit is not None and limit >= 0 else []


class _StatefulSetSteps:
    def __init__(self, snapshot: StatefulSetSnapshot) -> None:
        self._snapshot, self._set = snapshot, snapshot.stateful_set
        self._ordered = self._set["spec"].get("podManagementPolicy") != "Parallel"
        self._min_ready = self._set["spec"].get("minReadySeconds") or 0
        self._decision = StatefulSetDecision()
        self._replicas, self._condemned = self._split_replicas()
        in_order = [*self._replicas, *reversed(self._condemned)]
        self._first_unavailable = next((pod for pod in in_order if self._is_unavailable(pod)), None)

    def run(self) -> StatefulSetDecision:
        replaced_count = 0
        if "deletionTimestamp" in self._set["metadata"]:
            counted_pods = self._snapshot.pods
        else:
            counted_pods = [*self._replicas, *self._condemned]
            if self._reconcile_replicas() and self._delete_condemned():
                replaced_count = self._rolling_update()
        self._decision.status = status_of(self._snapshot, counted_pods, replaced_count, self._min_ready)
        return self._decision

    def _split_replicas(self) -> tuple[list[Object], list[Object]]:
        """Returns the desired pods, with placeholders for missing ones, and the surplus pods, highest ordinal first."""
        ordinals, name = ordinals_of(self._set), self._set["metadata"]["name"]
        by_ordinal = {ordinal_of(pod): pod for pod in self._snapshot.pods}
        replicas = [by_ordinal.get(number) or {"metadata": {"name": f"{name}-{number}"}} for number in ordinals]
        surplus = sorted((ordinal for ordinal in by_ordinal if ordinal >= 0 and ordinal not in ordinals), reverse=True)
        return replicas, [by_ordinal[ordinal] for ordinal in surplus]

    def _new_pod(self, ordinal: int) -> Object:
        strategy = self._set["spec"].get("updateStrategy") or {}
        rolling, index = strategy.get("rollingUpdate"), ordinal - ordinal_start(self._set)
        if rolling is not None:
            is_old = index < (rolling.get("partition") or 0)
        else:
            kept = (self._set.get("status") or {}).get("currentReplicas") or 0
            is_old = strategy.get("type") == "RollingUpdate" and index < kept
        revision = self._snapshot.current_revision if is_old else self._snapshot.update_revision
        return new_pod(apply_revision(self._set, revision), ordinal, revision["metadata"]["name"])

    def _is_available(self, pod: Object) -> bool:
        return is_available(pod, self._min_ready, self._snapshot.now)

    def _is_unavailable(self, pod: Object) -> bool:
        return not self._is_available(pod) or _is_terminating(pod)

    def _reconcile_replicas(self) -> bool:
        """Reconciles the desired pods. Returns whether the surplus pods may be handled."""
        for pod in self._replicas:
            if not self._reconcile_replica(pod) and self._ordered:
                return False
        return not self._decision.blocked

    def _reconcile_replica(self, pod: Object) -> bool:
        """Reconciles one pod. Returns whether the next one in order may be handled."""
        if is_terminal(pod):
            if not _is_terminating(pod):
                self._decision.delete.append(pod)
            return False
        if not is_created(pod):
            self._create_pod(pod)
            return False
        if pod["status"]["phase"] == "Pending" and not self._ensure_claims(pod):
            return False
        if self._ordered and (_is_terminating(pod) or not _is_running(pod) or not self._is_available(pod)):
            return False
        self._update_claim_owners(pod)
        patch = identity_patch(self._set, pod)
        if patch is not None:
            self._decision.corrections.append((pod, patch))
        return True

    def _create_pod(self, pod: Object) -> None:
        claims = [self._snapshot.claims[name] for name in claim_names(self._set, pod) if name in self._snapshot.claims]
        if any(is_stale(self._set, pod, claim) for claim in claims):
            return  # the claim is deleted with the previous pod of that name
        if self._ensure_claims(pod):
            self._decision.create.append(self._new_pod(ordinal_of(pod)))

    def _ensure_claims(self, pod: Object) -> bool:
        """Ensures the claims of a pod; False if one is being deleted."""
        name = pod["metadata"]["name"]
        for claim in new_claims(self._set, pod):
            existing = self._snapshot.claims.get(claim["metadata"]["name"])
            if existing is None:
                self._decision.create_claims.append((name, claim))
            elif "deletionTimestamp" in existing["metadata"]:
                self._decision.blocked.append((name, f"pvc {claim['metadata']['name']} is being deleted"))
                return False
        self._update_claim_owners(pod)
        return True

    def _update_claim_owners(self, pod: Object) -> None:
        for name in claim_names(self._set, pod):
            claim = self._snapshot.claims.get(name)
            patch = owners_patch(self._set, pod, claim) if claim is not None else None
            if claim is not None and patch is not None:
                self._decision.owner_patches[name] = claim, patch

    def _delete_condemned(self) -> bool:
        """Deletes surplus pods. Returns whether pods may be updated."""
        for pod in self._condemned:
            self._update_claim_owners(pod)
        for pod in self._condemned:
            if _is_terminating(pod):
                if self._ordered:
                    return False
                continue
            healthy = _is_running(pod) and self._is_available(pod)
            if not self._ordered or healthy or pod is self._first_unavailable:
                self._decision.delete.append(pod)
            if self._ordered:
                return False
        return True

    def _rolling_update(self) -> int:
        """Deletes pods of old revisions, highest ordinal first, so that they are recreated at the new one. Returns
        their number.
        """
        strategy = self._set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return 0
        rolling = strategy.get("rollingUpdate") or {}
        targets = self._replicas[rolling.get("partition") or 0 :]
        if rolling.get("maxUnavailable") is None:
            old = self._next_to_update(targets)
        else:
            max_unavailable = max(scaled_value(rolling["maxUnavailable"], replicas_of(self._set), round_up=False), 1)
            room = max_unavailable - sum(map(self._is_unavailable, self._replicas))
            old = [pod for pod in reversed(targets) if self._is_outdated(pod)][: max(room, 0)]
        self._decision.delete += old
        return len(old)

    def _next_to_update(self, targets: list[Object]) -> list[Object]:
        """Updates one pod at a time, and only while those with higher ordinals are available."""
        for pod in reversed(targets):
            if self._is_outdated(pod):
                return [pod]
            if self._is_unavailable(pod):
                return []
        return []

    def _is_outdated(self, pod: Object) -> bool:
        name = self._snapshot.update_revision["metadata"]["name"]
        return is_created(pod) and revision_of(pod) != name and not _is_terminating(pod)


def _is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_running(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running") and is_ready(pod)
