"""Creates the disruption controllers."""

from __future__ import annotations

from typing import Any

from shoal.clock import Clock
from shoal.provision.cloudprovider.types import CloudProvider
from shoal.provision.disruption.change_detector import ChangeDetector
from shoal.provision.disruption.controller import DisruptionReconciler
from shoal.provision.disruption.events import DisruptionRecorder
from shoal.provision.disruption.model import DisruptionSettings
from shoal.provision.disruption.nodeclaim_conditions import NodeClaimConditionReconciler
from shoal.provision.disruption.queue import CommandExecutor
from shoal.provision.disruption.snapshot import Provisioner, SnapshotBuilder
from shoal.provision.management import ManagementResolver
from shoal.provision.settings import ProvisionerSettings as All
from shoal.provision.solver.process import SolverProcess
from shoal.provision.state import ClusterState
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder


def new_disruption_controllers(
    resolver: ManagementResolver,
    state: ClusterState,
    provider: CloudProvider,
    provisioner: Provisioner,
    recorder: EventRecorder,
    clock: Clock,
    solver: SolverProcess,
    settings: All,
) -> list[Controller[Any]]:
    conditions = NodeClaimConditionReconciler(resolver, state, provider, clock)
    disruption = DisruptionReconciler(
        state,
        SnapshotBuilder(state, conditions, provisioner),
        ChangeDetector(state, provider),
        CommandExecutor(resolver, state, recorder, clock, provisioner.nominate),
        DisruptionRecorder(recorder),
        solver,
        clock,
        DisruptionSettings(settings.planner, settings.spot_to_spot_consolidation),
        settings.validation_seconds,
    )
    return [conditions.controller, disruption.controller, disruption.evaluation_controller]
