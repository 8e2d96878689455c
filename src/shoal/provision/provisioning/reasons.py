"""Why a pod gets no node, in words: as specific as one look at the pool and its types can be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.fit.resources import fits, quantities
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import WELL_KNOWN, template_spec
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.provisioning.packing import Option, wish
from shoal.provision.provisioning.pods import Shape

Object = dict[str, Any]


def why_not(
    shape: Shape,
    name: str,
    pool: Object,
    types: Sequence[InstanceType],
    options: Sequence[Option],
    limits: Mapping[str, int],
) -> str:
    return f'incompatible with nodepool "{name}", {_reason(shape, name, pool, types, options, limits)}'


def _reason(
    shape: Shape,
    name: str,
    pool: Object,
    types: Sequence[InstanceType],
    options: Sequence[Option],
    limits: Mapping[str, int],
) -> str:
    if shape.problem:
        return shape.problem
    taint = untolerated(template_spec(pool).get("taints") or (), shape.tolerations)
    if taint is not None:
        return f"did not tolerate taint {taint_text(taint)}"
    if not types:
        return "it has no instance types"
    if not options:
        return "no instance type that can be had satisfies its requirements"
    suiting = [option for option in options if wish(shape, option.requirements, option.taints) is not None]
    if not suiting:
        return _conflict(shape, options)
    asked = ", ".join(f"{key}={value}" for key, value in sorted(quantities(shape.requests).items()))
    if not any(fits(shape.requests, option.space) for option in suiting):
        return f"no instance type has enough resources for {asked}"
    if limits:
        return f'all available instance types exceed limits for nodepool: "{name}"'
    return f"no instance type with room left has {asked}"


def _conflict(shape: Shape, options: Sequence[Option]) -> str:
    for option in options:
        taint = untolerated(option.taints, shape.tolerations)
        if taint is not None:
            return f"did not tolerate taint {taint_text(taint)}"
    offered = options[0].requirements
    said = [sentence for wanted in shape.alternatives[:1] for sentence in offered.conflicts(wanted, WELL_KNOWN)]
    return f"incompatible requirements, {'; '.join(said)}" if said else "incompatible requirements"


def taint_text(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
