"""Equivalence classes: the scheduling-relevant fields of a pod. Pods of one Deployment share one class. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import orjson

from shoal.fit.affinity import highest_preference, pinned
from shoal.fit.podaffinity import Peer, Terms, terms
from shoal.fit.ports import HostPort, host_ports
from shoal.fit.resources import CPU, MEMORY, Resources, pod_requests

Object = dict[str, Any]

LEAST_CPU, LEAST_MEMORY = 100, 200 * 1024 * 1024
"""Assumed usage of a pod without requests when nodes are compared, so that such pods spread too."""

_PLACE = ("nodeSelector", "affinity", "topologySpreadConstraints", "tolerations", "overhead", "resources")
_CONTAINER = ("resources", "ports", "restartPolicy")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Two equivalent pods share one instance."""

    spec: Object
    """Spec of one of the pods; only the fields of the class may be read."""
    requests: Resources
    ports: frozenset[HostPort]
    cpu: int
    memory: int
    wish: int
    """Sum of the weights of all preferred node affinity terms."""
    social: bool
    """It has pod affinity, anti-affinity or topology spread constraints."""
    claims: tuple[tuple[str, bool], ...]
    """Names of its PersistentVolumeClaims, and whether each is an ephemeral volume of the pod."""
    meek: bool
    """Its preemption policy is Never."""
    pinned: frozenset[str] | None
    """Names of the only nodes it may run on; None without a restriction by name."""

    @property
    def tolerations(self) -> list[Object]:
        return self.spec.get("tolerations") or []


class Shapes:
    """Interned classes and peers in use."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._peers: WeakValueDictionary[tuple[str, bytes, bytes, bool], Peer] = WeakValueDictionary()
        self._terms: WeakValueDictionary[tuple[str, bytes], Terms] = WeakValueDictionary()

    def of(self, pod: Object) -> Shape:
        spec = pod["spec"]
        claims = tuple(_claims(pod)) if "volumes" in spec else ()
        sign = _sign(spec, claims)
        shape = self._known.get(sign)
        if shape is None:
            place = {field: spec[field] for field in _PLACE if field in spec}
            shape = self._known[sign] = _shape(place, pod, claims)
        return shape

    def peer(self, pod: Object) -> Peer:
        """Returns the pod as other pods' constraints see it."""
        metadata, affinity = pod["metadata"], pod["spec"].get("affinity")
        namespace, labels = metadata.get("namespace", ""), metadata.get("labels") or {}
        leaving = "deletionTimestamp" in metadata
        asked = _social(affinity) if affinity else b""
        sign = (namespace, orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), asked, leaving)
        peer = self._peers.get(sign)
        if peer is None:
            own = self._terms_of(pod["spec"], namespace, asked) if asked else None
            peer = self._peers[sign] = Peer(namespace, labels, own, leaving)
        return peer

    def _terms_of(self, spec: Object, namespace: str, asked: bytes) -> Terms | None:
        found = self._terms.get((namespace, asked)) or terms(spec, namespace)
        if found is not None:
            self._terms[namespace, asked] = found
        return found


def _shape(spec: Object, pod: Object, claims: tuple[tuple[str, bool], ...]) -> Shape:
    requests = pod_requests(pod)
    cpu, memory = requests.get(CPU) or LEAST_CPU, requests.get(MEMORY) or LEAST_MEMORY
    social = bool(spec.get("topologySpreadConstraints")) or bool(_social(spec.get("affinity") or {}))
    meek = pod["spec"].get("preemptionPolicy") == "Never"
    wish, names = highest_preference(spec), pinned(spec)
    return Shape(spec, requests, host_ports(pod), cpu, memory, wish, social, claims, meek, names)


def _sign(spec: Object, claims: tuple[tuple[str, bool], ...]) -> bytes:
    containers = [
        [[container.get(field) for field in _CONTAINER] for container in spec.get(kind) or ()]
        for kind in ("containers", "initContainers")
    ]
    place = [spec.get(field) for field in _PLACE]
    meek = spec.get("preemptionPolicy") == "Never"
    return orjson.dumps([place, containers, claims, meek], option=orjson.OPT_SORT_KEYS)


def _social(affinity: Object) -> bytes:
    near, far = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
    return orjson.dumps([near, far], option=orjson.OPT_SORT_KEYS) if near or far else b""


def _claims(pod: Object) -> Iterator[tuple[str, bool]]:
    for volume in pod["spec"]["volumes"] or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"].get("claimName", ""), False
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}", True
