"""`shoal crds`: Shoal's kinds, to install in any cluster."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command(name="crds")
def command() -> None:
    """Prints the CustomResourceDefinitions of Shoal's own kinds, for kubectl apply -f -."""
    found = sorted(files("shoal.kinds").joinpath("crds").iterdir(), key=lambda path: path.name)
    click.echo("---\n".join(path.read_text() for path in found), nl=False)
