"""`shoal hub`."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli.options.serve import serve, serve_options
from shoal.kinds.fleet.logicalcluster import PROFILES


@click.command(name="hub")
@serve_options
@click.option(
    "--root-profile",
    type=click.Choice(PROFILES),
    help="Profile of the root logical cluster; stored with the data. [hub]",
)
def command(root_profile: str | None, **serving: Any) -> None:
    """Runs the API server and its controllers, without workers, until it is stopped."""
    serve(**serving, root_profile=root_profile or "")
