"""Instance types of Karpenter's fake provider for tests and benchmarks, by upstream's formulas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.fit.requirements import DOES_NOT_EXIST, new_requirement
from shoal.fit.resources import CPU, MEMORY, Resources, parse_amounts
from shoal.kinds.karpenter.karpenter import ON_DEMAND, SPOT
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulator.instance_type import OfferingSpec, instance_type, price_by_size

SIZE, SPECIAL, INTEGER = "size", "special", "integer"
"""Labels of the fake provider."""
VENDOR_A, VENDOR_B = "fake.com/vendor-a", "fake.com/vendor-b"
ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
ALL_SYSTEMS = ("linux", "windows", "darwin")


def fake_type(
    name: str,
    resources: Mapping[str, str] | None = None,
    offering_specs: Iterable[OfferingSpec] = (),
    *,
    architecture: str = "amd64",
    systems: Iterable[str] = ALL_SYSTEMS,
    labels: Mapping[str, str] | None = None,
) -> InstanceType:
    """4 vCPU, 4Gi and five pods unless `resources` overrides them; offered in all zones unless `offering_specs` are
    given.
    """
    capacity = parse_amounts({"cpu": "4", "memory": "4Gi", "pods": "5", **(resources or {})})
    large = capacity[CPU] > 4000 and capacity[MEMORY] > 8 * 2**30
    own_labels = {SIZE: "large" if large else "small", INTEGER: str(-(-capacity[CPU] // 1000))}
    own_labels |= {SPECIAL: "optional"} if large else {}
    # The label is known to the provider, so its absence is stated explicitly.
    absent = [] if large else [new_requirement(SPECIAL, DOES_NOT_EXIST)]
    return instance_type(
        name,
        capacity,
        tuple(offering_specs) or _default_offerings(fake_price(capacity)),
        architecture=architecture,
        systems=systems,
        labels={**own_labels, **(labels or {})},
        extra_requirements=absent,
    )


def fake_price(capacity: Resources) -> float:
    return price_by_size(capacity, 0.1, 0.1) + sum(1.0 for name in (VENDOR_A, VENDOR_B) if capacity.get(name))


def _default_offerings(price: float) -> list[OfferingSpec]:
    places = [(zone, SPOT) for zone in ZONES[:2]] + [(zone, ON_DEMAND) for zone in ZONES]
    return [OfferingSpec(zone, kind, price) for zone, kind in places]


def fake_types() -> list[InstanceType]:
    """The six types that most tests use."""
    large = {"cpu": "16", "memory": "128Gi"}
    return [
        fake_type("default-instance-type"),
        fake_type("small-instance-type", {"cpu": "2", "memory": "2Gi"}),
        fake_type("gpu-vendor-instance-type", {VENDOR_A: "2"}),
        fake_type("gpu-vendor-b-instance-type", {VENDOR_B: "2"}),
        fake_type("arm-instance-type", large, architecture="arm64", systems=("ios", *ALL_SYSTEMS)),
        fake_type("single-pod-instance-type", {"pods": "1"}),
    ]


def increasing_fake_types(count: int) -> list[InstanceType]:
    """As in the scheduling benchmark: each type is one vCPU, 2 GiB and ten pods larger than the previous one."""
    return [
        fake_type(f"fake-it-{size - 1}", {"cpu": str(size), "memory": f"{2 * size}Gi", "pods": str(10 * size)})
        for size in range(1, count + 1)
    ]


def assorted_fake_types() -> list[InstanceType]:
    """1344 types with one offering each: every size in every zone, system, architecture and capacity type."""
    return [
        _assorted_type(cpu, memory, architecture, system, zone, kind)
        for cpu in (1, 2, 4, 8, 16, 32, 64)
        for memory in (1, 2, 4, 8, 16, 32, 64, 128)
        for zone in ZONES
        for kind in (SPOT, ON_DEMAND)
        for system in ("linux", "windows")
        for architecture in ("amd64", "arm64")
    ]


def _assorted_type(cpu: int, memory: int, architecture: str, system: str, zone: str, kind: str) -> InstanceType:
    resources = {"cpu": str(cpu), "memory": f"{memory}Gi"}
    name = f"{cpu}-cpu-{memory}-mem-{architecture}-{system}-{zone}-{kind}"
    sale = OfferingSpec(zone, kind, fake_price(parse_amounts(resources)))
    return fake_type(name, resources, [sale], architecture=architecture, systems=(system,))
