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
        *("command", "probed", "limited", "traps", "initializing", "sources"),
    ),
    "nodes": ("simulate", "ready"),
}
REFERENCE_TIMES = ("created", "scheduled", "accepted", "started", "ended", "asked", "deadline")
DELAY_SOURCES = ("", "command", "trap", "readiness", "activeDeadlineSeconds")
PHASES = ("Pending", "Running", "Succeeded", "Failed")
CONTAINER_STATES = ("waiting", "running", "terminated")
MAX_CACHED = 1024
"""Cached sets of matching stages: more than occur in practice."""


@dataclass(frozen=True, slots=True)
class StageDelay:
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
    delay: StageDelay | None
    next: N

    def matches(self, facts: Mapping[str, str]) -> bool:
        return all(facts[fact] in values for fact, values in self.match)


@dataclass(frozen=True, slots=True)
class Stages:
    pods: tuple[Stage[PodNext | None], ...]
    """A next state of None leaves the pod unchanged."""
    nodes: tuple[Stage[Mapping[str, Object]], ...]
    """The next state holds unhealthy conditions by type."""
    missing_image_tags: frozenset[str]
    """Image tags that cannot be pulled."""
    capacity: Mapping[str, str]
    conditions: tuple[Object, ...]
    node_info: Mapping[str, str]
    _matching_pod_stages: dict[tuple[str, ...], tuple[Stage[PodNext | None], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def matching_pod_stages(self, facts: Mapping[str, str]) -> tuple[Stage[PodNext | None], ...]:
        """Returns the matching pod stages. Cached, because most pods are alike."""
        key = tuple(facts.values())
        stages = self._matching_pod_stages.get(key)
        if stages is None:
            if len(self._matching_pod_stages) >= MAX_CACHED:
                self._matching_pod_stages.clear()
            stages = self._matching_pod_stages[key] = tuple(stage for stage in self.pods if stage.matches(facts))
        return stages

    def simulate_values(self, kind: str) -> frozenset[str]:
        """Returns the valid values of the simulate annotation; others are ignored."""
        stages: tuple[Stage[Any], ...] = self.pods if kind == "pods" else self.nodes
        return frozenset(v for stage in stages for fact, values in stage.match if fact == "simulate" for v in values)


@lru_cache(maxsize=1)
def default_stages() -> Stages:
    return read_stages(files("shoal.controlplane.kubelet").joinpath("stages.yaml").read_text())


def read_stages(text: str) -> Stages:
    data: Object = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    node = data["node"]
    return Stages(
        pods=tuple(_stage(each, "pods", _pod_next(each.get("next") or {})) for each in data["pods"]),
        nodes=tuple(_stage(each, "nodes", dict(each.get("next") or {})) for each in data["nodes"]),
        missing_image_tags=frozenset(data.get("missing") or ()),
        capacity=node["capacity"],
        conditions=tuple(node["conditions"]),
        node_info=node["nodeInfo"],
    )


def _stage(data: Object, kind: str, next_state: N) -> Stage[N]:
    _check_known(f"stage {data.get('name')}", data, ("name", "match", "delay", "next"))
    match = data.get("match") or {}
    _check_known(f"match of stage {data['name']}", match, FACTS[kind])
    delay = StageDelay(**data["delay"]) if data.get("delay") else None
    if delay is not None:
        _check_known(f"delay of stage {data['name']}", {delay.since: None}, REFERENCE_TIMES)
        _check_known(f"delay of stage {data['name']}", {delay.of: None}, DELAY_SOURCES)
    return Stage(data["name"], tuple((fact, frozenset(values)) for fact, values in match.items()), delay, next_state)


def _pod_next(data: Object) -> PodNext | None:
    if not data:
        return None
    next_state = PodNext(**data)
    if not next_state.delete:
        _check_known("phase", {next_state.phase: None}, PHASES)
        _check_known("state of containers", {next_state.containers: None}, CONTAINER_STATES)
        _check_known("state of the init container", {next_state.init: None}, ("", *CONTAINER_STATES))
    return next_state


def _check_known(subject: str, values: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(values) - set(allowed))
    if unknown:
        raise ValueError(f"{subject}: unknown {', '.join(unknown)}: must be one of {', '.join(allowed)}")
