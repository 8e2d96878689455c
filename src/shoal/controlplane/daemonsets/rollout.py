"""One step of a DaemonSet's rolling update. Pure.

Without surge, old pods are deleted within maxUnavailable and the controller recreates them. With surge, a new pod is
created beside the old one, which is deleted once the new one is available.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.daemonsets.placing import Verdict, generation_of, is_updated
from shoal.kinds.deployments import scaled
from shoal.kinds.pod_state import is_available

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bounds:
    surge: int
    unavailable: int


def bounds_of(daemon_set: Object, wanted: int) -> Bounds:
    """Resolves maxSurge and maxUnavailable for that many pods; never both zero."""
    rolling = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge") or 0, wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable") or 0, wanted, up=True)
    return Bounds(surge, unavailable if surge or unavailable or not wanted else 1)


def allows_surge(daemon_set: Object) -> bool:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    return strategy.get("type") == "RollingUpdate" and bounds_of(daemon_set, 1).surge > 0


class Rollout:
    """`pods_by_node` are its pods, `eligibility` covers all nodes."""

    def __init__(
        self,
        daemon_set: Object,
        placed: Mapping[str, list[Object]],
        verdicts: Mapping[str, Verdict],
        hashed: str,
        now: float,
    ) -> None:
        self._set, self._verdicts, self._now, self._hashed = daemon_set, verdicts, now, hashed
        self._generation = generation_of(daemon_set)
        self._min_ready = daemon_set["spec"].get("minReadySeconds") or 0
        self._wanted = sum(verdict.runs for verdict in verdicts.values())
        self._bounds = bounds_of(daemon_set, self._wanted)
        empty: dict[str, list[Object]] = {name: [] for name, verdict in verdicts.items() if verdict.runs}
        self._placed = {**empty, **placed}

    def step(self) -> tuple[list[str], list[Object]]:
        """Returns nodes that need an additional pod, and pods to delete."""
        return self._surged() if self._bounds.surge else ([], self._replaced())

    def _pair(self, pods: list[Object]) -> tuple[Object | None, Object | None] | None:
        """Returns the new and the old pod of a node; None if there is more than one of either."""
        new = old = None
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            if is_updated(pod, self._hashed, self._generation):
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

    def _replaced(self) -> list[Object]:
        unavailable, broken, candidates = 0, [], []
        for pods in self._placed.values():
            pair = self._pair(pods)
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
        return broken + candidates[: max(self._bounds.unavailable - unavailable, 0)]

    def _surged(self) -> tuple[list[str], list[Object]]:
        surging = available = 0
        delete: list[Object] = []
        misplaced: list[Object] = []
        broken: list[str] = []
        candidates: list[str] = []
        for node, pods in self._placed.items():
            pair, verdict = self._pair(pods), self._verdicts.get(node)
            if pair is None:
                surging += 1
                continue
            new, old = pair
            first = old or new
            available += first is not None and self._is_available(first)
            if old is None:
                continue
            works = self._is_available(old)
            if new is not None:
                if self._is_available(new):
                    delete.append(old)
                else:
                    surging += 1
            elif verdict is None:
                continue  # the node is unknown
            elif not verdict.runs:
                (misplaced if works else delete).append(old)
            else:
                (candidates if works else broken).append(node)
        # Misplaced pods are kept until the desired number is available elsewhere.
        delete += misplaced[: max(available - self._wanted, 0)]
        return broken + candidates[: max(self._bounds.surge - surging, 0)], delete
