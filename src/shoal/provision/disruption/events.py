"""Events and metrics of disruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE
from shoal.provision import metrics
from shoal.provision.disruption.budgets import budgets_by_reason, nodes_consuming_budgets
from shoal.provision.disruption.candidates import candidates, consolidation_eligibility, is_drifted
from shoal.provision.disruption.model import (
    DRIFTED,
    UNDERUTILIZED,
    Command,
    DisruptionDecision,
    DisruptionSnapshot,
    NodeNote,
)
from shoal.provision.events import NODE_CLAIM_EVENTS, NODE_EVENTS
from shoal.runtime.event_recorder import NORMAL, EventRecorder

Object = dict[str, Any]

MAX_EVENTS = 100
"""Maximum nodes with an Event after one evaluation."""


class DisruptionRecorder:
    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._last_messages: dict[str, dict[tuple[str, str], str]] = {}
        """By cluster: last message by node and Event reason."""

    def record_eligible(self, cluster: str, snapshot: DisruptionSnapshot) -> tuple[bool, tuple[NodeNote, ...]]:
        """Returns whether there are candidates, and the notes of the blocked nodes."""
        drifted = sum(is_drifted(each) for each in candidates(snapshot, eventual=True)[0])
        current, notes = candidates(snapshot)
        movable = sum(consolidation_eligibility(each)[0] for each in current)
        for reason, count in ((DRIFTED, drifted), (UNDERUTILIZED, movable)):
            metrics.ELIGIBLE_NODES.set(cluster, count, reason=reason.lower())
        consuming = nodes_consuming_budgets(snapshot)
        for reason, by_pool in budgets_by_reason(snapshot).items():
            for pool, number in by_pool.items():
                metrics.NODEPOOLS_CONSUMING_BUDGETS.set(cluster, consuming[pool], nodepool=pool, reason=reason)
                metrics.NODEPOOLS_ALLOWED_DISRUPTIONS.set(cluster, number, nodepool=pool, reason=reason)
        return bool(drifted or movable), tuple(notes)

    def record_evaluation(self, cluster: str, decision: DisruptionDecision, seconds: float) -> None:
        """One observation for all methods: an evaluation without a command counts as consolidation."""
        reason = decision.command.reason if decision.command is not None else UNDERUTILIZED
        method = decision.command.method if decision.command is not None else ""
        metrics.EVALUATION_SECONDS.observe(cluster, seconds, reason=reason.lower(), consolidation_type=method)
        if decision.timed_out:
            metrics.CONSOLIDATION_TIMEOUTS.inc(cluster, consolidation_type=method)

    def record_notes(self, cluster: str, snapshot: DisruptionSnapshot, notes: Sequence[NodeNote]) -> None:
        """Records each note once until its message changes."""
        previous, current = (
            self._last_messages.get(cluster, {}),
            {(note.node, note.reason): note.message for note in notes},
        )
        self._last_messages[cluster] = current
        by_name = {each.name: each for each in snapshot.nodes}
        fresh = [note for note in notes if previous.get((note.node, note.reason)) != note.message]
        for note in fresh[:MAX_EVENTS]:
            each = by_name[note.node]
            self._recorder.record(NODE_EVENTS, cluster, each.node, NORMAL, note.reason, note.message)
            self._recorder.record(NODE_CLAIM_EVENTS, cluster, each.claim, NORMAL, note.reason, note.message)

    def record_candidate(self, cluster: str, command: Command) -> None:
        self._record_all(cluster, command, "ConsolidationCandidate", command_summary(command))

    def record_rejection(self, cluster: str, command: Command, reason: str) -> None:
        metrics.FAILED_VALIDATIONS.inc(cluster, len(command.candidates), consolidation_type=command.method)
        self._record_all(cluster, command, "ConsolidationRejected", f"{command_summary(command)}, rejected: {reason}")

    def record_decision(self, cluster: str, command: Command) -> None:
        metrics.DECISIONS.inc(cluster, 1.0, **_labels(command))
        for each in command.candidates:
            metrics.NODECLAIMS_DISRUPTED.inc(
                cluster,
                reason=command.reason.lower(),
                nodepool=each.pool.name,
                capacity_type=each.state_node.labels.get(CAPACITY_TYPE, ""),
            )
        for claim in command.replacements:
            relaxed = "true" if claim.min_values_relaxed else "false"
            metrics.NODECLAIMS_CREATED.inc(
                cluster, reason=command.reason.lower(), nodepool=claim.pool, min_values_relaxed=relaxed
            )

    def record_failure(self, cluster: str, command: Command) -> None:
        metrics.QUEUE_FAILURES.inc(cluster, len(command.replacements), **_labels(command))

    def _record_all(self, cluster: str, command: Command, reason: str, message: str) -> None:
        for each in command.candidates[:MAX_EVENTS]:
            self._recorder.record(NODE_CLAIM_EVENTS, cluster, each.state_node.claim, NORMAL, reason, message)


def command_summary(command: Command) -> str:
    names = ", ".join(each.name for each in command.candidates[:5])
    more = f" and {len(command.candidates) - 5} other(s)" if len(command.candidates) > 5 else ""
    count = len(command.replacements)
    replacements = f" -> [{count} replacement{'' if count == 1 else 's'}]" if count else ""
    savings = f"saves {command.savings:.4g} per hour"
    return f"{command.reason}/{command.method}: {command.decision}: [{names}{more}]{replacements} ({savings})"


def _labels(command: Command) -> dict[str, str]:
    return {"decision": command.decision, "reason": command.reason.lower(), "consolidation_type": command.method}
