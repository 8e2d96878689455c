"""`shoal explain`: why a ManagedCluster or a workload is where it is, or why it waits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli import explain_worker
from shoal.cli.asking import AskingError, ask, hub_options
from shoal.cli.printing import output_option, table, tell
from shoal.client.requests import Client
from shoal.objects.errors import NotFound, StatusError

if TYPE_CHECKING:
    from shoal.assemble.explain import Explanation, Verdict
    from shoal.assemble.plan import Explanation as Placed

KINDS = ("managedcluster", "managedclusters", "mc")
DEPLOYMENT = "Deployment"
SHOWN = 20
"""Printed workers and changes; the JSON output has all of them."""


@click.command(name="explain")
@click.argument("kind", metavar="managedcluster|worker|deployment|KIND")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@output_option()
@hub_options
def command(kind: str, name: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Why a ManagedCluster is on its Worker, or why it waits and what single change would let it be hosted. Of a
    Worker: how far its drain is, and where each of its ManagedClusters could go. Of a Deployment, or whatever else is
    placed: why it is in its clusters, and what would bring it to others."""
    if kind.lower() in explain_worker.KINDS:
        explain_worker.explain(name, output, kubeconfig, data_dir)
        return
    if kind.lower() not in KINDS:
        placed(kind, name, namespace, output, kubeconfig, data_dir)
        return

    async def question(client: Client) -> Explanation:
        # The scheduler loads more slowly than help may take.
        from shoal.assemble.explain import explain_managed_cluster  # noqa: PLC0415

        return await explain_managed_cluster(client, namespace, name)

    try:
        found = ask(kubeconfig, data_dir, question)
    except NotFound as error:
        raise AskingError(str(error), "shoal status shows those there are") from None
    tell(asdict(found), text(f"{namespace}/{name}", found), output)


def placed(kind: str, name: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    title = DEPLOYMENT if kind.lower() in ("deployment", "deployments", "deploy") else kind

    async def question(client: Client) -> Placed:
        from shoal.assemble.plan import explain_object  # noqa: PLC0415

        return await explain_object(client, title, namespace, name)

    try:
        found = ask(kubeconfig, data_dir, question)
    except StatusError as error:
        raise AskingError(str(error), "kinds are written as in manifests, such as Deployment") from None
    tell(asdict(found), placed_text(f"{title} {namespace}/{name}", found), output)


def placed_text(title: str, found: Placed) -> list[str]:
    by = f"Placement {found.placement}" if found.placement else "no Placement: evenly"
    rows = [[one.cluster, str(one.now), str(one.then), one.why, one.change] for one in found.verdicts]
    return [
        f"{title}, {found.total} replicas, by {by}",
        *(f"Placement {other} selects it too, and comes after" for other in found.superseded),
        "",
        *table([["CLUSTER", "NOW", "THEN", "WHY", "WHAT WOULD HELP"], *rows]),
        *(["", f"{found.unplaced} replicas have no place"] if found.unplaced else []),
    ]


def text(title: str, found: Explanation) -> list[str]:
    lines = [_summary(title, found)]
    if found.verdicts:
        lines += ["", *table([_columns(), *(_row(each, found) for each in found.verdicts[:SHOWN])])]
        lines += _more(len(found.verdicts), "worker")
    if found.changes:
        lines += ["", "any one of these would let it be hosted:"]
        lines += [f"  {change}" for change in found.changes[:SHOWN]]
        lines += _more(len(found.changes), "change")
    elif not found.best:
        lines += ["", "no single change would let it be hosted"]
    return lines


def _summary(title: str, found: Explanation) -> str:
    if found.worker:
        now = f"{found.best} would be chosen now" if found.best else f"it would wait now: {found.message}"
        again = "and would be chosen again now" if found.best == found.worker else f"though {now}"
        return f"{title} is on worker {found.worker}, {again}"
    if found.best:
        return f"{title} is about to be given to worker {found.best}"
    return f"{title} waits ({found.reason}): {found.message}"


def _columns() -> list[str]:
    return ["", "WORKER", "POINTS", "WHY"]


def _row(verdict: Verdict, found: Explanation) -> list[str]:
    mark = "*" if verdict.worker == found.worker else ">" if verdict.worker == found.best else ""
    if verdict.fits:
        said = ", ".join(f"{name} {points}" for name, points in verdict.scores.items() if points)
        return [mark, verdict.worker, str(verdict.total), said]
    return [mark, verdict.worker, "-", "; ".join(said for said in verdict.refused.values() if said)]


def _more(number: int, what: str) -> list[str]:
    left = number - SHOWN
    return [f"  and {left} more {what}{'s' if left > 1 else ''} (-o json shows all)"] if left > 0 else []
