"""`shoal up`."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.serving import serve, serving_options


@click.command(name="up")
@serving_options
@click.option("--workers", default=0, show_default=True, help="Workers in this process; only 0 for now.")
@click.option("--capacity", default=0, help="Slots of each worker; there are no workers yet.")
def command(workers: int, capacity: int, **serving: Any) -> None:
    """Starts Shoal and serves until it is stopped."""
    if workers or capacity:
        raise click.UsageError("--workers and --capacity: this version has no workers yet; leave them out, or give 0")
    serve(**serving)
