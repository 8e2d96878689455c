"""Price list: a ConfigMap with hourly prices of instance types, for objects without a price annotation. Pure.

`prices.yaml` is a list of {instanceType, zone, capacityType, price}. An entry without a zone or capacity type applies
to all of them, and the most specific entry wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from shoal.provision.clusterapi.scale_from_zero import parse_price

Object = dict[str, Any]

CONFIG_MAP_NAME, CONFIG_MAP_KEY = "shoal-prices", "prices.yaml"
PriceKey = tuple[str, str, str]
"""Instance type, zone and capacity type; empty: any."""


@dataclass(frozen=True, slots=True)
class PriceList:
    prices: Mapping[PriceKey, float] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    """Errors of unreadable entries. The other entries apply."""

    def price_of(self, labels: Mapping[str, str]) -> float | None:
        """Price of a node with these labels."""
        kind, zone, capacity = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
        price_keys = ((kind, zone, capacity), (kind, zone, ""), (kind, "", capacity), (kind, "", ""))
        return next((self.prices[price_key] for price_key in price_keys if price_key in self.prices), None)


def parse_price_list(config_map: Object | None) -> PriceList:
    text = ((config_map or {}).get("data") or {}).get(CONFIG_MAP_KEY) or ""
    try:
        entries = yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        return PriceList(errors=(f"{CONFIG_MAP_KEY} is not valid YAML: {error}",))
    if not isinstance(entries, list):
        return PriceList(errors=(f"{CONFIG_MAP_KEY} must be a list",))
    prices: dict[PriceKey, float] = {}
    errors: list[str] = []
    for position, entry in enumerate(entries):
        key, cost = (_price_key(entry), parse_price(entry.get("price"))) if isinstance(entry, dict) else (None, None)
        if key is None or cost is None:
            errors.append(f"entry {position + 1} of {CONFIG_MAP_KEY} needs an instanceType and a price")
        elif prices.setdefault(key, cost) != cost:
            errors.append(f"entry {position + 1} of {CONFIG_MAP_KEY} contradicts an earlier entry")
    return PriceList(prices, tuple(errors))


def _price_key(entry: Object) -> PriceKey | None:
    kind, zone, capacity = (str(entry.get(key) or "") for key in ("instanceType", "zone", "capacityType"))
    return (kind, zone, capacity) if kind else None
