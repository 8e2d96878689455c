"""`shoal up`."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.serving import serve, serving_options


@click.command(name="up")
@serving_options
@click.option("--workers", default=2, show_default=True, type=click.IntRange(0, 64), help="Workers in this process.")
@click.option(
    "--capacity", default=100, show_default=True, type=click.IntRange(0), help="Clusters each of them hosts at most."
)
def command(workers: int, capacity: int, **serving: Any) -> None:
    """Starts a hub and its workers, and serves until it is stopped."""
    from shoal.assemble.up import WorkersInside  # noqa: PLC0415  the server takes a second to load

    serve(**serving, workers=WorkersInside(workers, capacity))
