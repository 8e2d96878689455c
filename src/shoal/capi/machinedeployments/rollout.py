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
class MachineSetScale:
    """Scale of a MachineSet: desired, current and available replicas."""

    name: str
    replicas: int
    current: int = 0
    available: int = 0


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Rollout limits of a MachineDeployment as absolute numbers."""

    replicas: int
    max_surge: int
    max_unavailable: int
    on_delete: bool = False


def rollout_limits(spec: Object) -> RolloutLimits:
    replicas = int(spec.get("replicas", 1))
    strategy = (spec.get("rollout") or {}).get("strategy") or {}
    if strategy.get("type") == "OnDelete":
        return RolloutLimits(replicas, 0, 0, on_delete=True)
    rolling = strategy.get("rollingUpdate") or {}
    max_surge = resolve_int_or_percent(rolling.get("maxSurge", 1), replicas, round_up=True)
    max_unavailable = resolve_int_or_percent(rolling.get("maxUnavailable", 0), replicas, round_up=False)
    if max_surge == 0 and max_unavailable == 0:
        max_unavailable = 1  # with both 0 no rollout could progress
    return RolloutLimits(replicas, max_surge, min(max_unavailable, replicas))


def resolve_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """Resolves an absolute number or a percentage of the total."""
    text = str(value)
    if not text.endswith("%"):
        return max(int(text), 0) if text.lstrip("-").isdigit() else 0
    share = total * float(text[:-1]) / 100 if text[:-1].replace(".", "", 1).isdigit() else 0.0
    return math.ceil(share) if round_up else math.floor(share)


def plan_rollout(limits: RolloutLimits, new: MachineSetScale, old: Sequence[MachineSetScale]) -> dict[str, int]:
    """The new replicas of the MachineSets whose replicas change. `old` is sorted oldest first."""
    new_replicas = _new_set_replicas(limits, new, old)
    intents = {new.name: new_replicas} if new_replicas != new.replicas else {}
    if limits.on_delete:
        intents |= _on_delete_intents(limits, replace(new, replicas=new_replicas), old)
    else:
        intents |= _scale_down_old_sets(limits, new, intents, old)
        intents = intents or _unblock_rollout(new, old)
    return intents


def _new_set_replicas(limits: RolloutLimits, new: MachineSetScale, old: Sequence[MachineSetScale]) -> int:
    if new.replicas >= limits.replicas:
        return limits.replicas
    total = sum(max(each.replicas, each.current) for each in (*old, new))
    room = limits.replicas + limits.max_surge - total
    return new.replicas + max(min(room, limits.replicas - new.replicas), 0)


def _scale_down_old_sets(
    limits: RolloutLimits, new: MachineSetScale, intents: dict[str, int], old: Sequence[MachineSetScale]
) -> dict[str, int]:
    if not any(each.replicas for each in old):
        return {}
    min_available = max(limits.replicas - limits.max_unavailable, 0)
    pending = sum(
        max(each.current - min(each.replicas, intents.get(each.name, each.replicas)), 0) for each in (*old, new)
    )
    unavailable = max(new.replicas - new.available, 0)
    room = sum(each.replicas for each in (*old, new)) - pending - min_available - unavailable
    available = sum(each.available for each in (*old, new))
    intents_down: dict[str, int] = {}
    # Unavailable replicas are deleted first: they serve nothing, and their replacements may.
    for broken_only in (True, False):
        for each in old:
            replicas = intents_down.get(each.name, each.replicas)
            max_down = max(replicas - each.available, 0) if broken_only else replicas
            down = min(max_down, room)
            if down <= 0:
                continue
            down, available = _bounded_scale_down(each, replicas, down, available, min_available)
            if down > 0:
                intents_down[each.name] = replicas - down
                room -= down
    return intents_down


def _bounded_scale_down(
    each: MachineSetScale, replicas: int, down: int, available: int, min_available: int
) -> tuple[int, int]:
    """How far this MachineSet may scale down, and what is then available in the worst case."""
    deleted = max(each.current - (replicas - down), 0)
    if not each.available or not deleted:
        return down, available
    spare = max(available - min_available, 0)
    if deleted > spare:
        remaining = min(each.current - spare, replicas)
        down, deleted = max(replicas - remaining, 0), max(each.current - remaining, 0)
    return down, available - min(each.available, deleted)


def _unblock_rollout(new: MachineSetScale, old: Sequence[MachineSetScale]) -> dict[str, int]:
    """An unavailable Machine of an old MachineSet may block the rollout: then one is deleted regardless of
    maxUnavailable.
    """
    current = sum(each.current for each in old)
    if not current or current == sum(each.available for each in old):
        return {}
    if any(each.replicas != each.current for each in (*old, new)) or new.available != new.current:
        return {}
    for each in old:
        if each.available != each.current and each.replicas:
            return {each.name: each.replicas - 1}
    return {}


def _on_delete_intents(limits: RolloutLimits, new: MachineSetScale, old: Sequence[MachineSetScale]) -> dict[str, int]:
    """OnDelete: old MachineSets never replace lost Machines, and scale down when there are too many."""
    surplus = sum(each.replicas for each in (*old, new)) - limits.replicas
    intents: dict[str, int] = {}
    for each in old:
        lost = max(each.replicas - each.current, 0)
        if lost:
            intents[each.name] = each.replicas - lost
            surplus -= lost
    for each in old:
        replicas = intents.get(each.name, each.replicas)
        down = min(replicas, surplus)
        if down > 0:
            intents[each.name] = replicas - down
            surplus -= down
    return intents


def scale_while_paused(
    limits: RolloutLimits, new: MachineSetScale | None, old: Sequence[MachineSetScale]
) -> dict[str, int]:
    """Paused: no rollout starts or continues. New replicas go to the only active MachineSet, or are divided
    proportionally over the active ones.
    """
    active = [each for each in (*old, *([new] if new is not None else [])) if each.replicas]
    if len(active) < 2:
        target = active[0] if active else new
        return {target.name: limits.replicas} if target is not None and target.replicas != limits.replicas else {}
    if limits.on_delete:
        return {}
    total = sum(each.replicas for each in active)
    desired = limits.replicas + limits.max_surge if limits.replicas else 0
    shares = {each.name: each.replicas * desired // total for each in active}
    # The remainder goes to the largest MachineSets; of equal ones to the newest, which is the last.
    largest = sorted(active, key=lambda each: each.replicas)[::-1]
    for each in largest[: desired - sum(shares.values())]:
        shares[each.name] += 1
    return {each.name: shares[each.name] for each in active if shares[each.name] != each.replicas}
