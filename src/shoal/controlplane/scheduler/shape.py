"""What matters of a pod when a node is looked for. Pods of one Deployment are alike: they share one Shape. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import orjson

from shoal.fit.affinity import highest_preference
from shoal.fit.ports import HostPort, host_ports
from shoal.fit.resources import CPU, MEMORY, Resources, pod_requests

Object = dict[str, Any]

LEAST_CPU, LEAST_MEMORY = 100, 200 * 1024 * 1024
"""What a pod that asks for none is taken to use when nodes are compared, so that such pods spread too."""

_PLACE = ("nodeSelector", "affinity", "tolerations", "overhead", "resources")
_CONTAINER = ("resources", "ports", "restartPolicy")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Two pods of equal shape have the same Shape."""

    spec: Object
    """Of one of the pods; only what the shape is about may be read from it."""
    requests: Resources
    ports: frozenset[HostPort]
    cpu: int
    memory: int
    wish: int
    """The weights of all preferred node affinity terms together."""

    @property
    def tolerations(self) -> list[Object]:
        return self.spec.get("tolerations") or []


class Shapes:
    """Those in use."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()

    def of(self, pod: Object) -> Shape:
        spec = pod["spec"]
        sign = _sign(spec)
        shape = self._known.get(sign)
        if shape is None:
            shape = self._known[sign] = _shape({field: spec[field] for field in _PLACE if field in spec}, pod)
        return shape


def _shape(spec: Object, pod: Object) -> Shape:
    requests = pod_requests(pod)
    cpu, memory = requests.get(CPU) or LEAST_CPU, requests.get(MEMORY) or LEAST_MEMORY
    return Shape(spec, requests, host_ports(pod), cpu, memory, highest_preference(spec))


def _sign(spec: Object) -> bytes:
    containers = [
        [[container.get(field) for field in _CONTAINER] for container in spec.get(kind) or ()]
        for kind in ("containers", "initContainers")
    ]
    return orjson.dumps([[spec.get(field) for field in _PLACE], containers], option=orjson.OPT_SORT_KEYS)
