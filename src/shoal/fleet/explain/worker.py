"""Explains a Worker: its conditions, its ManagedClusters and where each could be migrated. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.migration.decide import MigrationObstacle, infrastructure_obstacle, restore_source_of
from shoal.fleet.migration.settings import parse_migration_settings
from shoal.fleet.scheduler.decide import select_worker
from shoal.fleet.scheduler.snapshot import take_snapshot
from shoal.kinds.fleet import infrav1, migration

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HostedClusterExplanation:
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
    hosted: list[HostedClusterExplanation]


def explain_worker(
    name: str, workers: Sequence[Object], managed: Sequence[Object], lease: Object | None, config: Object | None
) -> WorkerExplanation:
    """`managed` are all ManagedClusters. `config` is the ConfigMap of the migration settings."""
    worker = next(each for each in workers if each["metadata"]["name"] == name)
    others = [each for each in workers if each is not worker]
    conditions = infrav1.status_of(worker).get("conditions") or ()
    condition_rows = [(each["type"], each["status"], each["reason"], each.get("message") or "") for each in conditions]
    clusters = [each for each in managed if infrav1.assigned_worker(each) == name]
    explanations = [_explain_cluster(each, others, managed, lease, config) for each in clusters]
    return WorkerExplanation(name, condition_rows, sorted(explanations, key=lambda each: each.name))


def _explain_cluster(
    cluster: Object, others: Sequence[Object], managed: Sequence[Object], lease: Object | None, config: Object | None
) -> HostedClusterExplanation:
    fleet_snapshot = take_snapshot(others, [each for each in managed if each is not cluster])
    selected, fixed_obstacle = (
        select_worker(fleet_snapshot.scoring_context(cluster), fleet_snapshot.candidates_with_usage()),
        infrastructure_obstacle(cluster),
    )
    alternative, no_alternative_reason = (selected, "") if isinstance(selected, str) else ("", selected.message)
    if fixed_obstacle is not None:
        alternative, no_alternative_reason = "", fixed_obstacle.message
    metadata, phase = cluster["metadata"], str(infrav1.status_of(cluster).get("phase") or "")
    title = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return HostedClusterExplanation(
        title,
        phase,
        infrav1.migration_target(cluster),
        alternative,
        no_alternative_reason,
        _lost_outcome(cluster, lease, config),
    )


def _lost_outcome(managed: Object, lease: Object | None, config: Object | None) -> str:
    if not migration.migrates_on_worker_loss(managed):
        return "stays"
    migration_settings = parse_migration_settings(config)
    if migration_settings.settings_error:
        return f"stays: {migration_settings.settings_error}"
    restore_source = restore_source_of(managed, lease, migration_settings)
    return f"stays: {restore_source.message}" if isinstance(restore_source, MigrationObstacle) else "moves"
