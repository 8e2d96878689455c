"""Prepares a scheduler run: groups pods with equal constraints and orders existing nodes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson

from shoal.fit.requirements import Requirement
from shoal.kinds.karpenter import HOSTNAME
from shoal.provision.simulation.asking import ALIASES, Asking, asking
from shoal.provision.simulation.bins import Spot
from shoal.provision.simulation.model import Place, Question
from shoal.provision.simulation.states import Existing, State, existing
from shoal.provision.simulation.topology import Topology, host_name

Object = dict[str, Any]

_ASKED = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("overhead", "resources", "resourceClaims"),
)


def askings(question: Question, keys: Collection[str]) -> dict[str, Asking]:
    """Returns PodData by pod uid. `keys`: pod labels that any selector uses."""
    known: dict[tuple[bytes, str, tuple[frozenset[Requirement], ...]], Asking] = {}
    found = {}
    for pod in question.pods:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key in keys}
        volumes, problem = question.volumes.get(uid, ()), question.problems.get(uid, "")
        name = (_name(pod, labels), problem, tuple(frozenset(each.values()) for each in volumes))
        asked = known.get(name)
        if asked is None:
            asked = known[name] = asking(pod, labels, volumes, question.preferences, problem)
        found[uid] = asked
    return found


def in_order(places: Iterable[Place]) -> list[Place]:
    """Initialized nodes first, then by name."""
    return sorted(places, key=lambda place: (not place.initialized, place.name))


class Spots:
    """Existing nodes in the order in which they are tried."""

    def __init__(self, places: Sequence[Place], askings: Iterable[Asking], topology: Topology) -> None:
        keys = frozenset(key for each in {id(each): each for each in askings}.values() for key in _keys(each))
        keys |= {group.key for group in topology.inverse}
        known: dict[Any, Existing] = {}
        self.all: list[Spot] = []
        self.by_state: dict[State, int] = {}
        """Bit set of the nodes in each state. A node with negative free resources accepts nothing and is left out."""
        self.by_name: dict[str, Spot] = {}
        self.settling = 0
        for number, place in enumerate(places):
            state = existing(place.labels, place.taints, keys - {HOSTNAME}, known).state
            spot = Spot(number, place, host_name(place), state)
            self.all.append(spot)
            if all(amount >= 0 for amount in place.free.values()):
                self.by_state[state] = self.by_state.get(state, 0) | spot.bit
            if place.settling:
                self.settling |= spot.bit
            for name in (place.name, place.claim):
                if name:
                    self.by_name[name] = spot


def _name(pod: Object, labels: Mapping[str, str]) -> bytes:
    """Pods with equal signatures have equal constraints."""
    spec = pod.get("spec") or {}
    asked: Object = {name: spec[name] for name in _ASKED if name in spec}
    for field in ("containers", "initContainers"):
        asked[field] = [
            (each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in spec.get(field) or ()
        ]
    asked["labels"] = labels
    asked["namespace"] = pod["metadata"].get("namespace")
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)


def _keys(asked: Asking) -> Iterable[str]:
    """Node labels that the pod's constraints refer to."""
    wishes = asked.wishes
    yield from (ALIASES.get(key, key) for key in asked.selector)
    terms = [*wishes.terms, *(each.get("preference") or {} for each in wishes.liked)]
    for term in terms:
        for each in term.get("matchExpressions") or ():
            yield ALIASES.get(each.get("key", ""), each.get("key", ""))
    for requirements in asked.volumes:
        yield from requirements
    peers = [*asked.together, *asked.apart]
    peers += [each.get("podAffinityTerm") or {} for each in (*wishes.near, *wishes.far)]
    yield from (each.get("topologyKey", "") for each in (*peers, *wishes.spreads))
