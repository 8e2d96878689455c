"""Checks budgets with every watch event: pods that stay, nodes that may go, capacity. Pure.

Events of one kind are ordered; events of two kinds are not, so pods are never compared with NodeClaims here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import parse_amounts

Object = dict[str, Any]


@dataclass(slots=True)
class BudgetWatcher:
    least_ready: int
    """Pods that are Ready and stay: what a PodDisruptionBudget says, from when there are so many."""
    budget: str
    """Nodes that may go at a time: a number, or a share of them."""
    least_cpu: int
    """Thousandths, of nodes that stay: what is to come in place of others is there before they go."""
    changes: int = 0
    broken: list[str] = field(default_factory=list)
    moved: float = 0.0
    """When a pod or NodeClaim last came, went or began to go."""
    most_down: int = 0
    pods: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    _armed: set[str] = field(default_factory=set)
    _down: int = 0

    def pod(self, event: Object, now: float) -> None:
        self._keep(self.pods, event, now)
        ready = sum(has(each, "Ready") and not _is_deleting(each) for each in self.pods.values())
        self._least("pods are ready", ready, self.least_ready)

    def claim(self, event: Object, now: float) -> None:
        self._keep(self.claims, event, now)
        there = [each for each in self.claims.values() if has(each, "Initialized")]
        total = [each for each in there if not has(each, "InstanceTerminating")]
        down = sum(_is_deleting(each) or has(each, "DisruptionReason") for each in total)
        most = _allowed_disruptions(self.budget, len(total))
        if down > max(most, self._down):
            self.broken.append(f"{down} of {len(total)} nodes are being disrupted, {most} allowed")
        self._down, self.most_down = down, max(down, self.most_down)
        staying = [
            parse_amounts((each.get("status") or {}).get("allocatable")) for each in there if not _is_deleting(each)
        ]
        self._least("millicores of CPU remain", sum(each.get("cpu", 0) for each in staying), self.least_cpu)

    def at_rest(self) -> bool:
        """Nothing is on its way: neither nodes nor pods."""
        claims = all(has(each, "Ready") and not has(each, "DisruptionReason") for each in self.claims.values())
        return claims and not any(map(_is_deleting, [*self.claims.values(), *self.pods.values()]))

    def types(self) -> list[str]:
        """Of the nodes that stay."""
        label = "node.kubernetes.io/instance-type"
        return [each["metadata"]["labels"].get(label, "") for each in self.claims.values() if not _is_deleting(each)]

    def _keep(self, known: dict[str, Object], event: Object, now: float) -> None:
        obj = event["object"]
        uid = obj["metadata"]["uid"]
        self.changes += 1
        before = known.pop(uid, None)
        if event["type"] != "DELETED":
            known[uid] = obj
        if event["type"] != "MODIFIED" or before is None or _is_deleting(before) != _is_deleting(obj):
            self.moved = now

    def _least(self, what: str, found: int, least: int) -> None:
        if found >= least:
            self._armed.add(what)
        elif what in self._armed:
            self.broken.append(f"only {found} {what}, not {least}")


def _allowed_disruptions(budget: str, total: int) -> int:
    share = budget.removesuffix("%")
    return math.ceil(int(share) * total / 100) if share != budget else int(budget)


def _is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def has(obj: Object, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
