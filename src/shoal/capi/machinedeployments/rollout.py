"""Computes the next replicas of each MachineSet of a MachineDeployment within maxSurge and maxUnavailable. Pure.

The MachineSet chooses which Machine it deletes, so every deletion counts as one of an available Machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Set:
    """Scale of a MachineSet: desired, current and available replicas."""

    name: str
    replicas: int
    current: int = 0
    available: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Rollout limits of a MachineDeployment as absolute numbers."""

    replicas: int
    surge: int
    unavailable: int
    on_delete: bool = False


def limits_of(spec: Object) -> Limits:
    replicas = int(spec.get("replicas", 1))
    strategy = (spec.get("rollout") or {}).get("strategy") or {}
    if strategy.get("type") == "OnDelete":
        return Limits(replicas, 0, 0, on_delete=True)
    rolling = strategy.get("rollingUpdate") or {}
    surge = resolved(rolling.get("maxSurge", 1), replicas, up=True)
    unavailable = resolved(rolling.get("maxUnavailable", 0), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # with both 0 no rollout could progress
    return Limits(replicas, surge, min(unavailable, replicas))


def resolved(value: int | str, total: int, *, up: bool) -> int:
    """Resolves an absolute number or a percentage of the total."""
    text = str(value)
    if not text.endswith("%"):
        return max(int(text), 0) if text.lstrip("-").isdigit() else 0
    share = total * float(text[:-1]) / 100 if text[:-1].replace(".", "", 1).isdigit() else 0.0
    return math.ceil(share) if up else math.floor(share)


def plan(limits: Limits, new: Set, old: Sequence[Set]) -> dict[str, int]:
    """The new replicas of the MachineSets whose replicas change. `old` is sorted oldest first."""
    wanted = _grown(limits, new, old)
    intents = {new.name: wanted} if wanted != new.replicas else {}
    if limits.on_delete:
        intents |= _follow_deletions(limits, replace(new, replicas=wanted), old)
    else:
        intents |= _shrink(limits, new, intents, old)
        intents = intents or _unblock(new, old)
    return intents


def _grown(limits: Limits, new: Set, old: Sequence[Set]) -> int:
    if new.replicas >= limits.replicas:
        return limits.replicas
    total = sum(max(each.replicas, each.current) for each in (*old, new))
    room = limits.replicas + limits.surge - total
    return new.replicas + max(min(room, limits.replicas - new.replicas), 0)


def _shrink(limits: Limits, new: Set, intents: dict[str, int], old: Sequence[Set]) -> dict[str, int]:
    if not any(each.replicas for each in old):
        return {}
    least = max(limits.replicas - limits.unavailable, 0)
    pending = sum(
        max(each.current - min(each.replicas, intents.get(each.name, each.replicas)), 0) for each in (*old, new)
    )
    broken = max(new.replicas - new.available, 0)
    room = sum(each.replicas for each in (*old, new)) - pending - least - broken
    available = sum(each.available for each in (*old, new))
    found: dict[str, int] = {}
    # Unavailable replicas are deleted first: they serve nothing, and their replacements may.
    for broken_only in (True, False):
        for each in old:
            replicas = found.get(each.name, each.replicas)
            most = max(replicas - each.available, 0) if broken_only else replicas
            down = min(most, room)
            if down <= 0:
                continue
            down, available = _careful(each, replicas, down, available, least)
            if down > 0:
                found[each.name] = replicas - down
                room -= down
    return found


def _careful(each: Set, replicas: int, down: int, available: int, least: int) -> tuple[int, int]:
    """How far this MachineSet may scale down, and what is then available in the worst case."""
    deleted = max(each.current - (replicas - down), 0)
    if not each.available or not deleted:
        return down, available
    spare = max(available - least, 0)
    if deleted > spare:
        kept = min(each.current - spare, replicas)
        down, deleted = max(replicas - kept, 0), max(each.current - kept, 0)
    return down, available - min(each.available, deleted)


def _unblock(new: Set, old: Sequence[Set]) -> dict[str, int]:
    """An unavailable Machine of an old MachineSet may block the rollout: then one is deleted regardless of
    maxUnavailable.
    """
    have = sum(each.current for each in old)
    if not have or have == sum(each.available for each in old):
        return {}
    if any(each.replicas != each.current for each in (*old, new)) or new.available != new.current:
        return {}
    for each in old:
        if each.available != each.current and each.replicas:
            return {each.name: each.replicas - 1}
    return {}


def _follow_deletions(limits: Limits, new: Set, old: Sequence[Set]) -> dict[str, int]:
    """OnDelete: old MachineSets never replace lost Machines, and scale down when there are too many."""
    surplus = sum(each.replicas for each in (*old, new)) - limits.replicas
    found: dict[str, int] = {}
    for each in old:
        lost = max(each.replicas - each.current, 0)
        if lost:
            found[each.name] = each.replicas - lost
            surplus -= lost
    for each in old:
        replicas = found.get(each.name, each.replicas)
        down = min(replicas, surplus)
        if down > 0:
            found[each.name] = replicas - down
            surplus -= down
    return found


def scale_only(limits: Limits, new: Set | None, old: Sequence[Set]) -> dict[str, int]:
    """Paused: no rollout starts or continues. New replicas go to the only active MachineSet, or are divided
    proportionally over the active ones.
    """
    active = [each for each in (*old, *([new] if new is not None else [])) if each.replicas]
    if len(active) < 2:
        bearer = active[0] if active else new
        return {bearer.name: limits.replicas} if bearer is not None and bearer.replicas != limits.replicas else {}
    if limits.on_delete:
        return {}
    total = sum(each.replicas for each in active)
    wanted = limits.replicas + limits.surge if limits.replicas else 0
    shares = {each.name: each.replicas * wanted // total for each in active}
    # The remainder goes to the largest MachineSets; of equal ones to the newest, which is the last.
    largest = sorted(active, key=lambda each: each.replicas)[::-1]
    for each in largest[: wanted - sum(shares.values())]:
        shares[each.name] += 1
    return {each.name: shares[each.name] for each in active if shares[each.name] != each.replicas}
