"""Events and metrics of disruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.karpenter import CAPACITY_TYPE
from shoal.provision import metrics
from shoal.provision.disruption.budgets import budgets
from shoal.provision.disruption.candidates import candidates, is_drifted, may_be_consolidated
from shoal.provision.disruption.model import DRIFTED, UNDERUTILIZED, Command, Decision, Note, Snapshot
from shoal.provision.telling import ABOUT_CLAIMS, ABOUT_NODES
from shoal.runtime.recorder import NORMAL, Recorder

Object = dict[str, Any]

MOST_NOTES = 100
"""Maximum nodes with an Event after one evaluation."""


class Telling:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[str, dict[tuple[str, str], str]] = {}
        """By cluster: last message by node and Event reason."""

    def eligible(self, cluster: str, snapshot: Snapshot) -> tuple[bool, tuple[Note, ...]]:
        """Returns whether there are candidates, and the notes of the blocked nodes."""
        drifted = sum(is_drifted(each) for each in candidates(snapshot, eventual=True)[0])
        found, notes = candidates(snapshot)
        movable = sum(may_be_consolidated(each)[0] for each in found)
        for reason, count in ((DRIFTED, drifted), (UNDERUTILIZED, movable)):
            metrics.ELIGIBLE_NODES.set(cluster, count, reason=reason.lower())
        for reason, by_pool in budgets(snapshot).items():
            for pool, number in by_pool.items():
                metrics.NODEPOOLS_ALLOWED_DISRUPTIONS.set(cluster, number, nodepool=pool, reason=reason)
        return bool(drifted or movable), tuple(notes)

    def evaluated(self, cluster: str, found: Decision, seconds: float) -> None:
        """One observation for all methods: an evaluation without a command counts as consolidation."""
        reason = found.command.reason if found.command is not None else UNDERUTILIZED
        method = found.command.method if found.command is not None else ""
        metrics.EVALUATION_SECONDS.observe(cluster, seconds, reason=reason.lower(), consolidation_type=method)

    def notes(self, cluster: str, snapshot: Snapshot, notes: Sequence[Note]) -> None:
        """Records each note once until its message changes."""
        before, now = self._told.get(cluster, {}), {(note.node, note.reason): note.message for note in notes}
        self._told[cluster] = now
        by_name = {each.name: each for each in snapshot.nodes}
        fresh = [note for note in notes if before.get((note.node, note.reason)) != note.message]
        for note in fresh[:MOST_NOTES]:
            each = by_name[note.node]
            self._recorder.record(ABOUT_NODES, cluster, each.node, NORMAL, note.reason, note.message)
            self._recorder.record(ABOUT_CLAIMS, cluster, each.claim, NORMAL, note.reason, note.message)

    def considered(self, cluster: str, command: Command) -> None:
        self._all(cluster, command, "ConsolidationCandidate", said(command))

    def rejected(self, cluster: str, command: Command, why: str) -> None:
        metrics.FAILED_VALIDATIONS.inc(cluster, len(command.candidates), consolidation_type=command.method)
        self._all(cluster, command, "ConsolidationRejected", f"{said(command)}, rejected: {why}")

    def decided(self, cluster: str, command: Command) -> None:
        metrics.DECISIONS.inc(cluster, 1.0, **_labels(command))
        for each in command.candidates:
            metrics.NODECLAIMS_DISRUPTED.inc(
                cluster,
                reason=command.reason.lower(),
                nodepool=each.pool.name,
                capacity_type=each.standing.labels.get(CAPACITY_TYPE, ""),
            )
        for claim in command.replacements:
            relaxed = "true" if claim.min_values_relaxed else "false"
            metrics.NODECLAIMS_CREATED.inc(
                cluster, reason=command.reason.lower(), nodepool=claim.pool, min_values_relaxed=relaxed
            )

    def failed(self, cluster: str, command: Command) -> None:
        metrics.QUEUE_FAILURES.inc(cluster, len(command.replacements), **_labels(command))

    def _all(self, cluster: str, command: Command, reason: str, message: str) -> None:
        for each in command.candidates[:MOST_NOTES]:
            self._recorder.record(ABOUT_CLAIMS, cluster, each.standing.claim, NORMAL, reason, message)


def said(command: Command) -> str:
    names = ", ".join(each.name for each in command.candidates[:5])
    more = f" and {len(command.candidates) - 5} other(s)" if len(command.candidates) > 5 else ""
    count = len(command.replacements)
    into = f" -> [{count} replacement{'' if count == 1 else 's'}]" if count else ""
    saved = f"saves {command.savings:.4g} an hour"
    return f"{command.reason}/{command.method}: {command.decision}: [{names}{more}]{into} ({saved})"


def _labels(command: Command) -> dict[str, str]:
    return {"decision": command.decision, "reason": command.reason.lower(), "consolidation_type": command.method}
