"""Rebalancing settings from the ConfigMap `shoal-system/rebalance`; without it rebalancing is off. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shoal.kinds import fleet

Object = dict[str, Any]

NAME = "rebalance"
OFF, SUGGEST, AUTO = "off", "suggest", "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    mode: str = OFF
    at_once: int = 1
    """The most rebalanced clusters that are not ready yet."""
    threshold: Fraction = Fraction(1, 5)
    """The largest allowed difference between the used shares of two Workers."""
    rest: float = 600.0
    """Seconds after a move in which a cluster is not moved again."""
    wrong: str = ""


def settings(config: Object | None) -> Settings:
    if config is None:
        return Settings()
    data = {"mode": SUGGEST, "maxMoves": "1", "threshold": "0.2", "rest": "600"} | dict(config.get("data") or {})
    unknown = sorted(data.keys() - {"mode", "maxMoves", "threshold", "rest"})
    if unknown:
        return _wrong(f"{unknown[0]} is not known; there are mode, maxMoves, threshold, rest")
    if data["mode"] not in (SUGGEST, AUTO):
        return _wrong(f"mode is neither {SUGGEST} nor {AUTO}: {data['mode']!r}")
    numbers = {}
    for key, most in (("maxMoves", 1000), ("threshold", 1), ("rest", 10**9)):
        try:
            numbers[key] = Fraction(data[key])
        except (ValueError, ZeroDivisionError):
            numbers[key] = Fraction(-1)
        if not 0 <= numbers[key] <= most:
            return _wrong(f"{key} is not a number from 0 to {most}: {data[key]!r}")
    return Settings(data["mode"], int(numbers["maxMoves"]), numbers["threshold"], float(numbers["rest"]))


def _wrong(said: str) -> Settings:
    return Settings(wrong=f"ConfigMap {fleet.NAMESPACE}/{NAME}: {said}")
