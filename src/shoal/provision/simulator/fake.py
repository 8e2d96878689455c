"""Instance types of Karpenter's fake provider for tests and benchmarks, by upstream's formulas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.fit.requirements import DOES_NOT_EXIST, requirement
from shoal.fit.resources import CPU, MEMORY, Resources, amounts
from shoal.kinds.karpenter import ON_DEMAND, SPOT
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.simulator.making import Sale, by_size, instance_type

SIZE, SPECIAL, INTEGER = "size", "special", "integer"
"""Labels of the fake provider."""
VENDOR_A, VENDOR_B = "fake.com/vendor-a", "fake.com/vendor-b"
ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
EVERY_SYSTEM = ("linux", "windows", "darwin")


def fake_type(
    name: str,
    said: Mapping[str, str] | None = None,
    sales: Iterable[Sale] = (),
    *,
    architecture: str = "amd64",
    systems: Iterable[str] = EVERY_SYSTEM,
    labels: Mapping[str, str] | None = None,
) -> InstanceType:
    """4 vCPU, 4Gi and five pods unless `resources` overrides them; offered in all zones unless `offering_specs` are
    given.
    """
    capacity = amounts({"cpu": "4", "memory": "4Gi", "pods": "5", **(said or {})})
    large = capacity[CPU] > 4000 and capacity[MEMORY] > 8 * 2**30
    about = {SIZE: "large" if large else "small", INTEGER: str(-(-capacity[CPU] // 1000))}
    about |= {SPECIAL: "optional"} if large else {}
    # The label is known to the provider, so its absence is stated explicitly.
    absent = [] if large else [requirement(SPECIAL, DOES_NOT_EXIST)]
    return instance_type(
        name,
        capacity,
        tuple(sales) or _everywhere(fake_price(capacity)),
        architecture=architecture,
        systems=systems,
        labels={**about, **(labels or {})},
        more=absent,
    )


def fake_price(capacity: Resources) -> float:
    return by_size(capacity, 0.1, 0.1) + sum(1.0 for name in (VENDOR_A, VENDOR_B) if capacity.get(name))


def _everywhere(price: float) -> list[Sale]:
    places = [(zone, SPOT) for zone in ZONES[:2]] + [(zone, ON_DEMAND) for zone in ZONES]
    return [Sale(zone, kind, price) for zone, kind in places]


def default() -> list[InstanceType]:
    """The six types that most tests use."""
    large = {"cpu": "16", "memory": "128Gi"}
    return [
        fake_type("default-instance-type"),
        fake_type("small-instance-type", {"cpu": "2", "memory": "2Gi"}),
        fake_type("gpu-vendor-instance-type", {VENDOR_A: "2"}),
        fake_type("gpu-vendor-b-instance-type", {VENDOR_B: "2"}),
        fake_type("arm-instance-type", large, architecture="arm64", systems=("ios", *EVERY_SYSTEM)),
        fake_type("single-pod-instance-type", {"pods": "1"}),
    ]


def increasing(count: int) -> list[InstanceType]:
    """As in the scheduling benchmark: each type is one vCPU, 2 GiB and ten pods larger than the previous one."""
    return [
        fake_type(f"fake-it-{size - 1}", {"cpu": str(size), "memory": f"{2 * size}Gi", "pods": str(10 * size)})
        for size in range(1, count + 1)
    ]


def assorted() -> list[InstanceType]:
    """1344 types with one offering each: every size in every zone, system, architecture and capacity type."""
    return [
        _assorted(cpu, memory, architecture, system, zone, kind)
        for cpu in (1, 2, 4, 8, 16, 32, 64)
        for memory in (1, 2, 4, 8, 16, 32, 64, 128)
        for zone in ZONES
        for kind in (SPOT, ON_DEMAND)
        for system in ("linux", "windows")
        for architecture in ("amd64", "arm64")
    ]


def _assorted(cpu: int, memory: int, architecture: str, system: str, zone: str, kind: str) -> InstanceType:
    said = {"cpu": str(cpu), "memory": f"{memory}Gi"}
    name = f"{cpu}-cpu-{memory}-mem-{architecture}-{system}-{zone}-{kind}"
    sale = Sale(zone, kind, fake_price(amounts(said)))
    return fake_type(name, said, [sale], architecture=architecture, systems=(system,))
