"""`shoal up`."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.options.kind import kind_options, provided_kind_images
from shoal.cli.options.serve import serve, serve_options


@click.command(name="up")
@serve_options
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(0, 64), help="Number of Workers in this process."
)
@click.option(
    "--capacity",
    type=click.IntRange(0),
    help="Maximum number of clusters per Worker. [as the Worker objects say, 100 at first]",
)
@kind_options
def command(workers: int, capacity: int | None, kind: bool, kind_images: dict[str, str], **serving: Any) -> None:
    """Runs a hub and its workers until it is stopped."""
    from shoal.assemble.server.hub import InProcessWorkers  # noqa: PLC0415  the server takes a second to load

    images = provided_kind_images(kind=kind, kind_images=kind_images)
    serve(**serving, workers=InProcessWorkers(workers, capacity, images))
