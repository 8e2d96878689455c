"""Decides the next step of a StatefulSet: pods and claims to create, patch and delete, and its status. Pure.

Ordered sets stop at the first pod that is not as desired; parallel ones handle all pods at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.statefulsets.claims import claim_names, is_stale, new_claims, owners_patch
from shoal.controlplane.statefulsets.identity import (
    correction,
    new_pod,
    ordinal_of,
    ordinals_of,
    replicas_of,
    revision_of,
    start_of,
)
from shoal.controlplane.statefulsets.status import is_created, status_of
from shoal.kinds.deployments import scaled
from shoal.kinds.pod_state import is_available, is_ready, is_terminal
from shoal.kinds.revisions import restored

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    stateful_set: Object
    pods: list[Object]
    """Pods it controls. Pods whose deletion was accepted carry a deletionTimestamp."""
    claims: Mapping[str, Object]
    """All claims of its namespace, by name."""
    current: Object
    update: Object
    """The current and the target revision of its pods."""
    collisions: int
    now: float


@dataclass(slots=True)
class Decision:
    """Executed in this order."""

    claims: list[tuple[str, Object]] = field(default_factory=list)
    """Claims to create, with the names of their pods."""
    owners: dict[str, tuple[Object, Object]] = field(default_factory=dict)
    """Claims by name, with the patch of their owner references."""
    create: list[Object] = field(default_factory=list)
    correct: list[tuple[Object, Object]] = field(default_factory=list)
    """Pods with the patch that restores their identity."""
    delete: list[Object] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)
    """Pods that cannot be created, with the reason."""
    status: Object = field(default_factory=dict)


def decide(seen: Snapshot) -> Decision:
    return _Steps(seen).taken()


def outdated(stateful_set: Object, pods: list[Object], revisions: list[Object], live: set[str]) -> list[Object]:
    """Returns revisions over the history limit that neither a pod nor the set uses."""
    limit = stateful_set["spec"].get("revisionHistoryLimit")
    live = live | {revision_of(pod) for pod in pods}
    past = [one for one in revisions if one["metadata"]["name"] not in live]
    return past[: max(len(past) - limit, 0)] if limit is not None and limit >= 0 else []


class _Steps:
    def __init__(self, seen: Snapshot) -> None:
        self._seen, self._set = seen, seen.stateful_set
        self._ordered = self._set["spec"].get("podManagementPolicy") != "Parallel"
        self._min_ready = self._set["spec"].get("minReadySeconds") or 0
        self._decision = Decision()
        self._replicas, self._condemned = self._divided()
        in_order = [*self._replicas, *reversed(self._condemned)]
        self._first_unavailable = next((pod for pod in in_order if self._is_unavailable(pod)), None)

    def taken(self) -> Decision:
        replaced = 0
        if "deletionTimestamp" in self._set["metadata"]:
            counted = self._seen.pods
        else:
            counted = [*self._replicas, *self._condemned]
            if self._grown() and self._shrunk():
                replaced = self._rolled()
        seen, min_ready = self._seen, self._min_ready
        self._decision.status = status_of(
            self._set, counted, seen.current, seen.update, seen.collisions, replaced, min_ready, seen.now
        )
        return self._decision

    def _divided(self) -> tuple[list[Object], list[Object]]:
        """Returns the desired pods, with placeholders for missing ones, and the surplus pods, highest ordinal first."""
        wanted, name = ordinals_of(self._set), self._set["metadata"]["name"]
        by_ordinal = {ordinal_of(pod): pod for pod in self._seen.pods}
        replicas = [by_ordinal.get(number) or {"metadata": {"name": f"{name}-{number}"}} for number in wanted]
        surplus = sorted((ordinal for ordinal in by_ordinal if ordinal >= 0 and ordinal not in wanted), reverse=True)
        return replicas, [by_ordinal[ordinal] for ordinal in surplus]

    def _new_pod(self, ordinal: int) -> Object:
        strategy = self._set["spec"].get("updateStrategy") or {}
        rolling, index = strategy.get("rollingUpdate"), ordinal - start_of(self._set)
        if rolling is not None:
            is_old = index < (rolling.get("partition") or 0)
        else:
            kept = (self._set.get("status") or {}).get("currentReplicas") or 0
            is_old = strategy.get("type") == "RollingUpdate" and index < kept
        revision = self._seen.current if is_old else self._seen.update
        return new_pod(restored(self._set, revision), ordinal, revision["metadata"]["name"])

    def _is_available(self, pod: Object) -> bool:
        return is_available(pod, self._min_ready, self._seen.now)

    def _is_unavailable(self, pod: Object) -> bool:
        return not self._is_available(pod) or _is_terminating(pod)

    def _grown(self) -> bool:
        """Reconciles the desired pods. Returns whether the surplus pods may be handled."""
        for pod in self._replicas:
            if not self._settled(pod) and self._ordered:
                return False
        return not self._decision.blocked

    def _settled(self, pod: Object) -> bool:
        """Reconciles one pod. Returns whether the next one in order may be handled."""
        if is_terminal(pod):
            if not _is_terminating(pod):
                self._decision.delete.append(pod)
            return False
        if not is_created(pod):
            self._create(pod)
            return False
        if pod["status"]["phase"] == "Pending" and not self._stored(pod):
            return False
        if self._ordered and (_is_terminating(pod) or not _is_running(pod) or not self._is_available(pod)):
            return False
        self._own(pod)
        patch = correction(self._set, pod)
        if patch is not None:
            self._decision.correct.append((pod, patch))
        return True

    def _create(self, pod: Object) -> None:
        found = [self._seen.claims[name] for name in claim_names(self._set, pod) if name in self._seen.claims]
        if any(is_stale(self._set, pod, claim) for claim in found):
            return  # the claim is deleted with the previous pod of that name
        if self._stored(pod):
            self._decision.create.append(self._new_pod(ordinal_of(pod)))

    def _stored(self, pod: Object) -> bool:
        """Ensures the claims of a pod; False if one is being deleted."""
        name = pod["metadata"]["name"]
        for claim in new_claims(self._set, pod):
            there = self._seen.claims.get(claim["metadata"]["name"])
            if there is None:
                self._decision.claims.append((name, claim))
            elif "deletionTimestamp" in there["metadata"]:
                self._decision.blocked.append((name, f"pvc {claim['metadata']['name']} is being deleted"))
                return False
        self._own(pod)
        return True

    def _own(self, pod: Object) -> None:
        for name in claim_names(self._set, pod):
            claim = self._seen.claims.get(name)
            patch = owners_patch(self._set, pod, claim) if claim is not None else None
            if claim is not None and patch is not None:
                self._decision.owners[name] = claim, patch

    def _shrunk(self) -> bool:
        """Deletes surplus pods. Returns whether pods may be updated."""
        for pod in self._condemned:
            self._own(pod)
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

    def _rolled(self) -> int:
        """Deletes pods of old revisions, highest ordinal first, so that they are recreated at the new one. Returns
        their number.
        """
        strategy = self._set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return 0
        rolling = strategy.get("rollingUpdate") or {}
        targets = self._replicas[rolling.get("partition") or 0 :]
        if rolling.get("maxUnavailable") is None:
            old = self._next_old(targets)
        else:
            most = max(scaled(rolling["maxUnavailable"], replicas_of(self._set), up=False), 1)
            room = most - sum(map(self._is_unavailable, self._replicas))
            old = [pod for pod in reversed(targets) if self._is_old(pod)][: max(room, 0)]
        self._decision.delete += old
        return len(old)

    def _next_old(self, targets: list[Object]) -> list[Object]:
        """Updates one pod at a time, and only while those with higher ordinals are available."""
        for pod in reversed(targets):
            if self._is_old(pod):
                return [pod]
            if self._is_unavailable(pod):
                return []
        return []

    def _is_old(self, pod: Object) -> bool:
        name = self._seen.update["metadata"]["name"]
        return is_created(pod) and revision_of(pod) != name and not _is_terminating(pod)


def _is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_running(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running") and is_ready(pod)
