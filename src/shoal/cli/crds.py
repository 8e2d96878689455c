"""`shoal crds`: Shoal's CustomResourceDefinitions, to install in any cluster."""

from __future__ import annotations

import click


@click.command(name="crds")
def command() -> None:
    """Prints the CustomResourceDefinitions of Shoal's own kinds, for kubectl apply -f -."""
    from shoal.kinds.own import PLACES, definition_texts  # noqa: PLC0415  loads for longer than help may take

    click.echo("---\n".join(text for place in PLACES for text in definition_texts(place)), nl=False)
