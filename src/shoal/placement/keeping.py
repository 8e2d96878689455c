"""One rolling step from the current shares to the target. Pure.

Replicas that do not run move at once. Of those that run, only so many move that the minimum stays available; when they
run again, the next do. Until then the receiving clusters get less, so that all shares add up to the object's replicas,
or to the surge more where the minimum lets nothing go before its successor runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.placement.sites import NO_PART, Part


def step(wanted: Mapping[str, int], parts: Mapping[str, Part], floor: int, surge: int = 0) -> dict[str, int]:
    """Returns the shares until the next reconcile, including clusters with a target of 0 and what they keep for now."""
    if not parts:
        return dict(wanted)
    names = list(dict.fromkeys([*wanted, *parts]))
    shares = {name: parts.get(name, NO_PART).replicas for name in names}
    running = {name: min(part.available, part.replicas) for name, part in parts.items()}
    spare = max(sum(running.values()) - floor, 0)
    for name in names:
        excess = max(shares[name] - wanted.get(name, 0), 0)
        idle = min(excess, shares[name] - running.get(name, 0))
        paid = min(excess - idle, spare)
        spare -= paid
        shares[name] -= idle + paid
    missing = sum(wanted.values()) - sum(shares.values())
    for name in names:
        if missing + surge > 0:
            change = min(max(wanted.get(name, 0) - shares[name], 0), missing + surge)
        else:
            change = -min(max(shares[name] - running.get(name, 0), 0), -missing - surge)
        shares[name] += change
        missing -= change
    return shares
