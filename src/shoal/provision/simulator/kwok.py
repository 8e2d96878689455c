"""Instance types of KWOK, Karpenter's simulated cloud: 144 types by upstream's formulas. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.fit.resources import amounts, quantities
from shoal.kinds.karpenter import ON_DEMAND, SPOT
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.simulator.making import Sale, by_size, instance_type

GROUP = "karpenter.kwok.sh"
ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
FAMILIES = {"c": 2, "s": 4, "m": 8}
"""GiB per vCPU."""
SHARES = {SPOT: 0.7, ON_DEMAND: 1.0}
"""Price share by capacity type."""


def kwok(
    sizes: Iterable[int] = SIZES,
    systems: Iterable[str] = ("linux", "windows"),
    architectures: Iterable[str] = ("amd64", "arm64"),
) -> list[InstanceType]:
    systems, architectures = tuple(systems), tuple(architectures)
    return [
        _type(size, family, system, architecture)
        for size in sizes
        for family in FAMILIES
        for system in systems
        for architecture in architectures
    ]


def kwok36() -> list[InstanceType]:
    """36 types for Linux on amd64."""
    return kwok(systems=("linux",), architectures=("amd64",))


def kwok_below_32() -> list[InstanceType]:
    """Types below 32 vCPU, as Karpenter's performance suite restricts its NodePool."""
    return kwok([size for size in SIZES if size < 32], ("linux",), ("amd64",))


def _type(size: int, family: str, system: str, architecture: str) -> InstanceType:
    memory = f"{size * FAMILIES[family]}Gi"
    said = {"cpu": str(size), "memory": memory, "pods": str(min(size * 16, 1024)), "ephemeral-storage": "20Gi"}
    capacity = amounts(said)
    price = by_size(capacity, 0.025, 0.001)
    sales = [Sale(zone, kind, price * share) for zone in ZONES for kind, share in SHARES.items()]
    about = {"size": str(size), "family": family, "cpu": str(size), "memory": quantities(capacity)["memory"]}
    labels = {f"{GROUP}/instance-{key}": value for key, value in about.items()}
    name = f"{family}-{size}x-{architecture}-{system}"
    return instance_type(name, capacity, sales, architecture=architecture, systems=(system,), labels=labels)
