"""Catalogues by name, and catalogue files in KWOK's format. Pure.

A file is a JSON list of `name`, `architecture`, `operatingSystems`, `resources` and `offerings`; each offering has a
`Price` and, in `Requirements`, the zone and the capacity type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from shoal.fit.resources import amounts
from shoal.kinds.karpenter import CAPACITY_TYPE, ZONE
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.simulator.cloud import cloud
from shoal.provision.simulator.fake import assorted, default
from shoal.provision.simulator.kwok import GROUP, kwok, kwok36, kwok_below_32
from shoal.provision.simulator.making import Sale, instance_type

Object = dict[str, Any]

CATALOGUES: dict[str, Callable[[], list[InstanceType]]] = {
    "kwok": kwok,
    "kwok36": kwok36,
    "kwok<32": kwok_below_32,
    "cloud": cloud,
    "test": default,
    "assorted": assorted,
}
_MOST_PODS = "110"
_delimiter = re.compile(r"[.-]")


def read(text: bytes | str) -> list[InstanceType]:
    """Raises ValueError naming what the file lacks."""
    found = orjson.loads(text)
    if not isinstance(found, list):
        raise ValueError("a catalogue is a list of instance types")
    return [_type(each) for each in found]


def _type(said: Object) -> InstanceType:
    try:
        name, resources = str(said["name"]), {"pods": _MOST_PODS, **said["resources"]}
        sales = [_sale(each) for each in said["offerings"] if each.get("Available", True)]
        labels = {f"{GROUP}/instance-{key}": value for key, value in _about(name, resources).items()}
        systems = said.get("operatingSystems") or ("linux",)
        architecture = said.get("architecture") or "amd64"
    except (KeyError, TypeError) as error:
        raise ValueError(f"instance type {said.get('name')!r} of the catalogue lacks {error}") from error
    return instance_type(name, amounts(resources), sales, architecture=architecture, systems=systems, labels=labels)


def _about(name: str, resources: Object) -> dict[str, str]:
    """Family and size come from the name, as in `m5.large`; otherwise the size is the cpu."""
    family, *rest = _delimiter.split(name, maxsplit=1)
    size = name.partition(".")[2] or resources["cpu"]
    return {
        "family": family if rest else name[:1],
        "size": size,
        "cpu": resources["cpu"],
        "memory": resources["memory"],
    }


def _sale(said: Object) -> Sale:
    values = {each["key"]: each["values"][0] for each in said["Requirements"]}
    return Sale(values[ZONE], values[CAPACITY_TYPE], float(said["Price"]))
