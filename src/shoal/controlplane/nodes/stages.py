"""Stages of simulated nodes and pods, read from `stages.yaml`: match, delay and next state.

Invalid data (an unknown field or phase) raises an error when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, Generic, TypeVar

import yaml

Object = dict[str, Any]
N = TypeVar("N")

FACTS = {
    "pods": (
        *("phase", "deleting", "grace", "containers", "simulate", "restartPolicy", "owner"),
        *("command", "probed", "limited", "traps", "initializing"),
    ),
    "nodes": ("simulate", "ready"),
}
MOMENTS = ("created", "scheduled", "accepted", "started", "ended", "asked", "deadline")
SAYINGS = ("", "command", "trap", "readiness", "activeDeadlineSeconds")
PHASES = ("Pending", "Running", "Succeeded", "Failed")
STATES = ("waiting", "running", "terminated")
KEPT = 1024
"""Cached sets of matching stages: more than occur in practice."""


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float = 0.0
    jitter: float = 0.0
    since: str = "created"
    annotation: str = ""
    """Annotation by which the object may set the delay, such as 30s."""
    of: str = ""
    """The part of the pod that determines the delay."""
    doubling: bool = False
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class PodNext:
    delete: bool = False
    phase: str = ""
    containers: str = ""
    initialized: bool = True
    init: str = ""
    """State of the running init container while the pod is not initialized."""
    ready: bool = False
    exitCode: int = 0  # noqa: N815 - as the data has it
    reason: str = ""
    message: str = ""
    podReason: str = ""  # noqa: N815
    podMessage: str = ""  # noqa: N815


@dataclass(frozen=True, slots=True)
class Stage(Generic[N]):
    name: str
    match: tuple[tuple[str, frozenset[str]], ...]
    delay: Delay | None
    next: N

    def matches(self, facts: Mapping[str, str]) -> bool:
        return all(facts[fact] in wanted for fact, wanted in self.match)


@dataclass(frozen=True, slots=True)
class Stages:
    pods: tuple[Stage[PodNext | None], ...]
    """A next state of None leaves the pod unchanged."""
    nodes: tuple[Stage[Mapping[str, Object]], ...]
    """The next state holds unhealthy conditions by type."""
    missing: frozenset[str]
    """Image tags that cannot be pulled."""
    capacity: Mapping[str, str]
    conditions: tuple[Object, ...]
    node_info: Mapping[str, str]
    _of_pods: dict[tuple[str, ...], tuple[Stage[PodNext | None], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of_pod(self, facts: Mapping[str, str]) -> tuple[Stage[PodNext | None], ...]:
        """Returns the matching pod stages. Cached, because most pods are alike."""
        key = tuple(facts.values())
        found = self._of_pods.get(key)
        if found is None:
            if len(self._of_pods) >= KEPT:
                self._of_pods.clear()
            found = self._of_pods[key] = tuple(stage for stage in self.pods if stage.matches(facts))
        return found

    def alternatives(self, kind: str) -> frozenset[str]:
        """Returns the valid values of the simulate annotation; others are ignored."""
        stages: tuple[Stage[Any], ...] = self.pods if kind == "pods" else self.nodes
        return frozenset(v for stage in stages for fact, values in stage.match if fact == "simulate" for v in values)


@lru_cache(maxsize=1)
def default_stages() -> Stages:
    return read_stages(files("shoal.controlplane.nodes").joinpath("stages.yaml").read_text())


def read_stages(text: str) -> Stages:
    data: Object = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    node = data["node"]
    return Stages(
        pods=tuple(_stage(each, "pods", _pod_next(each.get("next") or {})) for each in data["pods"]),
        nodes=tuple(_stage(each, "nodes", dict(each.get("next") or {})) for each in data["nodes"]),
        missing=frozenset(data.get("missing") or ()),
        capacity=node["capacity"],
        conditions=tuple(node["conditions"]),
        node_info=node["nodeInfo"],
    )


def _stage(data: Object, kind: str, following: N) -> Stage[N]:
    _known(f"stage {data.get('name')}", data, ("name", "match", "delay", "next"))
    match = data.get("match") or {}
    _known(f"match of stage {data['name']}", match, FACTS[kind])
    delay = Delay(**data["delay"]) if data.get("delay") else None
    if delay is not None:
        _known(f"delay of stage {data['name']}", {delay.since: None}, MOMENTS)
        _known(f"delay of stage {data['name']}", {delay.of: None}, SAYINGS)
    return Stage(data["name"], tuple((fact, frozenset(values)) for fact, values in match.items()), delay, following)


def _pod_next(data: Object) -> PodNext | None:
    if not data:
        return None
    following = PodNext(**data)
    if not following.delete:
        _known("phase", {following.phase: None}, PHASES)
        _known("state of containers", {following.containers: None}, STATES)
        _known("state of the init container", {following.init: None}, ("", *STATES))
    return following


def _known(what: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)} is none of {', '.join(known)}")
