"""Price list: a ConfigMap with hourly prices of instance types, for objects without a price annotation. Pure.

`prices.yaml` is a list of {instanceType, zone, capacityType, price}. An entry without a zone or capacity type applies
to all of them, and the most specific entry wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from shoal.kinds.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from shoal.provision.clusterapi.announced import number

Object = dict[str, Any]

NAME, KEY = "shoal-prices", "prices.yaml"
Line = tuple[str, str, str]
"""Instance type, zone and capacity type; empty: any."""


@dataclass(frozen=True, slots=True)
class PriceList:
    lines: Mapping[Line, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Errors of unreadable entries. The other entries apply."""

    def of(self, labels: Mapping[str, str]) -> float | None:
        """Price of a node with these labels."""
        kind, zone, capacity = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
        lines = ((kind, zone, capacity), (kind, zone, ""), (kind, "", capacity), (kind, "", ""))
        return next((self.lines[line] for line in lines if line in self.lines), None)


def price_list(config_map: Object | None) -> PriceList:
    text = ((config_map or {}).get("data") or {}).get(KEY) or ""
    try:
        said = yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        return PriceList(problems=(f"{KEY} is no YAML: {error}",))
    if not isinstance(said, list):
        return PriceList(problems=(f"{KEY} is no list",))
    lines: dict[Line, float] = {}
    problems: list[str] = []
    for position, entry in enumerate(said):
        line, cost = (_line(entry), number(entry.get("price"))) if isinstance(entry, dict) else (None, None)
        if line is None or cost is None:
            problems.append(f"line {position + 1} of {KEY} needs an instanceType and a price")
        elif lines.setdefault(line, cost) != cost:
            problems.append(f"line {position + 1} of {KEY} contradicts an earlier one")
    return PriceList(lines, tuple(problems))


def _line(entry: Object) -> Line | None:
    kind, zone, capacity = (str(entry.get(key) or "") for key in ("instanceType", "zone", "capacityType"))
    return (kind, zone, capacity) if kind else None
