"""Shoal's own CustomResourceDefinitions in `crds/`, one file each, named after the CRD.

`crds/root` is served by root (the fleet and its clusters). `crds/cluster` is served by every logical cluster of profile
`cluster` besides the built-in kinds (node provisioning).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from shoal.kinds.apiextensions.customresourcedefinition import default_crd, establish

Object = dict[str, Any]

CRD_SETS = ("root", "cluster")


def crd_manifests(crd_set: str) -> list[str]:
    """Returns the YAML texts as they are written, for `shoal crds`."""
    directory = files("shoal.kinds").joinpath("crds", crd_set)
    paths = [path for path in directory.iterdir() if path.name.endswith(".yaml")]
    return [path.read_text() for path in sorted(paths, key=lambda path: path.name)]


@lru_cache
def shoal_crds(crd_set: str) -> tuple[Object, ...]:
    """Returns the CRDs with Established set, as the server serves them."""
    return tuple(_load_crd(text) for text in crd_manifests(crd_set))


def _load_crd(text: str) -> Object:
    crd: Object = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    crd["metadata"]["generation"] = 1
    default_crd(crd)
    establish(crd, (), (), "1970-01-01T00:00:00Z")
    return crd
