"""A catalogue with the price ratios of a public cloud, in own round numbers. Pure.

Memory costs extra, a large machine costs no less per vCPU than a small one, a small one loses a larger share to the
system, and spot prices differ by zone.
"""

from __future__ import annotations

from shoal.fit.resources import CPU, Resources, add, parse_amounts
from shoal.kinds.karpenter.karpenter import ON_DEMAND, SPOT
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulator.instance_type import OfferingSpec, instance_type

ZONES = ("cloud-a", "cloud-b", "cloud-c")
FAMILIES = {"compute": (2, 0.0425), "general": (4, 0.048), "memory": (8, 0.063)}
"""GiB per vCPU, and hourly price per vCPU."""
SIZES = {2: 29, 4: 58, 8: 58, 16: 234, 32: 234, 48: 234, 64: 737, 96: 737}
"""vCPU, and maximum pods by network addresses."""
SPOT_SHARES = (0.31, 0.36, 0.42)
"""Spot price as a share of the on-demand price, by zone."""
_CPU_STEPS = ((1, 60.0), (1, 10.0), (2, 5.0))
"""Number of vCPU, and the thousandths that each reserves for the system; further vCPU reserve the minimum."""
_MIN_CPU_SHARE = 2.5


def public_cloud_types() -> list[InstanceType]:
    return [
        _instance_type(family, ratio, per_cpu, size, pods)
        for family, (ratio, per_cpu) in FAMILIES.items()
        for size, pods in SIZES.items()
    ]


def _instance_type(family: str, ratio: int, per_cpu: float, size: int, pods: int) -> InstanceType:
    resources = {"cpu": str(size), "memory": f"{size * ratio}Gi", "pods": str(pods), "ephemeral-storage": "20Gi"}
    price = per_cpu * size
    specs = [OfferingSpec(zone, ON_DEMAND, price) for zone in ZONES]
    specs += [OfferingSpec(zone, SPOT, round(price * share, 6)) for zone, share in zip(ZONES, SPOT_SHARES, strict=True)]
    return instance_type(
        f"{family}-{size}",
        parse_amounts(resources),
        specs,
        labels={"family": family},
        overhead=_system_reserved(size, pods),
    )


def _system_reserved(cpus: int, pods: int) -> Resources:
    remaining, thousandths = cpus, 0.0
    for cpus_in_step, share in _CPU_STEPS:
        counted = min(remaining, cpus_in_step)
        thousandths, remaining = thousandths + counted * share, remaining - counted
    return add({CPU: int(thousandths + remaining * _MIN_CPU_SHARE)}, parse_amounts({"memory": f"{355 + 11 * pods}Mi"}))
