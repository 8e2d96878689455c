"""`shoal hub`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shoal.cli.options.loops import LOOP_NAMES, parse_loop_names
from shoal.cli.options.serve import serve, serve_options
from shoal.kinds.fleet.logicalcluster import PROFILES
from shoal.kinds.rbac.loop_accounts import LOOPS


@click.command(name="hub")
@serve_options
@click.option(
    "--loops",
    callback=parse_loop_names,
    metavar="A,B",
    help=f"Loops to run in this process, of {LOOP_NAMES}; `shoal controllers` runs the others. [all]",
)
@click.option(
    "--no-loops",
    "left_out",
    callback=parse_loop_names,
    metavar="A,B",
    help="Loops not to run in this process; `shoal controllers` runs them. [none]",
)
@click.option(
    "--join-secrets",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="File that names Secrets of the cluster this hub runs in, in which workers beside it find their join token.",
)
@click.option(
    "--root-profile",
    type=click.Choice(PROFILES),
    help="Profile of the root logical cluster; stored with the data. [hub]",
)
def command(
    root_profile: str | None,
    loops: tuple[str, ...] | None,
    left_out: tuple[str, ...] | None,
    join_secrets: Path | None,
    **serving: Any,
) -> None:
    """Runs the API server and its controllers, without workers, until it is stopped."""
    if loops is not None and left_out is not None:
        raise click.UsageError("give either --loops or --no-loops")
    inside = LOOPS.keys() - (left_out or ()) if loops is None else set(loops)
    serve(
        **serving,
        root_profile=root_profile or "",
        outside_loops=frozenset(LOOPS.keys() - inside),
        join_secrets=join_secrets,
    )
