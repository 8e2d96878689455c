"""Catalogues by name, and catalogue files in KWOK's format. Pure.

A file is a JSON list of `name`, `architecture`, `operatingSystems`, `resources` and `offerings`; each offering has a
`Price` and, in `Requirements`, the zone and the capacity type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from shoal.fit.resources import CPU, Resources, add, parse_amounts, to_quantities
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulator.fake import assorted_fake_types, fake_types
from shoal.provision.simulator.instance_type import OfferingSpec, instance_type, price_by_size

Object = dict[str, Any]

GROUP = "karpenter.kwok.sh"
ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
FAMILIES = {"c": 2, "s": 4, "m": 8}
"""GiB per vCPU."""
PRICE_SHARES = {SPOT: 0.7, ON_DEMAND: 1.0}
"""Price share by capacity type."""

CLOUD_ZONES = ("cloud-a", "cloud-b", "cloud-c")
CLOUD_FAMILIES = {"compute": (2, 0.0425), "general": (4, 0.048), "memory": (8, 0.063)}
"""GiB per vCPU, and hourly price per vCPU."""
CLOUD_SIZES = {2: 29, 4: 58, 8: 58, 16: 234, 32: 234, 48: 234, 64: 737, 96: 737}
"""vCPU, and maximum pods by network addresses."""
CLOUD_SPOT_SHARES = (0.31, 0.36, 0.42)
"""Spot price as a share of the on-demand price, by zone."""
_CPU_STEPS = ((1, 60.0), (1, 10.0), (2, 5.0))
"""Number of vCPU, and the thousandths that each reserves for the system; further vCPU reserve the minimum."""
_MIN_CPU_SHARE = 2.5


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


def public_cloud_types() -> list[InstanceType]:
    """Types with the price ratios of a public cloud, in own round numbers. Memory costs extra, a large machine costs no
    less per vCPU than a small one, a small one loses a larger share to the system, and spot prices differ by zone.
    """
    return [
        _cloud_instance_type(family, ratio, per_cpu, size, pods)
        for family, (ratio, per_cpu) in CLOUD_FAMILIES.items()
        for size, pods in CLOUD_SIZES.items()
    ]


def _cloud_instance_type(family: str, ratio: int, per_cpu: float, size: int, pods: int) -> InstanceType:
    resources = {"cpu": str(size), "memory": f"{size * ratio}Gi", "pods": str(pods), "ephemeral-storage": "20Gi"}
    price = per_cpu * size
    specs = [OfferingSpec(zone, ON_DEMAND, price) for zone in CLOUD_ZONES]
    specs += [
        OfferingSpec(zone, SPOT, round(price * share, 6))
        for zone, share in zip(CLOUD_ZONES, CLOUD_SPOT_SHARES, strict=True)
    ]
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


CATALOGUES: dict[str, Callable[[], list[InstanceType]]] = {
    "kwok": kwok_types,
    "kwok36": kwok_linux_amd64_types,
    "kwok<32": kwok_small_types,
    "cloud": public_cloud_types,
    "test": fake_types,
    "assorted": assorted_fake_types,
}
_DEFAULT_MAX_PODS = "110"
_split_at_delimiter = re.compile(r"[.-]").split


def parse_catalogue(text: bytes | str) -> list[InstanceType]:
    """Raises ValueError naming what the file lacks."""
    entries = orjson.loads(text)
    if not isinstance(entries, list):
        raise ValueError("a catalogue must be a list of instance types")
    return [_parse_type(each) for each in entries]


def _parse_type(entry: Object) -> InstanceType:
    try:
        name, resources = str(entry["name"]), {"pods": _DEFAULT_MAX_PODS, **entry["resources"]}
        specs = [_parse_offering(each) for each in entry["offerings"] if each.get("Available", True)]
        labels = {f"{GROUP}/instance-{key}": value for key, value in _label_values(name, resources).items()}
        systems = entry.get("operatingSystems") or ("linux",)
        architecture = entry.get("architecture") or "amd64"
    except (KeyError, TypeError) as error:
        raise ValueError(f"instance type {entry.get('name')!r} of the catalogue lacks {error}") from error
    return instance_type(
        name, parse_amounts(resources), specs, architecture=architecture, systems=systems, labels=labels
    )


def _label_values(name: str, resources: Object) -> dict[str, str]:
    """Family and size come from the name, as in `m5.large`; otherwise the size is the cpu."""
    family, *rest = _split_at_delimiter(name, maxsplit=1)
    size = name.partition(".")[2] or resources["cpu"]
    return {
        "family": family if rest else name[:1],
        "size": size,
        "cpu": resources["cpu"],
        "memory": resources["memory"],
    }


def _parse_offering(entry: Object) -> OfferingSpec:
    values = {each["key"]: each["values"][0] for each in entry["Requirements"]}
    return OfferingSpec(values[ZONE], values[CAPACITY_TYPE], float(entry["Price"]))
