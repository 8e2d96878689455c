"""`shoal up`."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.options.serve import serve, serve_options


@click.command(name="up")
@serve_options
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(0, 64), help="Number of Workers in this process."
)
@click.option(
    "--capacity", default=100, show_default=True, type=click.IntRange(0), help="Maximum number of clusters per Worker."
)
def command(workers: int, capacity: int, **serving: Any) -> None:
    """Runs a hub and its workers until it is stopped."""
    from shoal.assemble.server.hub import InProcessWorkers  # noqa: PLC0415  the server takes a second to load

    serve(**serving, workers=InProcessWorkers(workers, capacity))
