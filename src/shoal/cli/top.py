"""`shoal top`: the fleet on one screen, refreshed periodically."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.asking import ask, hub_options
from shoal.cli.printing import output_option, table, tell
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.objects.errors import StatusError

if TYPE_CHECKING:
    from shoal.assemble.top import Fleet

HOME, TO_THE_RIGHT, BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""Moves the cursor to the top left; clears the rest of the line; clears everything below."""


@click.command(name="top")
@click.option("--once", is_flag=True, help="Prints it once, all of it.")
@click.option("--interval", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between looks.")
@output_option()
@hub_options
def command(once: bool, interval: float, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Workers, clusters, replicas, nodes and what they cost an hour, as they are now, until it is stopped.

    Nodes are counted in the clusters themselves, every ten seconds. -o json and -o yaml are one look.
    """
    if once or output != "text":
        found = ask(kubeconfig, data_dir, _one_look, "looking at the fleet")
        tell(asdict(found), text(found), output)
        return
    ask(kubeconfig, data_dir, lambda client: follow(client, interval), doing="")


async def _one_look(client: Client) -> Fleet:
    from shoal.assemble.top import Top  # noqa: PLC0415  the fleet's code loads for long

    top = Top(client)
    try:
        return await top.look()
    finally:
        await top.close()


async def follow(client: Client, interval: float) -> None:
    """If standard output is not a terminal, each poll is printed after the other. A hub that answered once may go away
    and come back; one that never answered is an error.
    """
    import asyncio  # noqa: PLC0415

    from shoal.assemble.top import Top  # noqa: PLC0415

    top, screen = Top(client), sys.stdout.isatty()
    lines = text(await top.look())
    try:
        while True:
            _show(lines, screen)
            await asyncio.sleep(interval)
            try:
                lines = text(await top.look())
            except (Unreachable, StatusError) as error:
                lines = [f"no answer since {time.strftime('%H:%M:%S')}: {error}", *lines[1:]]
    finally:
        await top.close()


def _show(lines: list[str], screen: bool) -> None:
    if not screen:
        click.echo("\n".join([*lines, ""]))
        return
    width, height = shutil.get_terminal_size()
    if len(lines) > height - 1:
        lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines: shoal top --once"]
    click.echo(HOME + "".join(f"{line[:width]}{TO_THE_RIGHT}\n" for line in lines) + BELOW, nl=False)


def text(found: Fleet) -> list[str]:
    ready = sum(one.phase == "Running" for one in found.workers)
    alive = sum(row.phase == "Ready" for row in found.clusters)
    waiting = f", {found.waiting} waiting for a worker" if found.waiting else ""
    moving = f"{found.ready_replicas}/{found.replicas} replicas, {found.nodes} nodes, {found.cost:.2f} an hour"
    lines = [f"{ready}/{len(found.workers)} workers, {alive}/{len(found.clusters)} clusters{waiting}, {moving}"]
    if found.workers:
        rows = [[one.name, one.phase, f"{one.clusters}/{one.capacity}", one.location or "-"] for one in found.workers]
        lines += ["", *table([["WORKER", "PHASE", "CLUSTERS", "LOCATION"], *rows])]
    if found.clusters:
        head = ["CLUSTER", "STATE", "WORKER", "REPLICAS", "NODES", "CPU", "AN HOUR"]
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
            for row in found.clusters
        ]
        lines += ["", *table([head, *rows])]
    return lines
