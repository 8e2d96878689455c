"""`shoal explain worker`: its conditions, and where each of its ManagedClusters could go."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.asking import AskingError, ask
from shoal.cli.printing import table, tell
from shoal.client.requests import Client
from shoal.objects.errors import NotFound

if TYPE_CHECKING:
    from shoal.assemble.explain import WorkerExplanation

KINDS = ("worker", "workers", "wk")
SHOWN = 50


def explain(name: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    async def question(client: Client) -> WorkerExplanation:
        from shoal.assemble.explain import explain_a_worker  # noqa: PLC0415  loads more slowly than help may take

        return await explain_a_worker(client, name)

    try:
        found = ask(kubeconfig, data_dir, question)
    except NotFound as error:
        raise AskingError(str(error), "shoal status shows those there are") from None
    tell(asdict(found), text(found), output)


def text(found: WorkerExplanation) -> list[str]:
    number = len(found.hosted)
    lines = [f"worker {found.worker} has {number} ManagedCluster{'s' if number != 1 else ''}"]
    lines += [f"  {type_} {status} ({reason}): {message}" for type_, status, reason, message in found.said]
    if found.hosted:
        head = ["MANAGEDCLUSTER", "PHASE", "MOVES TO", "COULD GO TO", "IF THE WORKER IS LOST"]
        rows = [
            [each.name, each.phase, each.moving or "-", each.elsewhere or each.why, each.if_lost]
            for each in found.hosted[:SHOWN]
        ]
        lines += ["", *table([head, *rows])]
        if number > SHOWN:
            lines.append(f"  and {number - SHOWN} more (-o json shows all)")
    return lines
