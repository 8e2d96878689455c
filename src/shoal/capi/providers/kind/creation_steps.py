"""The steps of `kind create cluster` as conditions of a KINDCluster, read from the lines that kind prints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.capi.conditions import FALSE, TRUE, UNKNOWN, Condition, conditions_of
from shoal.kinds.clusterapi.kindcluster import CONTROL_PLANE, node_roles

Object = dict[str, Any]

IN_PROGRESS, DONE, FAILED = "InProgress", "Done", "Failed"
"""States of a step, and reasons of its condition."""
PENDING = "Pending"
_MARKS = {"•": IN_PROGRESS, "✓": DONE, "✗": FAILED}


class CreationStep(NamedTuple):
    condition: str
    words: str
    """With which kind announces it."""


LOAD_BALANCER = CreationStep("LoadBalancerConfigured", "Configuring the external load balancer")
CNI = CreationStep("CNIInstalled", "Installing CNI")
CONTROL_PLANES = CreationStep("ControlPlanesJoined", "Joining more control-plane nodes")
WORKERS = CreationStep("WorkersJoined", "Joining worker nodes")
STEPS = (
    CreationStep("NodeImagePresent", "Ensuring node image"),
    CreationStep("NodesPrepared", "Preparing nodes"),
    LOAD_BALANCER,
    CreationStep("ConfigurationWritten", "Writing configuration"),
    CreationStep("ControlPlaneStarted", "Starting control-plane"),
    CNI,
    CreationStep("StorageClassInstalled", "Installing StorageClass"),
    CONTROL_PLANES,
    WORKERS,
)
STEP_CONDITIONS = frozenset(step.condition for step in STEPS)


def step_of_line(line: str) -> tuple[str, str] | None:
    """Returns the condition type and the state of the step that a line of kind tells of."""
    state, words = _MARKS.get(line[:1]), line[1:].lstrip()
    if state is None:
        return None
    return next(((step.condition, state) for step in STEPS if words.startswith(step.words)), None)


def expected_steps(obj: Mapping[str, Any]) -> list[CreationStep]:
    """Returns the steps of the kind cluster that the spec describes."""
    spec, skipped = obj["spec"], set()
    roles = node_roles(spec)
    networking = spec.get("networking") or (spec.get("config") or {}).get("networking")
    if roles[CONTROL_PLANE] < 2:
        skipped |= {LOAD_BALANCER, CONTROL_PLANES}
    if roles.total() == roles[CONTROL_PLANE]:
        skipped.add(WORKERS)
    if isinstance(networking, dict) and networking.get("disableDefaultCNI"):
        skipped.add(CNI)
    return [step for step in STEPS if step not in skipped]


def step_conditions(obj: Mapping[str, Any], states: Mapping[str, str]) -> list[Condition]:
    return [_condition(step, states.get(step.condition, PENDING)) for step in expected_steps(obj)]


def completed_conditions(obj: Mapping[str, Any]) -> list[Condition]:
    """Of a cluster that kind has created, whatever it printed."""
    return [_condition(step, DONE) for step in expected_steps(obj)]


def _condition(step: CreationStep, state: str) -> Condition:
    status = {DONE: TRUE, IN_PROGRESS: FALSE, FAILED: FALSE}.get(state, UNKNOWN)
    return Condition(step.condition, status, state, step.words if status == FALSE else "")


def progress_text(obj: Mapping[str, Any]) -> str:
    """Returns how many steps of the creation are done, and the one that is under way or has failed."""
    conditions = conditions_of(obj)
    steps = [conditions[step.condition] for step in STEPS if step.condition in conditions]
    current = next((step.message for step in steps if step.status == FALSE), "")
    return f"{sum(step.status == TRUE for step in steps)}/{len(steps)} {current}".rstrip()
