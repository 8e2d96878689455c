"""One step of a DaemonSet's rolling update. Pure.

Without surge, old pods are deleted within maxUnavailable and the controller recreates them. With surge, a new pod is
created beside the old one, which is deleted once the new one is available.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.daemonsets.eligibility import NodeEligibility, is_updated, template_generation_of
from shoal.kinds.apps.deployment import scaled_value
from shoal.kinds.core.pod.status import is_available

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RolloutBounds:
    max_surge: int
    max_unavailable: int


def bounds_of(daemon_set: Object, desired: int) -> RolloutBounds:
    """Resolves maxSurge and maxUnavailable for that many pods; never both zero."""
    rolling = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge") or 0, desired, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable") or 0, desired, round_up=True)
    return RolloutBounds(surge, unavailable if surge or unavailable or not desired else 1)


def allows_surge(daemon_set: Object) -> bool:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    return strategy.get("type") == "RollingUpdate" and bounds_of(daemon_set, 1).max_surge > 0


class DaemonSetRollout:
    """`pods_by_node` are its pods, `eligibility` covers all nodes."""

    def __init__(
        self,
        daemon_set: Object,
        pods_by_node: Mapping[str, list[Object]],
        eligibility: Mapping[str, NodeEligibility],
        revision_hash: str,
        now: float,
    ) -> None:
        self._set, self._eligibility, self._now, self._revision_hash = daemon_set, eligibility, now, revision_hash
        self._generation = template_generation_of(daemon_set)
        self._min_ready = daemon_set["spec"].get("minReadySeconds") or 0
        self._desired = sum(node_eligibility.should_run for node_eligibility in eligibility.values())
        self._bounds = bounds_of(daemon_set, self._desired)
        empty: dict[str, list[Object]] = {
            name: [] for name, node_eligibility in eligibility.items() if node_eligibility.should_run
        }
        self._pods_by_node = {**empty, **pods_by_node}

    def step(self) -> tuple[list[str], list[Object]]:
        """Returns nodes that need an additional pod, and pods to delete."""
        return self._surge_step() if self._bounds.max_surge else ([], self._pods_to_replace())

    def _new_and_old(self, pods: list[Object]) -> tuple[Object | None, Object | None] | None:
        """Returns the new and the old pod of a node; None if there is more than one of either."""
        new = old = None
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            if is_updated(pod, self._revision_hash, self._generation):
                if new is not None:
                    return None
                new = pod
            elif old is not None:
                return None
            else:
                old = pod
        return new, old

    def _is_available(self, pod: Object) -> bool:
        return is_available(pod, self._min_ready, self._now)

    def _pods_to_replace(self) -> list[Object]:
        unavailable, broken, candidates = 0, [], []
        for pods in self._pods_by_node.values():
            pair = self._new_and_old(pods)
            new, old = pair or (None, None)
            if (new is None) == (old is None):
                unavailable += 1  # none or too many: corrected before the rollout continues
            elif new is not None:
                unavailable += not self._is_available(new)
            elif old is not None and self._is_available(old):
                candidates.append(old)
            elif old is not None:
                unavailable += 1
                broken.append(old)
        return broken + candidates[: max(self._bounds.max_unavailable - unavailable, 0)]

    def _surge_step(self) -> tuple[list[str], list[Object]]:
        surging = available = 0
        delete: list[Object] = []
        misplaced: list[Object] = []
        broken: list[str] = []
        candidates: list[str] = []
        for node, pods in self._pods_by_node.items():
            pair, eligibility = self._new_and_old(pods), self._eligibility.get(node)
            if pair is None:
                surging += 1
                continue
            new, old = pair
            first = old or new
            available += first is not None and self._is_available(first)
            if old is None:
                continue
            is_old_available = self._is_available(old)
            if new is not None:
                if self._is_available(new):
                    delete.append(old)
                else:
                    surging += 1
            elif eligibility is None:
                continue  # the node is unknown
            elif not eligibility.should_run:
                (misplaced if is_old_available else delete).append(old)
            else:
                (candidates if is_old_available else broken).append(node)
        # Misplaced pods are kept until the desired number is available elsewhere.
        delete += misplaced[: max(available - self._desired, 0)]
        return broken + candidates[: max(self._bounds.max_surge - surging, 0)], delete
