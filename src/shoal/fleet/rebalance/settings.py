"""Rebalancing settings from the ConfigMap `shoal-system/rebalance`; without it rebalancing is off. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

CONFIG_MAP = "rebalance"
OFF, SUGGEST, AUTO = "off", "suggest", "auto"


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    mode: str = OFF
    max_moves: int = 1
    """The most rebalanced clusters that are not ready yet."""
    threshold: Fraction = Fraction(1, 5)
    """The largest allowed difference between the used shares of two Workers."""
    cooldown: float = 600.0
    """Seconds after a move in which a cluster is not moved again."""
    settings_error: str = ""


def parse_rebalance_settings(config: Object | None) -> RebalanceSettings:
    if config is None:
        return RebalanceSettings()
    data = {"mode": SUGGEST, "maxMoves": "1", "threshold": "0.2", "rest": "600"} | dict(config.get("data") or {})
    unknown = sorted(data.keys() - {"mode", "maxMoves", "threshold", "rest"})
    if unknown:
        return _invalid(f"{unknown[0]} is not known; there are mode, maxMoves, threshold, rest")
    if data["mode"] not in (SUGGEST, AUTO):
        return _invalid(f"mode is neither {SUGGEST} nor {AUTO}: {data['mode']!r}")
    numbers = {}
    for key, maximum in (("maxMoves", 1000), ("threshold", 1), ("rest", 10**9)):
        try:
            numbers[key] = Fraction(data[key])
        except (ValueError, ZeroDivisionError):
            numbers[key] = Fraction(-1)
        if not 0 <= numbers[key] <= maximum:
            return _invalid(f"{key} is not a number from 0 to {maximum}: {data[key]!r}")
    return RebalanceSettings(data["mode"], int(numbers["maxMoves"]), numbers["threshold"], float(numbers["rest"]))


def _invalid(message: str) -> RebalanceSettings:
    return RebalanceSettings(settings_error=f"ConfigMap {infrav1.NAMESPACE}/{CONFIG_MAP}: {message}")
