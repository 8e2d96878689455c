"""`shoal explain`: why a ManagedCluster or a workload is where it is, or why it waits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.cli.printers import format_table, output_option, print_output
from shoal.client.rest import Client
from shoal.client.restmapper import NoKindMatchError
from shoal.objects.errors import NotFound, StatusError

if TYPE_CHECKING:
    from shoal.assemble.commands.explain import WorkerExplanation

WORKER_NAMES = ("worker", "workers", "wk")
MAX_WORKER_ROWS = 50


def explain(name: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    async def request(client: Client) -> WorkerExplanation:
        from shoal.assemble.commands.explain import explain_worker_by_name  # noqa: PLC0415  loads more slowly than help may take

        return await explain_worker_by_name(client, name)

    try:
        found = call_hub(kubeconfig, data_dir, request)
    except NotFound as error:
        raise CommandError(str(error), "shoal status lists them") from None
    print_output(asdict(found), worker_lines(found), output)


def worker_lines(explanation: WorkerExplanation) -> list[str]:
    number = len(explanation.hosted)
    lines = [f"worker {explanation.worker} has {number} ManagedCluster{'s' if number != 1 else ''}"]
    lines += [f"  {type_} {status} ({reason}): {message}" for type_, status, reason, message in explanation.said]
    if explanation.hosted:
        head = ["MANAGEDCLUSTER", "PHASE", "MOVES TO", "COULD GO TO", "IF THE WORKER IS LOST"]
        rows = [
            [each.name, each.phase, each.moving or "-", each.elsewhere or each.why, each.if_lost]
            for each in explanation.hosted[:MAX_WORKER_ROWS]
        ]
        lines += ["", *format_table([head, *rows])]
        if number > MAX_WORKER_ROWS:
            lines.append(f"  and {number - MAX_WORKER_ROWS} more (-o json shows all)")
    return lines


if TYPE_CHECKING:
    from shoal.assemble.commands.explain import ManagedClusterExplanation, WorkerFit
    from shoal.assemble.commands.plan import PlacementExplanation as Placed

MANAGED_CLUSTER_NAMES = ("managedcluster", "managedclusters", "mc")
MAX_ROWS = 20
"""Printed workers and changes; the JSON output has all of them."""


@click.command(name="explain")
@click.argument("kind", metavar="managedcluster|worker|deployment|KIND")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@output_option()
@hub_options
def command(kind: str, name: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Explains the placement of an object. For a ManagedCluster: why it is on its Worker, or why it is pending and
    which single change would allow it to be hosted. For a Worker: the progress of its drain, and where each of its
    ManagedClusters could move. For a Deployment or another placed object: why it is in its clusters, and what would
    place it in others."""
    if kind.lower() in WORKER_NAMES:
        explain(name, output, kubeconfig, data_dir)
        return
    if kind.lower() not in MANAGED_CLUSTER_NAMES:
        explain_placed_object(kind, name, namespace, output, kubeconfig, data_dir)
        return

    async def request(client: Client) -> ManagedClusterExplanation:
        # The scheduler loads more slowly than help may take.
        from shoal.assemble.commands.explain import explain_managed_cluster  # noqa: PLC0415

        return await explain_managed_cluster(client, namespace, name)

    try:
        found = call_hub(kubeconfig, data_dir, request)
    except NotFound as error:
        raise CommandError(str(error), "shoal status lists them") from None
    print_output(asdict(found), explanation_lines(f"{namespace}/{name}", found), output)


def explain_placed_object(
    kind: str, name: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None
) -> None:
    async def request(client: Client) -> Placed:
        from shoal.assemble.commands.plan import explain_object  # noqa: PLC0415

        return await explain_object(client, kind, namespace, name)

    try:
        found = call_hub(kubeconfig, data_dir, request)
    except NoKindMatchError as error:
        raise CommandError(str(error), error.hint) from None
    except NotFound as error:
        raise CommandError(str(error), "-n selects another namespace; shoal status shows the fleet") from None
    except StatusError as error:
        raise CommandError(str(error)) from None
    full_name = f"{found.namespace}/{name}" if found.namespace else name
    print_output(asdict(found), placed_object_lines(f"{found.kind} {full_name}", found), output)


def placed_object_lines(title: str, explanation: Placed) -> list[str]:
    kind = "Placement" if explanation.namespace else "ClusterPlacement"
    by = f"divided by {kind} {explanation.placement}" if explanation.placement else "divided evenly (no Placement)"
    rows = [[one.cluster, str(one.now), str(one.then), one.why, one.change] for one in explanation.verdicts]
    return [
        f"{title}, {explanation.total} replicas, {by}",
        *(f"{kind} {other} also selects it, with lower precedence" for other in explanation.superseded),
        "",
        *format_table([["CLUSTER", "NOW", "THEN", "WHY", "WHAT WOULD HELP"], *rows]),
        *(["", f"{explanation.unplaced} replicas are unplaced"] if explanation.unplaced else []),
    ]


def explanation_lines(title: str, explanation: ManagedClusterExplanation) -> list[str]:
    lines = [_summary_line(title, explanation)]
    if explanation.verdicts:
        lines += [
            "",
            *format_table([_header(), *(_row(each, explanation) for each in explanation.verdicts[:MAX_ROWS])]),
        ]
        lines += _more_line(len(explanation.verdicts), "worker")
    if explanation.changes:
        lines += ["", "any one of these changes would allow it to be hosted:"]
        lines += [f"  {change}" for change in explanation.changes[:MAX_ROWS]]
        lines += _more_line(len(explanation.changes), "change")
    elif not explanation.best:
        lines += ["", "no single change would allow it to be hosted"]
    return lines


def _summary_line(title: str, explanation: ManagedClusterExplanation) -> str:
    if explanation.worker:
        now = (
            f"the scheduler would now choose {explanation.best}"
            if explanation.best
            else f"it would now be pending: {explanation.message}"
        )
        again = "the scheduler would choose it again" if explanation.best == explanation.worker else now
        return f"{title} is on worker {explanation.worker}; {again}"
    if explanation.best:
        return f"{title} is about to be assigned to worker {explanation.best}"
    return f"{title} is pending ({explanation.reason}): {explanation.message}"


def _header() -> list[str]:
    return ["", "WORKER", "POINTS", "WHY"]


def _row(verdict: WorkerFit, explanation: ManagedClusterExplanation) -> list[str]:
    mark = "*" if verdict.worker == explanation.worker else ">" if verdict.worker == explanation.best else ""
    if verdict.fits:
        reasons = ", ".join(f"{name} {points}" for name, points in verdict.scores.items() if points)
        return [mark, verdict.worker, str(verdict.total), reasons]
    return [mark, verdict.worker, "-", "; ".join(reasons for reasons in verdict.refused.values() if reasons)]


def _more_line(number: int, what: str) -> list[str]:
    left = number - MAX_ROWS
    return [f"  and {left} more {what}{'s' if left > 1 else ''} (-o json shows all)"] if left > 0 else []
