"""`shoal top`: the fleet on one screen, refreshed periodically."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.options.hub import call_hub, hub_options
from shoal.cli.printers import format_table, output_option, print_output
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.objects.errors import StatusError

if TYPE_CHECKING:
    from shoal.assemble.commands.top import FleetSummary

CURSOR_HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""Moves the cursor to the top left; clears the rest of the line; clears everything below."""


@click.command(name="top")
@click.option("--once", is_flag=True, help="Print everything once and exit.")
@click.option("--interval", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between polls.")
@output_option()
@hub_options
def command(once: bool, interval: float, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Shows workers, clusters, replicas, nodes, cost per hour and kind clusters, refreshed until it is stopped.

    Nodes are counted in the clusters every ten seconds. -o json and -o yaml print once.
    """
    if once or output != "text":
        summary = call_hub(kubeconfig, data_dir, _poll_once, "reading the fleet")
        print_output(asdict(summary), summary_lines(summary), output)
        return
    call_hub(kubeconfig, data_dir, lambda client: poll_forever(client, interval), progress_text="")


async def _poll_once(client: Client) -> FleetSummary:
    from shoal.assemble.commands.top import FleetPoller  # noqa: PLC0415  the fleet's code loads for long

    poller = FleetPoller(client)
    try:
        return await poller.poll()
    finally:
        await poller.close()


async def poll_forever(client: Client, interval: float) -> None:
    """If standard output is not a terminal, each poll is printed after the other. A hub that answered once may go away
    and come back; one that never answered is an error.
    """
    import asyncio  # noqa: PLC0415

    from shoal.assemble.commands.top import FleetPoller  # noqa: PLC0415

    poller, is_terminal = FleetPoller(client), sys.stdout.isatty()
    lines = summary_lines(await poller.poll())
    try:
        while True:
            _print_screen(lines, is_terminal)
            await asyncio.sleep(interval)
            try:
                lines = summary_lines(await poller.poll())
            except (Unreachable, StatusError) as error:
                lines = [f"no answer since {time.strftime('%H:%M:%S')}: {error}", *lines[1:]]
    finally:
        await poller.close()


def _print_screen(lines: list[str], is_terminal: bool) -> None:
    if not is_terminal:
        click.echo("\n".join([*lines, ""]))
        return
    width, height = shutil.get_terminal_size()
    if len(lines) > height - 1:
        lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines: shoal top --once"]
    click.echo(CURSOR_HOME + "".join(f"{line[:width]}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW, nl=False)


def summary_lines(summary: FleetSummary) -> list[str]:
    ready = sum(one.phase == "Running" for one in summary.workers)
    alive = sum(row.phase == "Ready" for row in summary.clusters)
    waiting = f", {summary.waiting} waiting for a worker" if summary.waiting else ""
    totals = f"{summary.ready_replicas}/{summary.replicas} replicas, {summary.nodes} nodes, {summary.cost:.2f} per hour"
    lines = [f"{ready}/{len(summary.workers)} workers, {alive}/{len(summary.clusters)} clusters{waiting}, {totals}"]
    if summary.workers:
        rows = [[one.name, one.phase, f"{one.clusters}/{one.capacity}", one.location or "-"] for one in summary.workers]
        lines += ["", *format_table([["WORKER", "PHASE", "CLUSTERS", "LOCATION"], *rows])]
    if summary.clusters:
        head = ["CLUSTER", "STATE", "WORKER", "REPLICAS", "NODES", "CPU", "COST/HR"]
        rows = [
            [
                row.name,
                "Unreachable" if row.problem else row.phase,
                row.worker or "-",
                f"{row.ready_replicas}/{row.replicas}",
                "-" if row.nodes is None else f"{row.ready_nodes}/{row.nodes}",
                "-" if row.cpu is None else f"{row.cpu}%",
                "-" if row.cost is None else f"{row.cost:.2f}",
            ]
            for row in summary.clusters
        ]
        lines += ["", *format_table([head, *rows])]
    if summary.kind_clusters:
        rows = [[row.name, row.cluster, row.phase, row.activity or "-"] for row in summary.kind_clusters]
        lines += ["", *format_table([["KINDCLUSTER", "NAME IN KIND", "PHASE", "ACTIVITY"], *rows])]
    return lines
