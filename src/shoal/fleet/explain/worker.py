"""Explains a Worker: its conditions, its ManagedClusters and where each could be migrated. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.moving.decide import Obstacle, fixed, source
from shoal.fleet.moving.settings import settings
from shoal.fleet.scheduler.decide import choose
from shoal.fleet.scheduler.snapshot import snapshot
from shoal.kinds import fleet, moving

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hosted:
    """A ManagedCluster of the Worker."""

    name: str
    phase: str
    moving: str
    """Migration target; empty if it is not being migrated."""
    elsewhere: str
    """The Worker that would be selected if this one did not exist; empty if none would."""
    why: str
    """Why no other Worker would be selected."""
    if_lost: str
    """What happens to it when its Worker is lost."""


@dataclass(frozen=True, slots=True)
class WorkerExplanation:
    worker: str
    said: list[tuple[str, str, str, str]]
    """Conditions: type, status, reason, message."""
    hosted: list[Hosted]


def explain_worker(
    name: str, workers: Sequence[Object], managed: Sequence[Object], lease: Object | None, config: Object | None
) -> WorkerExplanation:
    """`managed` are all ManagedClusters. `config` is the ConfigMap of the migration settings."""
    worker = next(each for each in workers if each["metadata"]["name"] == name)
    others = [each for each in workers if each is not worker]
    conditions = fleet.status_of(worker).get("conditions") or ()
    said = [(each["type"], each["status"], each["reason"], each.get("message") or "") for each in conditions]
    mine = [each for each in managed if fleet.assigned_worker(each) == name]
    found = [_hosted(each, others, managed, lease, config) for each in mine]
    return WorkerExplanation(name, said, sorted(found, key=lambda each: each.name))


def _hosted(
    one: Object, others: Sequence[Object], managed: Sequence[Object], lease: Object | None, config: Object | None
) -> Hosted:
    there = snapshot(others, [each for each in managed if each is not one])
    chosen, obstacle = choose(there.view(one), there.workers()), fixed(one)
    way, why = (chosen, "") if isinstance(chosen, str) else ("", chosen.message)
    if obstacle is not None:
        way, why = "", obstacle.message
    metadata, phase = one["metadata"], str(fleet.status_of(one).get("phase") or "")
    title = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return Hosted(title, phase, fleet.moving_to(one), way, why, _if_lost(one, lease, config))


def _if_lost(managed: Object, lease: Object | None, config: Object | None) -> str:
    if not moving.moves_when_lost(managed):
        return "stays"
    limits = settings(config)
    if limits.wrong:
        return f"stays: {limits.wrong}"
    found = source(managed, lease, limits)
    return f"stays: {found.message}" if isinstance(found, Obstacle) else "moves"
