"""Instance types of KWOK, Karpenter's simulated cloud: 144 types by upstream's formulas. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.fit.resources import parse_amounts, to_quantities
from shoal.kinds.karpenter.karpenter import ON_DEMAND, SPOT
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulator.instance_type import OfferingSpec, instance_type, price_by_size

GROUP = "karpenter.kwok.sh"
ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
FAMILIES = {"c": 2, "s": 4, "m": 8}
"""GiB per vCPU."""
PRICE_SHARES = {SPOT: 0.7, ON_DEMAND: 1.0}
"""Price share by capacity type."""


def kwok_types(
    sizes: Iterable[int] = SIZES,
    systems: Iterable[str] = ("linux", "windows"),
    architectures: Iterable[str] = ("amd64", "arm64"),
) -> list[InstanceType]:
    systems, architectures = tuple(systems), tuple(architectures)
    return [
        _instance_type(size, family, system, architecture)
        for size in sizes
        for family in FAMILIES
        for system in systems
        for architecture in architectures
    ]


def kwok_linux_amd64_types() -> list[InstanceType]:
    """36 types for Linux on amd64."""
    return kwok_types(systems=("linux",), architectures=("amd64",))


def kwok_small_types() -> list[InstanceType]:
    """Types below 32 vCPU, as Karpenter's performance suite restricts its NodePool."""
    return kwok_types([size for size in SIZES if size < 32], ("linux",), ("amd64",))


def _instance_type(size: int, family: str, system: str, architecture: str) -> InstanceType:
    memory = f"{size * FAMILIES[family]}Gi"
    resources = {"cpu": str(size), "memory": memory, "pods": str(min(size * 16, 1024)), "ephemeral-storage": "20Gi"}
    capacity = parse_amounts(resources)
    price = price_by_size(capacity, 0.025, 0.001)
    specs = [OfferingSpec(zone, kind, price * share) for zone in ZONES for kind, share in PRICE_SHARES.items()]
    label_values = {"size": str(size), "family": family, "cpu": str(size), "memory": to_quantities(capacity)["memory"]}
    labels = {f"{GROUP}/instance-{key}": value for key, value in label_values.items()}
    name = f"{family}-{size}x-{architecture}-{system}"
    return instance_type(name, capacity, specs, architecture=architecture, systems=(system,), labels=labels)
