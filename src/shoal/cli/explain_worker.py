"""`shoal explain worker`: its conditions, and where each of its ManagedClusters could go."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.options.hub import CommandError, call_hub
from shoal.cli.printers import format_table, print_output
from shoal.client.rest import Client
from shoal.objects.errors import NotFound

if TYPE_CHECKING:
    from shoal.assemble.commands.explain import WorkerExplanation

WORKER_NAMES = ("worker", "workers", "wk")
MAX_ROWS = 50


def explain(name: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    async def request(client: Client) -> WorkerExplanation:
        from shoal.assemble.commands.explain import explain_worker_by_name  # noqa: PLC0415  loads more slowly than help may take

        return await explain_worker_by_name(client, name)

    try:
        found = call_hub(kubeconfig, data_dir, request)
    except NotFound as error:
        raise CommandError(str(error), "shoal status shows those there are") from None
    print_output(asdict(found), worker_lines(found), output)


def worker_lines(explanation: WorkerExplanation) -> list[str]:
    number = len(explanation.hosted)
    lines = [f"worker {explanation.worker} has {number} ManagedCluster{'s' if number != 1 else ''}"]
    lines += [f"  {type_} {status} ({reason}): {message}" for type_, status, reason, message in explanation.said]
    if explanation.hosted:
        head = ["MANAGEDCLUSTER", "PHASE", "MOVES TO", "COULD GO TO", "IF THE WORKER IS LOST"]
        rows = [
            [each.name, each.phase, each.moving or "-", each.elsewhere or each.why, each.if_lost]
            for each in explanation.hosted[:MAX_ROWS]
        ]
        lines += ["", *format_table([head, *rows])]
        if number > MAX_ROWS:
            lines.append(f"  and {number - MAX_ROWS} more (-o json shows all)")
    return lines
