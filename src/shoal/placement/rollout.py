"""One rolling step from the current shares to the target. Pure.

Replicas that do not run move at once. Of those that run, only so many move that the minimum stays available; when they
run again, the next do. Until then the receiving clusters get less, so that all shares add up to the object's replicas,
or to the surge more where the minimum lets nothing go before its successor runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.placement.cluster_info import NO_SHARE, CurrentShare


def rolling_step(
    target: Mapping[str, int], current_shares: Mapping[str, CurrentShare], floor: int, surge: int = 0
) -> dict[str, int]:
    """Returns the shares until the next reconcile, including clusters with a target of 0 and what they keep for now."""
    if not current_shares:
        return dict(target)
    names = list(dict.fromkeys([*target, *current_shares]))
    shares = {name: current_shares.get(name, NO_SHARE).replicas for name in names}
    available = {name: min(part.available, part.replicas) for name, part in current_shares.items()}
    spare = max(sum(available.values()) - floor, 0)
    for name in names:
        surplus = max(shares[name] - target.get(name, 0), 0)
        not_running = min(surplus, shares[name] - available.get(name, 0))
        movable = min(surplus - not_running, spare)
        spare -= movable
        shares[name] -= not_running + movable
    shortfall = sum(target.values()) - sum(shares.values())
    for name in names:
        if shortfall + surge > 0:
            change = min(max(target.get(name, 0) - shares[name], 0), shortfall + surge)
        else:
            change = -min(max(shares[name] - available.get(name, 0), 0), -shortfall - surge)
        shares[name] += change
        shortfall -= change
    return shares
