"""How an object's replicas move between clusters: what its own strategy allows, and one rolling step. Pure.

A replica that runs is given up when its successor is available. Objects whose replicas may not run twice go down first,
within what may be unavailable, and come up elsewhere when their pods have terminated.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.apps.deployment import scaled_value
from shoal.placement.cluster_info import NO_SHARE, CurrentShare
from shoal.placement.policy import PlacementPolicy

Object = dict[str, Any]

DEFAULT_BOUND = "25%"
"""Of maxUnavailable and maxSurge, as for a Deployment."""


@dataclass(frozen=True, slots=True)
class RolloutStrategy:
    """The strategy of the object itself."""

    max_unavailable: int | str = DEFAULT_BOUND
    max_surge: int | str = DEFAULT_BOUND
    is_exclusive: bool = False
    """A replica and its successor may not run at the same time."""


DEFAULT_STRATEGY = RolloutStrategy()


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """Bounds of a rolling step, over all clusters."""

    min_available: int
    """How many replicas stay available."""
    max_surge: int
    """How many replicas more than the total there may be. With 0, replicas go down first."""
    max_unavailable: int | str = field(default=DEFAULT_BOUND, compare=False)
    surge: int | str = field(default=DEFAULT_BOUND, compare=False)
    """Both of the object itself. A rollout in one cluster applies them to the share of that cluster."""


def strategy_of(root: Object) -> RolloutStrategy:
    """A StatefulSet goes down one by one by default. Other kinds without a strategy have that of a Deployment."""
    spec: Object = root.get("spec") or {}
    if root.get("kind") == "StatefulSet":
        bounds = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        return RolloutStrategy(bounds.get("maxUnavailable", 1), 0, is_exclusive=True)
    strategy = spec.get("strategy") if root.get("kind") == "Deployment" else None
    strategy = strategy if isinstance(strategy, dict) else {}
    bounds = strategy.get("rollingUpdate") or {}
    return RolloutStrategy(
        bounds.get("maxUnavailable", DEFAULT_BOUND),
        bounds.get("maxSurge", DEFAULT_BOUND),
        strategy.get("type") == "Recreate" or _mounts_claim(spec),
    )


def _mounts_claim(spec: Object) -> bool:
    """Returns whether the pods mount a PersistentVolumeClaim that they may write."""
    template = spec.get("template")
    volumes = ((template.get("spec") or {}).get("volumes") or ()) if isinstance(template, dict) else ()
    claims = (volume.get("persistentVolumeClaim") for volume in volumes)
    return any(claim is not None and not claim.get("readOnly") for claim in claims)


def move_budget(total: int, policy: PlacementPolicy, strategy: RolloutStrategy = DEFAULT_STRATEGY) -> MoveBudget:
    """The Placement may allow fewer unavailable replicas than the object does, and another surge."""
    unavailable = min(
        scaled_value(each, total, round_up=False)
        for each in (strategy.max_unavailable, policy.max_unavailable)
        if each is not None
    )
    surge = strategy.max_surge if policy.max_surge is None else policy.max_surge
    max_surge = 0 if strategy.is_exclusive else scaled_value(surge, total, round_up=True)
    if not unavailable and not max_surge:  # nothing could ever move
        unavailable, max_surge = (1, 0) if strategy.is_exclusive else (0, 1)
    return MoveBudget(
        max(total - unavailable, 0), max_surge if total else 0, strategy.max_unavailable, strategy.max_surge
    )


def rolling_step(
    target: Mapping[str, int],
    current_shares: Mapping[str, CurrentShare],
    budget: MoveBudget,
    forced: Container[str] = (),
    requested: int = 0,
) -> dict[str, int]:
    """Returns the shares until the next reconcile, including clusters with a target of 0 and what they keep for now.
    Clusters in `forced` have to be left: they do not wait for successors, only for the minimum. If no cluster can take
    any of the `requested` replicas, the others keep what runs. Without a surge, successors wait until the pods of a
    cluster that gave replicas up have terminated.
    """
    if not current_shares:
        return dict(target)
    names = list(dict.fromkeys([*target, *current_shares]))
    shares = {name: current_shares.get(name, NO_SHARE).replicas for name in names}
    available = {name: min(part.available, part.replicas) for name, part in current_shares.items()}
    total = sum(target.values())
    floor = min(budget.min_available, total)
    awaited = (total if budget.max_surge else floor) if total else requested
    running = sum(_guaranteed_count(part, budget) for part in current_shares.values())
    # Pods that find no node never complete their rollout. Where nothing else can move, they move one by one, and a
    # rollout then ends two pods at most.
    stuck = 0 if _is_waiting(target, shares, available, total + budget.max_surge) else 2
    for name in names:
        surplus = max(shares[name] - target.get(name, 0), 0)
        part, needed = current_shares.get(name, NO_SHARE), floor if name in forced else awaited
        not_running = min(surplus, shares[name] - available.get(name, 0))
        if part.is_rolling_out and surplus:
            is_stuck = name in forced or part.capacity_limit is not None
            allowed = max(running - floor, stuck if is_stuck else 0), max(running - needed, 0)
            released, lost = _releasable_count(part, surplus, not_running, allowed, budget)
            running -= lost
            stuck = 0 if released else stuck
        else:
            movable = min(surplus - not_running, max(running - needed, 0))
            running -= movable
            released = not_running + movable
        shares[name] -= released
    shortfall, surge = total - sum(shares.values()), budget.max_surge
    if not surge and shortfall > 0:
        leftover = sum(max(part.pods - shares[name], 0) for name, part in current_shares.items())
        shortfall = max(shortfall - leftover, 0)
    for name in names:
        if shortfall + surge > 0:
            change = min(max(target.get(name, 0) - shares[name], 0), shortfall + surge)
        else:
            change = -min(max(shares[name] - available.get(name, 0), 0), -shortfall - surge)
        shares[name] += change
        shortfall -= change
    return shares


def _is_waiting(target: Mapping[str, int], shares: Mapping[str, int], available: Mapping[str, int], most: int) -> bool:
    """Returns whether successors are to be placed, or do not run yet."""
    growing = {name: share for name, share in shares.items() if share <= target.get(name, 0)}
    missing = sum(target.get(name, 0) - share for name, share in growing.items())
    return min(missing, most - sum(shares.values())) > 0 or any(
        share > available.get(name, 0) for name, share in growing.items()
    )


def _guaranteed_count(current: CurrentShare, budget: MoveBudget, released: int = 0) -> int:
    """Returns how many replicas run for certain. During a rollout these are those that it may not end; and a share that
    is reduced meanwhile may end as many more pods as there are fewer, because old and new ones are scaled together.
    """
    running = min(current.available, current.replicas)
    if not current.is_rolling_out:
        return running
    share = current.replicas - released
    surge_before, surge = (scaled_value(budget.surge, each, round_up=True) for each in (current.replicas, share))
    unavailable = scaled_value(budget.max_unavailable, share, round_up=False)
    ended = released + surge_before - surge if released else 0
    return max(min(share - unavailable, running - ended), 0)


def _releasable_count(
    current: CurrentShare, surplus: int, not_running: int, allowed: tuple[int, int], budget: MoveBudget
) -> tuple[int, int]:
    """Returns how many replicas a cluster gives up during a rollout, and how many that run it may lose by that.
    `allowed` are the losses allowed for replicas that do not run, and for others.
    """
    for released in range(surplus, 0, -1):
        lost = _guaranteed_count(current, budget) - _guaranteed_count(current, budget, released)
        lost = max(lost, released - not_running)
        if lost <= allowed[released > not_running]:
            return released, lost
    return 0, 0
