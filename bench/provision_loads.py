"""What is asked for nodes: the mixes of Karpenter's own benchmarks, made here by their formulas.

`generic` and `diverse` are those of its scheduling benchmark, `basic` and `wide` of its performance suite. For the
cost all are asked for by size alone; `diverse` has its topology constraints.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulation.model import NodePoolInput, SchedulingInput

Object = dict[str, Any]
Shape = tuple[str, str]
"""cpu and memory."""

SEED = 42
CPUS = ("100m", "250m", "500m", "1000m", "1500m")
MEMORIES = ("100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi")
LETTERS = "abcdefg"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"

_WIDE_CPUS = (
    *("240m", "450m", "650m", "900m", "1400m", "1900m", "2400m", "2800m", "3300m", "3700m"),
    *("2300m", "900m", "1300m", "2800m", "1800m", "1850m", "3300m", "3800m", "225m", "450m"),
    *("700m", "900m", "1300m", "1800m", "2400m", "2800m", "3400m", "3800m", "3300m", "2800m"),
)
_WIDE_MEMORIES = (
    *("300Mi", "400Mi", "700Mi", "1Gi", "2Gi", "4Gi", "8Gi", "4Gi", "16Gi", "10Gi"),
    *("64Gi", "30Gi", "32Gi", "32Gi", "30Gi", "20Gi", "30Gi", "300Mi", "500Mi", "750Mi"),
    *("1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "32Gi", "28Gi", "64Gi", "13Gi", "24Gi"),
)


def generic(count: int) -> list[Shape]:
    dice = random.Random(SEED)
    return [(dice.choice(CPUS), dice.choice(MEMORIES)) for _ in range(count)]


def basic(count: int) -> list[Shape]:
    return [("900m", "3100Mi") if number % 2 else ("3500m", "28Gi") for number in range(count)]


def wide(count: int) -> list[Shape]:
    """Of a thousand, 35 each of the first twenty shapes and 30 each of the others; of fewer, in proportion."""
    shapes = list(zip(_WIDE_CPUS, _WIDE_MEMORIES, strict=True))
    thousand = [shape for number, shape in enumerate(shapes) for _ in range(35 if number < 20 else 30)]
    return [thousand[number * len(thousand) // count] for number in range(count)]


MIXES: dict[str, Callable[[int], list[Shape]]] = {"generic": generic, "basic": basic, "wide": wide}


def pods(shapes: Sequence[Shape]) -> list[Object]:
    return [_pod(number, cpu, memory) for number, (cpu, memory) in enumerate(shapes)]


def diverse(count: int) -> list[Object]:
    """Fifths: nothing special; spread by zone; spread by host; near their like by zone; apart by host."""
    dice = random.Random(SEED)
    size = count // 5
    kinds = [kind for kind in ("zone", "host", "near", "apart") for _ in range(size)]
    kinds = [*("generic" for _ in range(count - len(kinds))), *kinds]
    found = []
    for number, kind in enumerate(kinds):
        labels = {"my-label": dice.choice(LETTERS)}
        spec: Object = {}
        if kind in ("zone", "host"):
            spec["topologySpreadConstraints"] = [_spread(ZONE if kind == "zone" else HOST, dice.choice(LETTERS))]
        elif kind == "near":
            labels = {"my-affinity": dice.choice(LETTERS)}
            spec["affinity"] = {"podAffinity": _required(labels, ZONE)}
        elif kind == "apart":
            labels = {"app": "nginx"}
            spec["affinity"] = {"podAntiAffinity": _required(labels, HOST)}
        found.append(_pod(number, dice.choice(CPUS), dice.choice(MEMORIES), labels, spec))
    return found


def question(
    asked: Sequence[Object], types: Sequence[InstanceType], requirements: Sequence[Object] = ()
) -> SchedulingInput:
    """One NodePool that may buy as much as it likes."""
    reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
    template = {"spec": {"requirements": list(requirements), "nodeClassRef": reference}}
    pool = {"metadata": {"name": "default", "uid": "pool"}, "spec": {"template": template}}
    limits = parse_amounts({"cpu": "10000000", "memory": "10000000Gi"})
    return SchedulingInput(tuple(asked), node_pools=(NodePoolInput(pool, types, {"nodes": 0}, limits),))


def on_demand_in_one_zone(types: Sequence[InstanceType]) -> list[Object]:
    zone = min(offering.labels[ZONE] for kind in types for offering in kind.offerings)
    wanted = {CAPACITY_TYPE: "on-demand", ZONE: zone}
    return [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]


def _pod(
    number: int, cpu: str, memory: str, labels: dict[str, str] | None = None, spec: Object | None = None
) -> Object:
    container = {
        "name": "main",
        "image": "example.com/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    metadata = {
        "name": f"p{number:06}",
        "namespace": "default",
        "uid": f"u{number:06}",
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "spec": {"containers": [container], **(spec or {})}, "status": {"phase": "Pending"}}


def _spread(key: str, letter: str) -> Object:
    selector = {"matchLabels": {"my-label": letter}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _required(labels: dict[str, str], key: str) -> Object:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
