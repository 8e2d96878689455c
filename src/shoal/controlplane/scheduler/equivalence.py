"""Equivalence classes: the scheduling-relevant fields of a pod. Pods of one Deployment share one class. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import orjson

from shoal.fit.affinity import max_preferred_weight, required_node_names
from shoal.fit.podaffinity import AffinityTerms, PeerPod, affinity_terms
from shoal.fit.ports import HostPort, host_ports
from shoal.fit.resources import CPU, MEMORY, Resources, pod_requests

Object = dict[str, Any]

DEFAULT_CPU, DEFAULT_MEMORY = 100, 200 * 1024 * 1024
"""Assumed usage of a pod without requests when nodes are compared, so that such pods spread too."""

_SPEC_FIELDS = ("nodeSelector", "affinity", "topologySpreadConstraints", "tolerations", "overhead", "resources")
_CONTAINER_FIELDS = ("resources", "ports", "restartPolicy")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class EquivalenceClass:
    """Two equivalent pods share one instance."""

    spec: Object
    """Spec of one of the pods; only the fields of the class may be read."""
    requests: Resources
    ports: frozenset[HostPort]
    nonzero_cpu: int
    nonzero_memory: int
    max_affinity_weight: int
    """Sum of the weights of all preferred node affinity terms."""
    has_pod_constraints: bool
    """It has pod affinity, anti-affinity or topology spread constraints."""
    claims: tuple[tuple[str, bool], ...]
    """Names of its PersistentVolumeClaims, and whether each is an ephemeral volume of the pod."""
    never_preempts: bool
    """Its preemption policy is Never."""
    node_names: frozenset[str] | None
    """Names of the only nodes it may run on; None without a restriction by name."""

    @property
    def has_spread_constraints(self) -> bool:
        return bool(self.spec.get("topologySpreadConstraints"))

    @property
    def tolerations(self) -> list[Object]:
        return self.spec.get("tolerations") or []


class EquivalenceClasses:
    """Interned classes and peers in use."""

    def __init__(self) -> None:
        self._classes: WeakValueDictionary[bytes, EquivalenceClass] = WeakValueDictionary()
        self._peers: WeakValueDictionary[tuple[str, bytes, bytes, bool], PeerPod] = WeakValueDictionary()
        self._terms: WeakValueDictionary[tuple[str, bytes], AffinityTerms] = WeakValueDictionary()

    def classify(self, pod: Object) -> EquivalenceClass:
        spec = pod["spec"]
        claims = tuple(_claims(pod)) if "volumes" in spec else ()
        signature = _signature(spec, claims)
        equivalence = self._classes.get(signature)
        if equivalence is None:
            placement_spec = {field: spec[field] for field in _SPEC_FIELDS if field in spec}
            equivalence = self._classes[signature] = _new_class(placement_spec, pod, claims)
        return equivalence

    def peer(self, pod: Object) -> PeerPod:
        """Returns the pod as other pods' constraints see it."""
        metadata, affinity = pod["metadata"], pod["spec"].get("affinity")
        namespace, labels = metadata.get("namespace", ""), metadata.get("labels") or {}
        is_terminating = "deletionTimestamp" in metadata
        affinity_signature = _pod_affinity_signature(affinity) if affinity else b""
        signature = (namespace, orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), affinity_signature, is_terminating)
        peer = self._peers.get(signature)
        if peer is None:
            pod_terms = self._terms_of(pod["spec"], namespace, affinity_signature) if affinity_signature else None
            peer = self._peers[signature] = PeerPod(namespace, labels, pod_terms, is_terminating)
        return peer

    def _terms_of(self, spec: Object, namespace: str, affinity_signature: bytes) -> AffinityTerms | None:
        pod_terms = self._terms.get((namespace, affinity_signature)) or affinity_terms(spec, namespace)
        if pod_terms is not None:
            self._terms[namespace, affinity_signature] = pod_terms
        return pod_terms


def _new_class(spec: Object, pod: Object, claims: tuple[tuple[str, bool], ...]) -> EquivalenceClass:
    requests = pod_requests(pod)
    cpu, memory = requests.get(CPU) or DEFAULT_CPU, requests.get(MEMORY) or DEFAULT_MEMORY
    has_pod_constraints = bool(spec.get("topologySpreadConstraints")) or bool(
        _pod_affinity_signature(spec.get("affinity") or {})
    )
    never_preempts = pod["spec"].get("preemptionPolicy") == "Never"
    max_weight, node_names = max_preferred_weight(spec), required_node_names(spec)
    return EquivalenceClass(
        spec,
        requests,
        host_ports(pod),
        cpu,
        memory,
        max_weight,
        has_pod_constraints,
        claims,
        never_preempts,
        node_names,
    )


def _signature(spec: Object, claims: tuple[tuple[str, bool], ...]) -> bytes:
    containers = [
        [[container.get(field) for field in _CONTAINER_FIELDS] for container in spec.get(kind) or ()]
        for kind in ("containers", "initContainers")
    ]
    placement_fields = [spec.get(field) for field in _SPEC_FIELDS]
    never_preempts = spec.get("preemptionPolicy") == "Never"
    return orjson.dumps([placement_fields, containers, claims, never_preempts], option=orjson.OPT_SORT_KEYS)


def _pod_affinity_signature(affinity: Object) -> bytes:
    pod_affinity, pod_anti_affinity = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
    return (
        orjson.dumps([pod_affinity, pod_anti_affinity], option=orjson.OPT_SORT_KEYS)
        if pod_affinity or pod_anti_affinity
        else b""
    )


def _claims(pod: Object) -> Iterator[tuple[str, bool]]:
    for volume in pod["spec"]["volumes"] or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"].get("claimName", ""), False
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}", True
