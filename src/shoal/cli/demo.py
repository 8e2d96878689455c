"""`shoal demo`: a guided tour of a fleet."""

from __future__ import annotations

import time

import click


@click.command(name="demo")
def command() -> None:
    """Builds a fleet, scales a Deployment until nodes are provisioned, stops a worker, and deletes everything.

    It takes less than two minutes. A hub and two workers run in this process, in a temporary directory; nodes are
    simulated.
    """
    from shoal.assemble.commands.demo import run_demo  # noqa: PLC0415  the server takes a second to load

    began = time.monotonic()
    run_demo(lambda text: click.echo(f"{time.monotonic() - began:4.0f} s  {text}"))
